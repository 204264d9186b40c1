//! The consumer loop: one member of the group. It polls, hands assignments to lanes, and ends everything in order.

mod assignment;
mod descriptors;
mod desk;
mod fatal;
mod identity;
mod instance;
mod lanes;
mod members;
mod monitor;
mod orphan;
mod protocol;
mod restores;
mod scope;
mod shared;
mod startup;
mod stop;
mod watchdog;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use assignment::Incarnation;
pub(crate) use desk::Question;
pub use desk::States;
pub use monitor::{Lag, Membership, Monitor, PartitionLag};
pub use restores::Restore;
#[cfg(any(test, fuzzing))]
pub(crate) use restores::Restores;
pub(crate) use restores::Restoring;
pub(crate) use shared::{Router, Shared};
pub(crate) use startup::{ChangelogFacts, Limits, check_topics, check_transaction_timeout};
pub use stop::Stop;

use crate::config::{GroupProtocol, WorkerConfig};
use crate::error::Error;
use crate::kafka::{Admin, Consumer, GroupView};
use crate::stage::{Opened, Transformer};
use crate::state::StateFolder;
use crate::task::process;
use identity::{Member, Watch};
use lanes::Lanes;
use members::OwnGroup;
use protocol::Joining;

/// A question to the group's coordinator.
const ASK: Duration = Duration::from_secs(5);
/// How often the loop looks at what is not an event of the consumer.
const TICK: Duration = Duration::from_millis(50);

/// One member of the consumer group: a consumer, and a lane for each input partition that it is assigned, or one for all of them.
pub struct Worker<S> {
    config: WorkerConfig,
    stage: S,
    monitor: Monitor,
}

impl<S: Transformer> Worker<S> {
    /// A worker that runs `stage`. Nothing connects yet.
    ///
    /// # Errors
    /// [`Error::Config`] with every problem of the configuration.
    pub fn new(config: WorkerConfig, stage: S) -> Result<Self, Error> {
        config.validate()?;
        if stage.is_stateful() != config.changelog_topic.is_some() {
            let problem = "changelog_topic goes with a stage that keeps state, and such a stage needs one";
            return Err(Error::Config { problems: vec![problem.to_owned()] });
        }
        Ok(Worker { config, stage, monitor: Monitor::default() })
    }

    /// A view of the worker that stays valid while it runs and after.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Runs until `stop`, or until an error. Blocks the calling thread, which must not be one of an async runtime.
    ///
    /// # Errors
    /// See [`Error`]. Whatever was not committed is processed again by the next run.
    pub fn run(self, stop: &Stop) -> Result<(), Error> {
        let Worker { mut config, mut stage, monitor } = self;
        process::Runtime::check()?;
        let admin = Admin::new(&config.name, &config.brokers, &config.consumer_properties)?;
        startup::find_cluster(&admin, &mut config)?;
        let states = startup::state_folder(&config)?;
        let topology = startup::check(&admin, &config)?;
        let (name, grace) = (config.name.clone(), config.grace_period);
        let Some(opened) = Opened::open(&name, &mut stage, stop)? else { return Ok(()) };
        let stage = Arc::new(stage);
        let outcome = serve(config, stage.clone(), monitor, admin, (states, topology), stop);
        // What is left of the grace period behind the lanes' share.
        let closed = opened.close(&name, &*stage, grace / 4);
        outcome.and(closed)
    }
}

/// From joining the group to leaving it.
fn serve<S: Transformer>(
    config: WorkerConfig,
    stage: Arc<S>,
    monitor: Monitor,
    admin: Admin,
    (states, topology): (Option<StateFolder>, startup::Topology),
    stop: &Stop,
) -> Result<(), Error> {
    let router = Arc::new(Router::new(&config.name));
    let partitions = config.topics.len() * usize::try_from(topology.partitions).unwrap_or_default();
    let view = Arc::new(GroupView::new(&config)?);
    let own = OwnGroup::of(&config);
    if let Some(own) = &own {
        own.check(&view)?;
    }
    let instance = instance::name(&config);
    let client_id = instance::client_id(&config, &instance);
    let consumer = Consumer::new(&config, &client_id, partitions, router.clone())?;
    let for_monitor = Arc::new(consumer.clone());
    let shared = Arc::new(Shared {
        topics: config.topics.iter().map(|topic| Arc::from(topic.as_str())).collect(),
        stage,
        topology,
        consumer,
        view,
        assignment: router.assignment.clone(),
        metrics: monitor.metrics.clone(),
        restores: monitor.restores.clone(),
        desk: monitor.desk.clone(),
        states,
        fatal: Arc::default(),
        watchdog: watchdog::Watchdog::default(),
        admin: Arc::new(admin),
        first: std::sync::Mutex::default(),
        ended: orphan::Ended::default(),
        instance,
        client_id,
        config,
    });
    monitor.attach(&for_monitor, shared.view.clone(), shared.all_partitions());
    shared.desk.begin(shared.topology.partitions);
    let looking = Stop::new();
    let member = (shared.config.group_protocol == GroupProtocol::Consumer).then(Member::default);
    let watch = Watch {
        name: shared.config.name.clone(),
        admin: shared.admin.clone(),
        ids: shared.topology.ids.clone(),
        changelog: shared.config.changelog_topic.clone(),
        view: shared.view.clone(),
        own,
        member: member.clone(),
    };
    watch.start(shared.fatal.clone(), looking.clone())?;
    let mut lanes = Lanes::new(shared.clone());
    let outcome = poll(&shared, &router, &mut lanes, member.as_ref(), stop);
    looking.stop();
    let closed = close(&shared, &router, lanes);
    outcome.and(closed)
}

/// Serves the group until a stop or an error.
fn poll<S: Transformer>(
    shared: &Shared<S>,
    router: &Router,
    lanes: &mut Lanes<S>,
    member: Option<&Member>,
    stop: &Stop,
) -> Result<(), Error> {
    let config = &shared.config;
    tracing::info!(stream = %config.name, protocol = config.group_protocol.name(), "joins the group {}", config.group);
    let subscribed = shared.consumer.subscribe(&config.topics);
    subscribed.map_err(|source| Error::Kafka { what: format!("{}: subscribe", config.name), source })?;
    let mut joining = Joining::new(shared.topology.patience, Instant::now());
    let (is_member, answers) = (|| shared.consumer.token().is_some(), || shared.view.group(ASK).is_ok());
    while !stop.is_stopped() {
        shared.consumer.poll(TICK).map_err(|source| protocol::explain(config, source))?;
        joining.look(config, Instant::now(), is_member, answers)?;
        if let Some(member) = member {
            let id = shared.consumer.token().map(|token| token.member_id());
            *member.lock().unwrap_or_else(PoisonError::into_inner) = id;
        }
        if let Some(held) = router.take_change() {
            lanes.follow(&held)?;
        }
        lanes.start_waiting()?;
        router.set_lanes(lanes.threads());
        lanes.check_partial()?;
        if let Some(error) = shared.fatal.take().or_else(|| shared.watchdog.bite()) {
            return Err(error);
        }
    }
    Ok(())
}

/// Gives everything back, also after an error: batches that are processed are committed, others dropped; then the member leaves the
/// group, so that others go on at once.
fn close<S: Transformer>(shared: &Arc<Shared<S>>, router: &Router, lanes: Lanes<S>) -> Result<(), Error> {
    let grace = shared.config.grace_period;
    let deadline = Instant::now() + grace * 3 / 4;
    shared.consumer.unsubscribe();
    while !router.assignment.is_empty() && !shared.consumer.is_dead() && Instant::now() < deadline {
        // What the client reports now does not matter any more: nothing new is begun.
        drop(shared.consumer.poll(TICK));
    }
    // Also where the revocation did not come: from here on nobody gets a permit.
    router.assignment.revoke(|_| true, deadline.saturating_duration_since(Instant::now()));
    if !lanes.join(deadline) {
        let what = format!("{}: stopping its lanes", shared.config.name);
        return Err(Error::Stuck { what, within: grace * 3 / 4 });
    }
    shared.consumer.close(deadline);
    match shared.fatal.take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
