//! The project's own broker, in this process.

use std::io;
use std::path::Path;

use super::{Kind, Server};
use crate::harness::mode::Protocol;
use crate::harness::ports::free_ports;
use crate::harness::proxy::Proxy;

/// It needs nothing.
pub(super) const KIND: Kind = Kind {
    name: "embedded",
    pace: 10,
    protocols: &[Protocol::Classic],
    missing: || None,
    new: |folder, _| Ok(Box::new(Embedded::new(folder)?)),
};

struct Embedded {
    broker: wattle_broker::Broker,
    address: String,
    proxy: Proxy,
}

impl Embedded {
    fn new(folder: &Path) -> io::Result<Self> {
        let [port, behind, front] = free_ports()?;
        let address = format!("127.0.0.1:{port}");
        let proxy = Proxy::start(front, behind)?;
        let broker = wattle_broker::Broker::builder()
            .listen(&address)
            .listen_advertised(format!("127.0.0.1:{behind}"), proxy.address())
            .folder(folder)
            .start()
            .map_err(io::Error::other)?;
        Ok(Embedded { broker, address, proxy })
    }
}

impl Server for Embedded {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn kill(&self) {
        self.broker.kill();
    }

    fn start_again(&self) {
        if self.broker.address().is_empty() {
            self.broker.restart().expect("a broker that was killed starts again");
        }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn as_embedded(&self) -> Option<&wattle_broker::Broker> {
        Some(&self.broker)
    }
}
