//! Ports for listeners of our own.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Below the range that outgoing connections take theirs from: a broker that is killed finds its ports free again.
const ALL: Range<u16> = 10_000..32_000;
/// So many of them a run takes at a time.
const BLOCK: u16 = 200;

/// What is left of the blocks that are locked by this process: runs beside each other never have the same.
struct Blocks {
    locks: Vec<File>,
    left: Range<u16>,
}

/// Ports that are free now and given to nobody else, here or in another run.
pub(crate) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { locks: Vec::new(), left: 0..0 });
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ports = [0; N];
    for port in &mut ports {
        *port = loop {
            match blocks.left.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
                Some(port) => break port,
                None => blocks.lock_another()?,
            }
        };
    }
    Ok(ports)
}

impl Blocks {
    /// A lock ends with its process, however that ends.
    fn lock_another(&mut self) -> io::Result<()> {
        let folder = std::env::temp_dir().join("wattle-e2e-ports");
        fs::create_dir_all(&folder)?;
        for first in ALL.step_by(BLOCK.into()) {
            let lock = File::create(folder.join(first.to_string()))?;
            if lock.try_lock().is_ok() {
                self.locks.push(lock);
                self.left = first..first + BLOCK;
                return Ok(());
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }
}
