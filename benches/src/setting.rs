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
    /// The topic that holds the load over so many partitions.
    pub(crate) fn input(partitions: i32) -> String {
        format!("records-{partitions}")
    }

    /// Builds the contenders and starts the broker.
    pub(crate) fn start(kinds: &[Kind], load: &LoadArgs) -> Result<Self> {
        let scratch = Scratch::new()?;
        let kit = Kit::prepare(kinds, &scratch)?;
        eprintln!("starting Kafka {}", broker::KAFKA_VERSION);
        let brokers = broker::start(&scratch)?;
        Ok(Setting { kit, scratch, brokers, load: load.clone() })
    }

    /// The same, writes the load once for each number of partitions, and warms the broker up.
    pub(crate) fn prepare(kinds: &[Kind], load: &LoadArgs, partitions: &[i32], latency_too: bool) -> Result<Self> {
        let setting = Self::start(kinds, load)?;
        for partitions in partitions {
            setting.write_load(*partitions)?;
        }
        setting.warm_up(partitions, latency_too)?;
        Ok(setting)
    }

    fn write_load(&self, partitions: i32) -> Result<()> {
        let (began, topic, load) = (Instant::now(), Self::input(partitions), &self.load);
        kafka::create_topic(&self.brokers, &topic, partitions)?;
        kafka::load(&self.brokers, &topic, load.records, load.bytes())?;
        let took = began.elapsed().as_secs_f64();
        eprintln!("loaded {} records of {} bytes over {partitions} partitions in {took:.1} s", load.records, load.size);
        Ok(())
    }

    /// The first to run would pay for the broker's compiler and empty caches.
    fn warm_up(&self, partitions: &[i32], latency_too: bool) -> Result<()> {
        for partitions in partitions {
            let throughput = throughput::measure(self, Kind::Raw, &format!("warm-up-{partitions}"), *partitions, None)?;
            eprintln!("warm-up, not counted: {throughput}");
        }
        if let Some(partitions) = partitions.first().filter(|_| latency_too) {
            let latency = latency::measure(self, Kind::RawEach, "warm-up-latency", *partitions, WARM_UP_SECONDS)?;
            eprintln!("warm-up, not counted: {latency}");
        }
        Ok(())
    }
}
