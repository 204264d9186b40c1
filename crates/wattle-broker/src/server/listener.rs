//! Listening sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::control::Controls;
use crate::core::Core;
use crate::error::Error;
use crate::server::Address;
use crate::server::clients::Clients;
use crate::server::connection::Connection;
use crate::server::session::Session;

/// One address to listen on.
#[derive(Clone, Debug)]
pub(crate) struct Listen {
    /// `host:port`; port 0 is any free one.
    pub(crate) address: String,
    /// What clients are told, where it is not what they connected to.
    pub(crate) advertised: Option<Address>,
}

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    local: SocketAddr,
    advertised: Option<Address>,
}

/// The thread that accepts.
#[derive(Debug)]
pub(crate) struct Accepting {
    thread: thread::JoinHandle<()>,
    local: SocketAddr,
}

impl Listener {
    /// Binds; connections queue up until [`Listener::accept`].
    pub(crate) fn bind(listen: &Listen) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address: listen.address.clone(), source };
        let socket = TcpListener::bind(&listen.address).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, local, advertised: listen.advertised.clone() })
    }

    /// Where it listens, with the port that it got.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// What a client on this machine connects to.
    pub(crate) fn address(&self) -> Address {
        self.advertised.clone().unwrap_or_else(|| self.local.into())
    }

    /// Starts the thread that accepts connections, each with a thread of its own.
    pub(crate) fn accept(self, core: &Arc<Core>, clients: &Arc<Clients>, controls: &Arc<Controls>) -> Accepting {
        let (core, clients, controls) = (core.clone(), clients.clone(), controls.clone());
        let local = self.local;
        let run = move || {
            for stream in self.socket.incoming() {
                if core.is_stopping() {
                    return;
                }
                match stream.and_then(|stream| serve(stream, self.advertised.as_ref(), &core, &clients, &controls)) {
                    Ok(()) => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        // Out of descriptors: they come back when others leave.
                        clients.sleep(Duration::from_millis(50));
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("broker-accept".into()).spawn(run);
        Accepting { thread: thread.expect("the system can start a thread"), local }
    }
}

impl Accepting {
    /// Waits for its end, after the core was stopped.
    pub(crate) fn join(self) {
        let mut wake = self.local;
        if wake.ip().is_unspecified() {
            wake.set_ip(match wake.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        // The accepting thread looks at the core only when a connection comes.
        match TcpStream::connect_timeout(&wake, Duration::from_secs(1)) {
            Ok(_) => drop(self.thread.join()),
            Err(error) => tracing::warn!(address = %wake, %error, "cannot end the listener"),
        }
    }
}

fn serve(
    stream: TcpStream,
    advertised: Option<&Address>,
    core: &Arc<Core>,
    clients: &Arc<Clients>,
    controls: &Arc<Controls>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr()?;
    // Behind a wildcard address, what the client connected to is what it can connect to again.
    let advertised = match advertised {
        Some(advertised) => advertised.clone(),
        None => stream.local_addr()?.into(),
    };
    let Some(entry) = clients.enter(stream.try_clone()?) else { return Ok(()) };
    let (core, controls) = (core.clone(), controls.clone());
    let session = Session { peer, advertised, controls, core };
    let run = move || Connection { stream, session, entry }.serve();
    thread::Builder::new().name("broker-client".into()).spawn(run)?;
    Ok(())
}
