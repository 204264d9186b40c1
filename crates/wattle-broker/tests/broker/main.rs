//! The broker seen by librdkafka, the client that it is for. One module a promise.

mod folders;
mod groups;
mod hooks;
mod listeners;
mod records;
mod restarts;
mod support;
mod topics;
mod transactions;
