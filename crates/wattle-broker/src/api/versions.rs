//! ApiVersions: what is offered.

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiKey, ApiVersionsResponse, ResponseKind};

use crate::api::{cluster, configs, fetch, groups, list_offsets, metadata, offsets, produce, topics, transactions};
use crate::types::Code;

const OWN: &[(ApiKey, i16, i16)] = &[(ApiKey::ApiVersions, 0, 4)];

/// Every table of the families.
const FAMILIES: &[&[(ApiKey, i16, i16)]] = &[
    OWN,
    cluster::APIS,
    configs::APIS,
    fetch::APIS,
    groups::APIS,
    list_offsets::APIS,
    metadata::APIS,
    offsets::APIS,
    produce::APIS,
    topics::APIS,
    transactions::APIS,
];

fn offered() -> impl Iterator<Item = (ApiKey, i16, i16)> {
    FAMILIES.iter().flat_map(|family| family.iter().copied())
}

/// The lowest and the highest version of a kind of request, if it is offered.
pub(crate) fn versions(key: ApiKey) -> Option<(i16, i16)> {
    offered().find(|(offered, ..)| *offered == key).map(|(_, min, max)| (min, max))
}

/// Whether a request is decoded and answered: those that are offered, and one that is answered with a clear refusal.
pub(crate) fn accepts(key: ApiKey, version: i16) -> bool {
    let range = if key == ApiKey::ConsumerGroupHeartbeat { Some((0, 1)) } else { versions(key) };
    range.is_some_and(|(min, max)| (min..=max).contains(&version))
}

pub(super) fn api_versions() -> ApiVersionsResponse {
    let mut keys: Vec<_> = offered()
        .map(|(key, min, max)| {
            ApiVersion::default().with_api_key(key as i16).with_min_version(min).with_max_version(max)
        })
        .collect();
    keys.sort_by_key(|key| key.api_key);
    ApiVersionsResponse::default().with_api_keys(keys)
}

/// For a client that asks in a version which is not offered; to be encoded in version 0.
pub(crate) fn unsupported_api_versions() -> ResponseKind {
    ResponseKind::ApiVersions(api_versions().with_error_code(Code::UnsupportedVersion.code()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_is_offered_once_in_versions_that_can_be_encoded() {
        let mut seen = BTreeSet::new();
        for (key, min, max) in offered() {
            assert!(seen.insert(key as i16), "{key:?} twice");
            let known = key.valid_versions();
            assert!(known.min <= min && min <= max && max <= known.max, "{key:?} {min}..={max}");
        }
    }
}
