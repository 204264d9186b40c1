//! What a stage may rely on, seen through the driver: no broker, no clock.

mod invalid;
mod keys;
mod reference;
mod timers;
