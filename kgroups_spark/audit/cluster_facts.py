"""Facts that only a live cluster knows, asked once per audit: names of topic ids, the release, retentions, group
configs.

All of it is optional. A fact that an ACL denies is left out, and a note names the ACL that allows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kgroups_spark.cluster.answers import TopicMetadata
from kgroups_spark.cluster.broker_release import NEW_COORDINATOR, REBALANCE_PROTOCOLS, Broker, release_of_brokers
from kgroups_spark.cluster.cluster import Cluster
from kgroups_spark.cluster.configs import Configs, describe_configs, groups_with_configs
from kgroups_spark.cluster.errors import ClusterUnreachable, Throttled
from kgroups_spark.counts import counted
from kgroups_spark.state_logs.replay import Settings

OFFSETS_RETENTION = "offsets.retention.minutes"
DELETE_RETENTION = "delete.retention.ms"
DELIVERY_COUNT_LIMIT = "group.share.delivery.count.limit"
DELIVERY_COUNT_LIMIT_OF_GROUP = "share.delivery.count.limit"
TRANSACTIONAL_ID_EXPIRATION = "transactional.id.expiration.ms"
OF_STATES = (DELIVERY_COUNT_LIMIT, TRANSACTIONAL_ID_EXPIRATION)
BROKER_CONFIGS = (OFFSETS_RETENTION, NEW_COORDINATOR, REBALANCE_PROTOCOLS, *OF_STATES)
# The ledger's notes are for people: beyond this number of groups they only count the others.
GROUPS_REPORTED = 100
# The largest of Java's int and long.
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
MINUTE_MS = 60_000


@dataclass(frozen=True)
class ClusterFacts:
    """The cluster's facts; durations in ms, None: not known, with the reason in `notes`."""

    cluster_id: str | None
    # (topic id, topic) of every topic that we may see.
    topic_ids: tuple[tuple[str, str], ...]
    # In the form of --release-version, with its source and the remaining uncertainty.
    release_version: str | None
    release_evidence: str
    # The brokers' offsets.retention.minutes, and delete.retention.ms of the offsets topic.
    offsets_retention_ms: int | None
    delete_retention_ms: int | None
    # Notes for people: ACLs that are missing, settings in which brokers differ, configurations of single groups.
    notes: tuple[str, ...]
    # The settings of the share and the transaction coordinator, with the groups' own.
    state_settings: Settings


@dataclass(frozen=True)
class _Leader:
    """A broker that leads an offsets partition, and its configuration."""

    broker: Broker
    configs: Configs


def cluster_facts(cluster: Cluster, offsets_topic: str = "__consumer_offsets") -> ClusterFacts:
    """Asks the cluster, and each broker that leads a partition of the offsets topic.

    Raises ClusterUnreachable, but never for a missing ACL.
    """
    topics = cluster.topics()
    leaders, notes = _ask_leaders(cluster, topics.get(offsets_topic))
    reported = release_of_brokers({node: leader.broker for node, leader in leaders.items()})
    retention_ms, retention_notes = _offsets_retention({node: leader.configs for node, leader in leaders.items()})
    delete_retention_ms, topic_notes = _delete_retention(cluster, offsets_topic)
    limits_of_groups, group_notes = _group_configs(cluster)
    settings, setting_notes = _state_settings([leader.configs for leader in leaders.values()], limits_of_groups)
    return ClusterFacts(
        cluster_id=cluster.cluster_id,
        topic_ids=tuple(sorted((t.topic_id, t.name) for t in topics.values() if t.topic_id is not None)),
        release_version=reported.release,
        release_evidence=reported.evidence,
        offsets_retention_ms=retention_ms,
        delete_retention_ms=delete_retention_ms,
        notes=(*notes, *retention_notes, *topic_notes, *group_notes, *setting_notes),
        state_settings=settings,
    )


def _ask_leaders(cluster: Cluster, topic: TopicMetadata | None) -> tuple[dict[int, _Leader], list[str]]:
    """The brokers that coordinate groups, by node id (all brokers if no partition has a leader); and those that did not
    answer."""
    leading = {each.leader for each in topic.partitions.values() if each.leader is not None} if topic else set()
    found: dict[int, _Leader] = {}
    notes = []
    for node in sorted(leading or cluster.brokers()):
        try:
            found[node] = _ask_leader(cluster, node)
        except (ClusterUnreachable, Throttled) as err:
            notes.append(f"broker {node} reported neither its release nor its configuration: {err}")
    return found, notes


def _ask_leader(cluster: Cluster, node: int) -> _Leader:
    answer = cluster.api_versions(node)
    configs = describe_configs(cluster, "broker", [str(node)], BROKER_CONFIGS, node)[str(node)]
    broker = Broker(
        supported={each.name: each.max_version for each in answer.supported_features or ()},
        finalized={each.name: each.max_version_level for each in answer.finalized_features or ()},
        requests={each.api_key: each.max_version for each in answer.api_keys},
        configs=None if configs.error else {name: value for name, value in configs.values.items() if value is not None},
    )
    return _Leader(broker, configs)


def _offsets_retention(configs: Mapping[int, Configs]) -> tuple[int | None, list[str]]:
    """The shortest of the brokers' retentions, each of which expires the offsets of the partitions that it leads."""
    reported = {node: value for node, each in configs.items() if (value := each.values.get(OFFSETS_RETENTION))}
    minutes = {node: number for node, value in reported.items() if (number := _whole(value, 1, INT_MAX)) is not None}
    errors = [each for each in configs.values() if each.error]
    what = f"{OFFSETS_RETENTION} of the brokers"
    notes = [_not_known(what, each, "cluster kafka-cluster") for each in errors[:1]]
    notes += [
        _passed_over(f"{OFFSETS_RETENTION} of broker {node}", value)
        for node, value in reported.items()
        if node not in minutes
    ]
    if len(set(minutes.values())) > 1:
        of = ", ".join(f"{value} on broker {node}" for node, value in sorted(minutes.items()))
        notes.append(f"{OFFSETS_RETENTION} differs: {of}; the shortest is used for all partitions")
    return (min(minutes.values()) * MINUTE_MS if minutes else None), notes


def _state_settings(
    configs: Sequence[Configs], limits_of_groups: dict[str, int | None] | None
) -> tuple[Settings, list[str]]:
    """The smallest expiration that a broker reports, and the limit on which all agree: unknown if it is unknown which
    groups have their own."""
    limits = set(_numbers(configs, DELIVERY_COUNT_LIMIT))
    limit = limits.pop() if len(limits) == 1 and limits_of_groups is not None else None
    notes = []
    if len(limits) > 1:
        of = ", ".join(map(str, sorted(limits)))
        notes = [f"{DELIVERY_COUNT_LIMIT} differs between brokers ({of}): how often share groups try is unknown"]
    expiration_ms = min(_numbers(configs, TRANSACTIONAL_ID_EXPIRATION), default=None)
    return Settings(limit, expiration_ms, limits_of_groups), notes


def _numbers(configs: Sequence[Configs], name: str) -> Iterator[int]:
    for each in configs:
        value = each.values.get(name)
        number = None if value is None else _whole(value, 1, INT_MAX)
        if number is not None:
            yield number


def _delete_retention(cluster: Cluster, offsets_topic: str) -> tuple[int | None, list[str]]:
    configs = describe_configs(cluster, "topic", [offsets_topic], [DELETE_RETENTION])[offsets_topic]
    if configs.error:
        return None, [_not_known(f"{DELETE_RETENTION} of topic {offsets_topic}", configs, f"topic {offsets_topic}")]
    value = configs.values.get(DELETE_RETENTION)
    number = _whole(value, 0, LONG_MAX) if value else None
    if value and number is None:
        return None, [_passed_over(f"{DELETE_RETENTION} of topic {offsets_topic}", value)]
    return number, []


def _passed_over(what: str, value: str) -> str:
    return f"{what} is ignored: {value!r} is not a valid number for it"


def _whole(value: str, least: int, most: int) -> int | None:
    """The number, as Java's Integer.parseInt takes it after trim(); None: it is none, or out of bounds."""
    text = value.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        return None
    return number if least <= (number := int(text)) <= most else None


def _group_configs(cluster: Cluster) -> tuple[dict[str, int | None] | None, list[str]]:
    """The delivery count limits of groups that have their own (None: it is unknown which have), and a note for each
    group with its own configuration, which overrides that of its members and brokers."""
    names = groups_with_configs(cluster)
    if isinstance(names, Configs):
        # Before 4.1 brokers do not list these groups, so nothing is missing: a group has its own limit since 4.3.
        if names.error == "UNSUPPORTED_VERSION":
            return {}, []
        return None, [_not_known("the configuration of single groups", names, "cluster kafka-cluster")]
    reported = describe_configs(cluster, "group", names)
    limits = {
        name: _whole(each.values.get(DELIVERY_COUNT_LIMIT_OF_GROUP) or "", 1, INT_MAX)
        for name, each in reported.items()
        if each.error or DELIVERY_COUNT_LIMIT_OF_GROUP in each.own
    }
    return limits, [*_group_config_notes(reported)]


def _group_config_notes(reported: Mapping[str, Configs]) -> Iterator[str]:
    known = {name: each for name, each in reported.items() if each.own}
    for name in list(known)[:GROUPS_REPORTED]:
        values = ", ".join(f"{key} = {known[name].values[key]}" for key in sorted(known[name].own))
        yield f"group {name}: {values} (group config)"
    if len(known) > GROUPS_REPORTED:
        yield f"{counted(len(known) - GROUPS_REPORTED, 'more group')} have their own configuration"
    failed = {name: each for name, each in reported.items() if each.error}
    for name in list(failed)[:1]:
        others = f" and {counted(len(failed) - 1, 'other')}" if len(failed) > 1 else ""
        yield _not_known(f"the configuration of group {name}{others}", failed[name], f"group {name}")


def _not_known(what: str, configs: Configs, resource: str) -> str:
    """The reason why a fact is unknown, and the remedy."""
    if configs.is_forbidden:
        return f"{what} is unknown: grant DESCRIBE_CONFIGS on {resource}"
    return f"{what} is unknown: the broker answered {configs.error}"
