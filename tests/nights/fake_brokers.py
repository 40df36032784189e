"""Fake brokers with the answers to all requests of an audit except those for the log. Answers are those of Kafka 4.3.1
in their newest version, encoded and decoded as on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka.protocol.metadata import ApiVersionsResponse

from kgroups_spark.cluster.requests import (
    ClusterUnreachable,
    KafkaRefused,
    OffsetAnswer,
    PartitionMetadata,
    TopicMetadata,
)

CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED = 31, 29, 30
FORBIDDEN = {2: TOPIC_AUTHORIZATION_FAILED, 4: CLUSTER_AUTHORIZATION_FAILED, 32: GROUP_AUTHORIZATION_FAILED}
DEFAULT_CONFIG, STATIC_BROKER_CONFIG, GROUP_CONFIG = 5, 4, 8


def topic(name: str, leaders: Sequence[int | None] = (1,), topic_id: str | None = None) -> TopicMetadata:
    """A topic of one partition for each leader; None: it has none now."""
    partitions = {
        number: PartitionMetadata(leader, 5, None if leader is not None else "LEADER_NOT_AVAILABLE")
        for number, leader in enumerate(leaders)
    }
    return TopicMetadata(name, topic_id, partitions, None)


@dataclass
class FakeBrokers:
    """`forbidden`: resources without permission to describe their configuration, as (type, name), and "list groups".
    `group_configs`: the settings of each group. `down`: node ids that do not answer. `ends`: log start and high
    watermark of a partition, or the error of its leader; (0, 0) for other partitions.
    """

    known: Sequence[TopicMetadata] = (topic("__consumer_offsets"),)
    features: Mapping[int, int] = field(default_factory=lambda: {1: 30})
    configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lists_groups: bool = True
    forbidden: Iterable[object] = ()
    down: Iterable[int] = ()
    ends: Mapping[tuple[str, int], tuple[int, int] | str] = field(default_factory=dict)
    cluster_id: str = "one"
    asked: list[Any] = field(default_factory=list)

    def brokers(self) -> dict[int, str]:
        return {node: f"host:{9000 + node}" for node in self.features}

    def topics(self, names: Sequence[str] | None = None) -> dict[str, TopicMetadata]:
        self.asked.append(("topics", names))
        known = {each.name: each for each in self.known}
        if names is None:
            return {name: each for name, each in known.items() if each.error is None}
        unknown = "UNKNOWN_TOPIC_OR_PARTITION"
        return {name: known.get(name, TopicMetadata(name, None, {}, unknown)) for name in names}

    def list_offsets(
        self, partitions: Iterable[tuple[str, int]], at: int, *, timeout_ms: int | None = None
    ) -> dict[tuple[str, int], OffsetAnswer]:
        self.asked.append(("list_offsets", at, sorted(partitions), timeout_ms))
        return {each: self._offset(each, at) for each in partitions}

    def api_versions(self, node_id: int) -> Any:
        self._require_up(node_id)
        feature = ApiVersionsResponse.SupportedFeatureKey
        answer = ApiVersionsResponse(
            api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)],
            supported_features=[feature(name="metadata.version", min_version=7, max_version=self.features[node_id])],
            finalized_features=[
                ApiVersionsResponse.FinalizedFeatureKey(name="group.version", max_version_level=1, min_version_level=1)
            ],
        )
        return on_the_wire(answer, 4)

    def send(self, request: Any, node_id: int | None = None, *, timeout_ms: int | None = None) -> Any:
        self.asked.append((request.name, node_id))
        self._require_up(node_id)
        if isinstance(request, ListConfigResourcesRequest):
            return self._groups()
        assert isinstance(request, DescribeConfigsRequest)
        results = [self._described(wanted, node_id) for wanted in request.resources]
        return on_the_wire(DescribeConfigsResponse(results=results), 4)

    def _require_up(self, node_id: int | None) -> None:
        if node_id in self.down:
            raise ClusterUnreachable(f"broker {node_id} has not answered in 15 s: it does not")

    def _offset(self, partition: tuple[str, int], at: int) -> OffsetAnswer:
        ends = self.ends.get(partition, (0, 0))
        if isinstance(ends, str):
            return OffsetAnswer(None, ends)
        metadata = next(each for each in self.known if each.name == partition[0]).partitions[partition[1]]
        if metadata.leader is None:
            return OffsetAnswer(None, metadata.error)
        return OffsetAnswer(ends[0 if at == -2 else 1], None)

    def _groups(self) -> Any:
        if not self.lists_groups:
            raise KafkaRefused("no version of it")
        if "list groups" in self.forbidden:
            return on_the_wire(ListConfigResourcesResponse(error_code=CLUSTER_AUTHORIZATION_FAILED), 1)
        resource = ListConfigResourcesResponse.ConfigResource
        listed = [resource(resource_name=name, resource_type=32) for name in self.group_configs]
        return on_the_wire(ListConfigResourcesResponse(config_resources=listed), 1)

    def _described(self, wanted: Any, node_id: int | None) -> Any:
        of, name = wanted.resource_type, wanted.resource_name
        result = DescribeConfigsResponse.DescribeConfigsResult
        if (of, name) in self.forbidden:
            return result(error_code=FORBIDDEN[of], resource_type=of, resource_name=name)
        if of == 4:
            assert name == str(node_id), "a broker tells of itself alone"
            reported = dict.fromkeys(self.configs.get(int(name), {}), STATIC_BROKER_CONFIG)
            values: Mapping[str, str] = self.configs.get(int(name), {})
        elif of == 2:
            values, reported = self.topic_configs, dict.fromkeys(self.topic_configs, DEFAULT_CONFIG)
        else:
            # A group's answer has all configs; those that were not set for it come from the broker.
            values = {"consumer.session.timeout.ms": "45000", **self.group_configs[name]}
            reported = {key: GROUP_CONFIG if key in self.group_configs[name] else DEFAULT_CONFIG for key in values}
        keys = wanted.configuration_keys
        entry = result.DescribeConfigsResourceResult
        entries = [
            entry(name=key, value=value, config_source=reported[key])
            for key, value in values.items()
            if keys is None or key in keys
        ]
        return result(error_code=0, resource_type=of, resource_name=name, configs=entries)


def on_the_wire(answer: Any, version: int) -> Any:
    """The answer as it is decoded."""
    return type(answer).decode(answer.encode(version=version), version=version)
