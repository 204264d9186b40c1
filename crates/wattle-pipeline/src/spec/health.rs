//! `health_check` of a file: where its process answers whether it is well.

use std::time::Duration;

use super::host;
use crate::yaml::{Field, Map};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthCheck {
    pub(crate) address: String,
    pub(crate) health_path: String,
    pub(crate) readiness_path: String,
    pub(crate) liveness_path: String,
    /// A batch that is not committed for longer is a problem.
    pub(crate) stuck_after: Duration,
}

/// The path of the metrics.
pub(crate) const METRICS: &str = "/metrics";

const ADDRESS: &str = "127.0.0.1:8080";
const STUCK: Duration = Duration::from_secs(30);
/// `None` where it is not enabled.
pub(super) fn read(field: &Field) -> Option<HealthCheck> {
    let mut map = Map::of(field)?;
    let enabled = map.get("enabled").and_then(|field| field.bool()).unwrap_or(true);
    let address = map.get("address").and_then(|field| host::address(&field)).unwrap_or_else(|| ADDRESS.to_owned());
    let mut taken = vec![METRICS.to_owned()];
    let mut path = |key: &'static str, default: &str| {
        let path = map.get(key).and_then(|field| path(&field, &taken)).unwrap_or_else(|| default.to_owned());
        taken.push(path.clone());
        path
    };
    let health_path = path("health_path", "/health");
    let readiness_path = path("readiness_path", "/readiness");
    let liveness_path = path("liveness_path", "/liveness");
    let stuck_after = map.get("stuck_after").and_then(|field| field.time()).unwrap_or(STUCK);
    map.finish();
    enabled.then_some(HealthCheck { address, health_path, readiness_path, liveness_path, stuck_after })
}

fn path(field: &Field, taken: &[String]) -> Option<String> {
    let path = field.name()?;
    if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
        field.problem("must be a path that begins with /");
    } else if taken.contains(&path) {
        field.problem(format!("{path} is already the path of something else"));
    } else {
        return Some(path);
    }
    None
}
