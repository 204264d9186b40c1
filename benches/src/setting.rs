//! What all measurements of one run share: a broker with the load, and the contenders, ready to start.

use std::time::Instant;

use crate::args::LoadArgs;
use crate::contender::Kind;
use crate::kit::Kit;
use crate::scratch::Scratch;
use crate::{Result, broker, kafka, latency, throughput};

const WARM_UP_SECONDS: u64 = 10;

/// Ends with everything in it.
pub(crate) struct Setting {
    pub(crate) kit: Kit,
    pub(crate) scratch: Scratch,
    pub(crate) brokers: String,
    pub(crate) load: LoadArgs,
}

impl Setting {
    /// The topic that holds the load.
    pub(crate) const INPUT: &str = "records";

    /// Builds the contenders, starts the broker, writes the load and warms the broker up.
    pub(crate) fn prepare(kinds: &[Kind], load: &LoadArgs, latency_too: bool) -> Result<Self> {
        let scratch = Scratch::new()?;
        let kit = Kit::prepare(kinds, &scratch)?;
        eprintln!("starting Kafka {}", broker::KAFKA_VERSION);
        let brokers = broker::start(&scratch)?;
        let began = Instant::now();
        kafka::create_topic(&brokers, Self::INPUT, load.partitions)?;
        kafka::load(&brokers, Self::INPUT, load.records, load.bytes())?;
        eprintln!("loaded {} records of {} bytes in {:.1} s", load.records, load.size, began.elapsed().as_secs_f64());
        let setting = Setting { kit, scratch, brokers, load: load.clone() };
        setting.warm_up(latency_too)?;
        Ok(setting)
    }

    /// The first to run would pay for the broker's compiler and empty caches.
    fn warm_up(&self, latency_too: bool) -> Result<()> {
        let throughput = throughput::measure(self, Kind::Raw, "warm-up", None)?;
        eprintln!("warm-up, not counted: {throughput}");
        if latency_too {
            let latency =
                latency::measure(self, Kind::RawEach, "warm-up-latency", self.load.partitions, WARM_UP_SECONDS)?;
            eprintln!("warm-up, not counted: {latency}");
        }
        Ok(())
    }
}
