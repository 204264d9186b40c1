//! What tells the workers of an application apart in scope `worker`: the end of their transactional ids.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::config::WorkerConfig;

/// The `group_instance_id`, so that a restart fences its own former run at once; without one a number that no other process has.
pub(super) fn name(config: &WorkerConfig) -> String {
    // Seeded by the operating system: processes in containers may share host name and pid.
    let number = || format!("{:016x}", RandomState::new().build_hasher().finish());
    config.group_instance_id.clone().unwrap_or_else(number)
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
    }
}
