//! HTTP for those who are asked by others: inputs, health checks, metrics.

mod request;
mod server;

pub(crate) use request::{Answer, Request, reply};
pub(crate) use server::{Limits, Server};
