"""The settings of an audit's decisions: from the options, else from the cluster, else the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.coordinator.expiry_rules import expiry_rules
from kgroups_spark.coordinator.releases import NEWEST
from kgroups_spark.plan.delete_retention import DEFAULT_DELETE_RETENTION_MS
from kgroups_spark.state_logs.replay import Settings as StateSettings

if TYPE_CHECKING:
    from kgroups_spark.audit.cluster_facts import ClusterFacts

RetentionSource = Literal["option", "broker", "default"]


@dataclass(frozen=True)
class AuditSettings:
    """The settled settings. `as_of`: epoch ms; None: from the log's times and the clock (decoding/log_times.py).
    `clock_ms`: this machine's clock at the start of the audit, epoch ms. `offsets_partitions` None: the only number
    that fits every group's hash. `states`: settings of the other coordinators; of those that are unknown, those of the
    last audit that knew them count."""

    release_version: str
    retention_ms: int
    retention_source: RetentionSource
    delete_retention_ms: int
    clock_ms: int
    as_of: int | None = None
    offsets_partitions: int | None = None
    states: StateSettings | None = None


def settle(options: AuditOptions, clock_ms: int, facts: ClusterFacts | None = None) -> AuditSettings:
    """The settings of an audit of segments, or of a cluster (`facts`). `clock_ms`: the clock (epoch ms) before the
    cluster was asked for log ends."""
    release_version = options.release_version or (facts and facts.release_version) or NEWEST
    retention_ms, source = _retention(options, facts, release_version)
    of_topic = facts.delete_retention_ms if facts else None
    return AuditSettings(
        release_version,
        retention_ms,
        source,
        next(ms for ms in (options.delete_retention_ms, of_topic, DEFAULT_DELETE_RETENTION_MS) if ms is not None),
        clock_ms,
        options.as_of,
        options.offsets_partitions,
        (facts.state_settings if facts else StateSettings()).or_else(StateSettings(options.share_delivery_count_limit)),
    )


def _retention(options: AuditOptions, facts: ClusterFacts | None, release_version: str) -> tuple[int, RetentionSource]:
    if options.retention_ms is not None:
        return options.retention_ms, "option"
    if facts is not None and facts.offsets_retention_ms is not None:
        return facts.offsets_retention_ms, "broker"
    return expiry_rules(release_version).default_retention_ms, "default"
