//! What tells the workers of an application apart in scope `worker`: the end of their transactional ids.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::config::{TransactionScope, WorkerConfig};
use crate::kafka::CLIENT;

/// The `group_instance_id`, so that a restart fences its own former run at once; without one a number that no other process has.
pub(super) fn name(config: &WorkerConfig) -> String {
    // Seeded by the operating system: processes in containers may share host name and pid.
    let number = || format!("{:016x}", RandomState::new().build_hasher().finish());
    config.group_instance_id.clone().unwrap_or_else(number)
}

/// The consumer's client id. In scope `worker` it tells the processes of a group apart, so that others see whether the one that has an open
/// transaction lives; a user's own stays as it is.
pub(super) fn client_id(config: &WorkerConfig, instance: &str) -> String {
    match (config.consumer_properties.get("client.id"), config.transaction_scope) {
        (Some(given), _) => given.clone(),
        (None, TransactionScope::Task) => format!("{CLIENT}{}", config.name),
        (None, TransactionScope::Worker) => format!("{CLIENT}{}-{instance}", config.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Delivery;

    #[test]
    fn it_is_the_given_one_or_a_new_one() {
        let delivery = Delivery::ExactlyOnce { transactional_id: "t".to_owned() };
        let mut config = WorkerConfig::new("n", "b", "g", ["a"], delivery);
        assert_ne!(name(&config), name(&config));
        config.group_instance_id = Some("one".to_owned());
        assert_eq!(name(&config), "one");
        assert_eq!(client_id(&config, "one"), "wattle-n");
        config.transaction_scope = TransactionScope::Worker;
        assert_eq!(client_id(&config, "one"), "wattle-n-one");
        config.consumer_properties.insert("client.id".to_owned(), "mine".to_owned());
        assert_eq!(client_id(&config, "one"), "mine");
    }
}
