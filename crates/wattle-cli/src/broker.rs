//! `wattle broker`: the embedded broker alone.

use std::time::Duration;

use wattle::Stop;
use wattle_broker::Broker;

use crate::args::BrokerArgs;
use crate::embedded::refused;
use crate::failure::Failure;
use crate::signals::Listener;
use crate::status::Status;

/// A stop has nothing to finish: everything that was answered is on the disk.
const GRACE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_secs(1);

/// Serves until a signal comes.
pub(crate) fn run(args: &BrokerArgs, status: Status) -> Result<(), Failure> {
    let stop = Stop::new();
    let _listener = Listener::start(stop.clone(), GRACE, status)?;
    let mut builder = Broker::builder().listen(&args.listen).folder(&args.data);
    if args.auto_create_topics > 0 {
        builder = builder.auto_create_topics(args.auto_create_topics);
    }
    let broker = builder.start().map_err(|error| refused(&error))?;
    let data = args.data.display();
    status.note(&format!("broker on {}, data in {data} (development only; Ctrl-C ends it)", broker.address()));
    while !stop.is_stopped() {
        stop.wait(GLANCE);
    }
    broker.stop();
    Ok(())
}
