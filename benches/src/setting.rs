//! What all measurements of one run share: a broker with the load, and the contenders, ready to start.

use std::time::Instant;

use crate::args::LoadArgs;
use crate::contender::{Contender, Kind};
use crate::kafka::KEYS;
use crate::kit::{Kit, Program};
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
    /// The topic that holds the load with so many keys over so many partitions.
    pub(crate) fn input(partitions: i32, keys: u64) -> String {
        format!("records-{partitions}-{keys}")
    }

    /// Builds the contenders and starts the broker.
    pub(crate) fn start(contenders: impl Iterator<Item = impl Contender>, load: &LoadArgs) -> Result<Self> {
        let scratch = Scratch::new()?;
        let programs: Vec<Program> = contenders.map(Contender::program).collect();
        let kit = Kit::prepare(&programs, &scratch)?;
        eprintln!("starting Kafka {}", broker::KAFKA_VERSION);
        let brokers = broker::start(&scratch)?;
        Ok(Setting { kit, scratch, brokers, load: load.clone() })
    }

    /// The same for those who copy; writes the load once for each number of partitions, and warms the broker up.
    pub(crate) fn prepare(kinds: &[Kind], load: &LoadArgs, partitions: &[i32], latency_too: bool) -> Result<Self> {
        let setting = Self::start(kinds.iter().copied(), load)?;
        for partitions in partitions {
            setting.write_load(*partitions, KEYS)?;
        }
        for partitions in partitions {
            setting.warm_up(Kind::Raw, *partitions)?;
        }
        if let Some(partitions) = partitions.first().filter(|_| latency_too) {
            setting.warm_up_latency(Kind::RawEach, *partitions)?;
        }
        Ok(setting)
    }

    /// Writes the load to its topic.
    pub(crate) fn write_load(&self, partitions: i32, keys: u64) -> Result<()> {
        let (began, topic, load) = (Instant::now(), Self::input(partitions, keys), &self.load);
        kafka::create_topic(&self.brokers, &topic, partitions)?;
        kafka::load(&self.brokers, &topic, load.records, load.bytes(), keys)?;
        let took = began.elapsed().as_secs_f64();
        eprintln!(
            "loaded {} records of {} bytes with {keys} keys over {partitions} partitions in {took:.1} s",
            load.records, load.size
        );
        Ok(())
    }

    /// The first to run would pay for the broker's compiler and empty caches.
    pub(crate) fn warm_up(&self, contender: impl Contender, partitions: i32) -> Result<()> {
        let throughput = throughput::measure(self, contender, &format!("warm-up-{partitions}"), partitions, None)?;
        eprintln!("warm-up, not counted: {throughput}");
        Ok(())
    }

    /// The same for the steady rate.
    pub(crate) fn warm_up_latency(&self, contender: impl Contender, partitions: i32) -> Result<()> {
        let latency = latency::measure(self, contender, "warm-up-latency", partitions, WARM_UP_SECONDS)?;
        eprintln!("warm-up, not counted: {latency}");
        Ok(())
    }
}
