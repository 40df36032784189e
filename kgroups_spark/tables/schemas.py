"""Every table of the lake, by name: its meaning, its columns, its key, and the columns with file statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.tables import definitions
from kgroups_spark.tables.columns import without_comments

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


Kind = Literal["history", "current", "ledger", "internal"]


@dataclass(frozen=True)
class Table:
    """One table. Audits append to history and ledger, and rewrite current; internal is not for users."""

    name: str
    kind: Kind
    columns: pa.Schema  # with comments
    key: tuple[str, ...]
    comment: str
    statistics: tuple[str, ...] = ("audit_id", "offsets_partition")

    @cached_property
    def schema(self) -> StructType:
        """The columns for Spark."""
        from kgroups_spark.tables.spark_types import spark_schema

        return spark_schema(self.columns)


PLACE = ("offsets_partition", "log_offset")
GROUP = ("offsets_partition", "group_id")
SLOT = (*GROUP, "topic", "partition")
CHECKPOINTS = "checkpoints"
# audit_id identifies the rows of an unfinished audit.
# The tables that together are the log: each record that was read is in exactly one of them.
LOG_TABLES = ("offset_commits", "group_records", "transaction_markers", "quarantine")
HISTORY_STATISTICS = (
    "audit_id",
    "offsets_partition",
    "state_partition",
    "log_offset",
    "log_timestamp",
    "group_id",
    "transactional_id",
)
STATE_PLACE = ("state_partition", "log_offset")
SHARE_PARTITION = ("group_id", "topic_id", "partition")


def _history(name: str, columns: pa.Schema, comment: str, key: tuple[str, ...] = PLACE) -> Table:
    named = tuple(field for field in HISTORY_STATISTICS if field in columns.names)
    return Table(name, "history", columns, key, comment, named)


def _current(name: str, columns: pa.Schema, key: tuple[str, ...], comment: str) -> Table:
    return Table(name, "current", columns, key, comment, ("audit_id", key[0]))


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _history(
            "offset_commits", definitions.OFFSET_COMMITS, "Record of type 0 or 1: offset commits and their tombstones"
        ),
        _history("group_records", definitions.GROUP_RECORDS, "Record of types 2 to 23: groups and members"),
        _history("transaction_markers", definitions.TRANSACTION_MARKERS, "Control record: the end of a transaction"),
        _history(
            "quarantine",
            definitions.QUARANTINE,
            "Record or batch that could not be used",
            key=(*PLACE, "reason"),
        ),
        _history(
            "group_versions",
            definitions.GROUP_VERSIONS,
            "State of a group after a record changed it",
            key=(*PLACE, "group_id"),
        ),
        _history(
            "group_member_versions",
            definitions.GROUP_MEMBER_VERSIONS,
            "State of a member after a record changed it",
            key=(*PLACE, "group_id", "member_id"),
        ),
        _history(
            "group_events",
            definitions.GROUP_EVENTS,
            "Something that happened to a group",
            key=(*PLACE, "event_index"),
        ),
        _history(
            "group_traffic",
            definitions.GROUP_TRAFFIC,
            "Records and bytes that an audit read of a group, by hour of log time",
            key=("audit_id", *GROUP, "hour"),
        ),
        _history(
            "topic_offsets",
            definitions.TOPIC_OFFSETS,
            "Log start and end of a topic's partition with committed offsets, from an audit of a live cluster",
            key=("audit_id", "topic", "partition"),
        ),
        _history(
            "cluster_facts",
            definitions.CLUSTER_FACTS,
            "Fact that a live cluster reported to an audit: configurations that concern coordinators (of the leaders "
            "of offsets partitions, and those set for single groups), feature levels, and these leaders. An audit of "
            "segments with such an option repeats the last facts with it",
            key=("audit_id", "kind", "name", "broker", "group_id"),
        ),
        _history(
            "findings",
            definitions.FINDINGS,
            "Finding of an audit",
            key=("audit_id", "finding", "group_id", "topic", "partition", "member_id", "producer_id", *PLACE),
        ),
        _current("groups", definitions.GROUPS, GROUP, "Group that exists"),
        _current("group_members", definitions.GROUP_MEMBERS, (*GROUP, "member_id"), "Member of a group"),
        _current("committed_offsets", definitions.COMMITTED_OFFSETS, SLOT, "Committed offset"),
        _current(
            "pending_offsets",
            definitions.PENDING_OFFSETS,
            ("offsets_partition", "producer_id", "group_id", "topic", "partition"),
            "Offset inside an open transaction",
        ),
        _current(
            "open_transactions",
            definitions.OPEN_TRANSACTIONS,
            ("offsets_partition", "producer_id"),
            "Transaction that is open on a partition of __consumer_offsets, with or without offsets left in it",
        ),
        _current(
            "offset_expiry", definitions.OFFSET_EXPIRY, SLOT, "Whether and when a committed offset expires, and why"
        ),
        _current("group_expiry", definitions.GROUP_EXPIRY, GROUP, "Whether and when a group is deleted, and why"),
        _current("topics", definitions.TOPICS, ("topic_id",), "Topic id from the log or the cluster, and its name"),
        _history(
            "share_group_state_records",
            definitions.SHARE_GROUP_STATE_RECORDS,
            "Record of __share_group_state: snapshots and updates of share partitions",
            key=STATE_PLACE,
        ),
        _history(
            "transaction_state_records",
            definitions.TRANSACTION_STATE_RECORDS,
            "Record of __transaction_state: the state of a transactional id",
            key=STATE_PLACE,
        ),
        _history(
            "state_quarantine",
            definitions.STATE_QUARANTINE,
            "Record or batch of __share_group_state or __transaction_state that could not be used",
            key=("log", *STATE_PLACE, "reason"),
        ),
        _history(
            "state_events",
            definitions.STATE_EVENTS,
            "Something that happened to a share partition or to a transactional id",
            key=("log", *STATE_PLACE, "event"),
        ),
        Table(
            "share_partitions",
            "current",
            definitions.SHARE_PARTITIONS,
            SHARE_PARTITION,
            "Share partition: the share coordinator's stored state, and the group coordinator's list",
            ("audit_id", "group_id"),
        ),
        _current(
            "share_batches",
            definitions.SHARE_BATCHES,
            ("state_partition", *SHARE_PARTITION, "first_offset"),
            "Records of a share partition with one stored state, which are not past its start offset",
        ),
        _current(
            "transactional_ids",
            definitions.TRANSACTIONAL_IDS,
            ("state_partition", "transactional_id"),
            "Transactional id of the transaction coordinator",
        ),
        Table("audits", "ledger", definitions.AUDITS, ("audit_id", "status"), "The ledger of audits", ("audit_id",)),
        Table(
            CHECKPOINTS,
            "internal",
            definitions.CHECKPOINTS,
            (
                *("audit_id", "log", *PLACE, "reason", "entry_type", "group_id"),
                *("topic", "partition", "producer_id", "payload"),
            ),
            "Internal: states of shards from which a replay goes on; its form changes without notice",
            ("audit_id", "offsets_partition", "reason"),
        ),
        Table(
            "previous_offset_expiry",
            "internal",
            definitions.PREVIOUS_OFFSET_EXPIRY,
            SLOT,
            "Internal: the previous audit's expiry decisions, for the view expiry_outcomes",
        ),
        Table(
            "state_log_state",
            "internal",
            definitions.STATE_LOG_STATE,
            ("audit_id", "log", "state_partition", "entry_type", "payload"),
            "Internal: the state of other logs that an audit goes on from; its form changes without notice",
            ("audit_id",),
        ),
    )
}


# The two logs as the lake holds them.
STATE_LOG_HISTORY = ("share_group_state_records", "transaction_state_records", "state_quarantine")
# The tables of __share_group_state and __transaction_state (audit/result.py).
STATE_LOG_TABLES = (
    "share_group_state_records",
    "transaction_state_records",
    "state_quarantine",
    "state_events",
    "share_partitions",
    "share_batches",
    "transactional_ids",
    "state_log_state",
)


@cache
def arrow_schema(name: str) -> pa.Schema:
    """The table's columns for Arrow: the same names, order and nullability, times as timestamp('us', 'UTC')."""
    return without_comments(TABLES[name].columns)


# The layout of a lake's tables, and whether its location is a path: all that is known without opening it.


# The layout of the tables: raised when they change in a way that older software would misread.
LAKE_VERSION = 1
LAKE_VERSION_PROPERTY = "kgroups.lakeVersion"

# The folder for task output that is not yet in a table. Spark and Delta ignore folders that begin with an underscore.
WORK_FOLDER = "_work"


def lake_version_in(properties: Mapping[str, str | None]) -> int:
    """The layout in a table's properties; 0: none, as for a foreign table `audits`."""
    said = properties.get(LAKE_VERSION_PROPERTY) or ""
    return int(said) if said.isdecimal() else 0


def require_known_version(location: str, version: int) -> None:
    """Raises UsageError for a location that is not a lake, KgroupsError for a lake of another version."""
    if version == 0:
        raise UsageError(
            f"{location} is not a lake: its table audits has no property {LAKE_VERSION_PROPERTY}, which kgroups audit "
            "sets; name another location"
        )
    if version != LAKE_VERSION:
        raise KgroupsError(
            f"the lake at {location} has layout {version}; this version of kgroups-spark knows {LAKE_VERSION}: "
            "use the version that wrote it"
        )


def require_nothing_else(location: str, names: Iterable[str], an_empty_one: str) -> None:
    """Raises UsageError for the location of a new lake that holds more than an earlier attempt left."""
    if strangers := sorted(set(names) - set(TABLES) - {WORK_FOLDER}):
        raise UsageError(
            f"{location} is neither a lake nor empty: it holds {', '.join(strangers[:3])}; name {an_empty_one}"
        )


def is_path(location: str) -> bool:
    """A path has a slash or a scheme, or exists; anything else is `catalog.schema`."""
    return "/" in location or ":" in location or Path(location).exists()
