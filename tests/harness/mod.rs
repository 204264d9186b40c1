//! What the promises are tested with: brokers of our own, separate processes, independent clients, and an oracle.
//!
//! `context` starts the brokers and the binary under test once; a promise gets a `room`: a kind of broker, a `mode`, its own names and
//! folder. `process` spawns and signals `wattle`; `load` and `transaction` write input; `cluster` looks at what a broker holds (`members`
//! at its groups, `wire` at what no client offers, `raw` and `acl` by it), and `ledger` judges it; `proxy` holds a client's requests back; `http` is a client of inputs, `receiver` what
//! outputs of type `http` write to, `mqtt` a broker of messages, and `postgres` a database; `watchdog` ends
//! everything even if this process is killed, and `failure` is what a test that fails has to say.

pub(crate) mod acl;
pub(crate) mod broker;
pub(crate) mod cluster;
pub(crate) mod context;
pub(crate) mod failure;
pub(crate) mod http;
pub(crate) mod ledger;
pub(crate) mod load;
mod members;
pub(crate) mod mode;
pub(crate) mod mqtt;
pub(crate) mod pipeline;
pub(crate) mod ports;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod raw;
pub(crate) mod receiver;
pub(crate) mod room;
pub(crate) mod table;
pub(crate) mod transaction;
pub(crate) mod wait;
pub(crate) mod watchdog;
pub(crate) mod wire;
