//! FindCoordinator and DescribeCluster: everything is the only node, at the address of the listener that was asked.

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{
    ApiKey, BrokerId, DescribeClusterRequest, DescribeClusterResponse, FindCoordinatorRequest, FindCoordinatorResponse,
};

use crate::api::{NODE, text};
use crate::core::Core;
use crate::server::Address;
use crate::types::Code;

pub(super) const APIS: &[(ApiKey, i16, i16)] = &[(ApiKey::FindCoordinator, 0, 4), (ApiKey::DescribeCluster, 0, 2)];

/// Groups and transactional ids have coordinators here; share groups have not.
const KEY_TYPES: [i8; 2] = [0, 1];

pub(super) fn find_coordinator(
    request: FindCoordinatorRequest,
    version: i16,
    address: &Address,
) -> FindCoordinatorResponse {
    let response = FindCoordinatorResponse::default();
    let (node, host, port) = (BrokerId(NODE), text(&address.host), i32::from(address.port));
    let known = KEY_TYPES.contains(&request.key_type);
    let code = if known { 0 } else { Code::InvalidRequest.code() };
    if version < 4 {
        let response = response.with_error_code(code);
        return if known { response.with_node_id(node).with_host(host).with_port(port) } else { response };
    }
    let coordinator = |key| {
        let coordinator = Coordinator::default().with_key(key).with_error_code(code);
        if known { coordinator.with_node_id(node).with_host(host.clone()).with_port(port) } else { coordinator }
    };
    response.with_coordinators(request.coordinator_keys.into_iter().map(coordinator).collect())
}

pub(super) fn describe_cluster(
    core: &Core,
    request: DescribeClusterRequest,
    version: i16,
    address: &Address,
) -> DescribeClusterResponse {
    let response = DescribeClusterResponse::default();
    if version >= 1 && request.endpoint_type != 1 {
        let message = "only brokers are described here, there are no controllers";
        let code = Code::UnsupportedEndpointType.code();
        return response
            .with_endpoint_type(request.endpoint_type)
            .with_error_code(code)
            .with_error_message(Some(text(message)));
    }
    let broker = DescribeClusterBroker::default()
        .with_broker_id(BrokerId(NODE))
        .with_host(text(&address.host))
        .with_port(i32::from(address.port));
    response
        .with_cluster_id(text(core.lock().cluster_name()))
        .with_controller_id(BrokerId(NODE))
        .with_brokers(vec![broker])
}
