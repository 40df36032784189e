"""Configurations that brokers report: their own, those of topics and of groups (DescribeConfigs, KIP-133; of groups
KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kafka.protocol.admin import DescribeConfigsRequest, ListConfigResourcesRequest

from kgroups_spark.cluster.cluster import Cluster
from kgroups_spark.cluster.errors import KafkaRefused, Throttled, error_name

Kind = Literal["topic", "broker", "group"]

# ConfigResource.Type, and of DescribeConfigsResponse.ConfigSource those that were set for the resource itself.
RESOURCE_TYPES: dict[Kind, int] = {"topic": 2, "broker": 4, "group": 32}
SET_FOR_TOPIC, SET_FOR_GROUP = 1, 8
# The first version of ListConfigResources that lists more than client metrics (KIP-1142, 4.1).
LISTS_GROUPS = 1
# How long these optional facts may delay an audit, and the number of resources in one request.
TIMEOUT_MS = 15_000
AT_ONCE = 500


@dataclass(frozen=True)
class Configs:
    """A resource's configuration as a broker reports it: value by name (None: it is secret), and which were set for it
    alone.

    `error`: Kafka's name of the reason for no answer.
    """

    values: dict[str, str | None] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    error: str | None = None

    @property
    def is_forbidden(self) -> bool:
        return self.error is not None and self.error.endswith("_AUTHORIZATION_FAILED")


def describe_configs(
    cluster: Cluster, kind: Kind, names: Sequence[str], keys: Sequence[str] | None = None, node_id: int | None = None
) -> dict[str, Configs]:
    """The configuration of each resource; `keys`: only these. A broker's own comes from itself alone (`node_id`).

    Raises ClusterUnreachable.
    """
    reported: dict[str, Configs] = {}
    for start in range(0, len(names), AT_ONCE):
        reported |= _describe(cluster, kind, names[start : start + AT_ONCE], keys, node_id)
    return {name: reported.get(name, Configs(error="UNKNOWN_SERVER_ERROR")) for name in names}


def groups_with_configs(cluster: Cluster) -> Configs | list[str]:
    """The groups with their own configuration; Configs: the reason for no answer. Raises ClusterUnreachable."""
    request = ListConfigResourcesRequest(resource_types=[RESOURCE_TYPES["group"]], min_version=LISTS_GROUPS)
    try:
        answer = cluster.send(request, timeout_ms=TIMEOUT_MS)
    except KafkaRefused as refused:
        return Configs(error=_error_of(refused))
    if error := error_name(answer.error_code):
        return Configs(error=error)
    return sorted(
        each.resource_name for each in answer.config_resources if each.resource_type == RESOURCE_TYPES["group"]
    )


def _describe(
    cluster: Cluster, kind: Kind, names: Sequence[str], keys: Sequence[str] | None, node_id: int | None
) -> Iterator[tuple[str, Configs]]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = None if keys is None else list(keys)
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=RESOURCE_TYPES[kind], resource_name=name, configuration_keys=wanted)
            for name in names
        ]
    )
    try:
        answer = cluster.send(request, node_id, timeout_ms=TIMEOUT_MS)
    except KafkaRefused as refused:
        for name in names:
            yield name, Configs(error=_error_of(refused))
        return
    for reported in answer.results:
        values = {each.name: None if each.is_sensitive else each.value for each in reported.configs}
        own = frozenset(each.name for each in reported.configs if each.config_source in (SET_FOR_TOPIC, SET_FOR_GROUP))
        yield reported.resource_name, Configs(values, own, error_name(reported.error_code))


def _error_of(refused: KafkaRefused) -> str:
    """The name of the error because of which no request could be sent."""
    return "THROTTLING_QUOTA_EXCEEDED" if isinstance(refused, Throttled) else "UNSUPPORTED_VERSION"
