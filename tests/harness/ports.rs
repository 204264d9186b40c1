//! Ports for listeners of our own.

use std::io;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

/// Ports that are free now and given to nobody else here, from below the range that outgoing connections take theirs from: a
/// broker that is killed finds its ports free again.
pub(crate) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    static NEXT: Mutex<u16> = Mutex::new(0);
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    if *next == 0 {
        // Runs that begin at the same time have neighbouring numbers, and must not take each other's ports.
        *next = 10_000 + u16::try_from(std::process::id() % 200 * 100).expect("below 20 000");
    }
    let mut ports = [0; N];
    for port in &mut ports {
        *port = (*next..32_000)
            .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
            .ok_or(io::ErrorKind::AddrInUse)?;
        *next = *port + 1;
    }
    Ok(ports)
}
