"""Rows of `group_member_versions` and `group_members` of classic groups, built from columns of member blocks."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.group_snapshots import SnapshotBlock, SnapshotMembers
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.coordinator.versions import MemberVersions
from kgroups_spark.messages.snapshot_columns import ASSIGNED
from kgroups_spark.records.slices import list_offsets
from kgroups_spark.tables.rows import column, constant, table_of
from kgroups_spark.tables.schemas import arrow_schema

# Member columns that go into the tables unchanged.
_AS_IT_STANDS = (
    "member_id",
    "group_instance_id",
    "client_id",
    "client_host",
    "rack_id",
    "session_timeout_ms",
    "subscribed_topics",
    "assigned_partitions",
)


def member_version_batches(
    versions: Sequence[MemberVersions], release: Release, **constants: Any
) -> Iterator[pa.Table]:
    """Rows of `group_member_versions`: one table for each block, and one for all members that are gone."""
    by_block: dict[SnapshotBlock, list[MemberVersions]] = {}
    for version in versions:
        if version.numbers:
            by_block.setdefault(_members(version.group).block, []).append(version)
    for block, of_block in by_block.items():
        rows, of = _rows((_members(version.group), version.numbers) for version in of_block)
        taken = _taken(block.members, rows)
        columns = {**_places(of_block, of), **_columns(taken, release)}
        yield table_of("group_member_versions", columns, len(rows), **constants)
    gone = [version for version in versions if version.gone]
    if gone:
        of = np.repeat(np.arange(len(gone)), [len(version.gone) for version in gone])
        member_ids = pa.array([member_id for version in gone for member_id in version.gone], pa.string())
        columns = {**_places(gone, of, is_removed=True), "member_id": member_ids}
        yield table_of("group_member_versions", columns, len(of), **constants)


def member_batches(
    groups: Iterable[ClassicGroup], topics: Topics, release: Release, **constants: Any
) -> Iterator[pa.Table]:
    """Rows of `group_members`, one table for each block. A topic id is null if `topics` lacks the topic."""
    by_block: dict[SnapshotBlock, list[ClassicGroup]] = {}
    for group in groups:
        by_block.setdefault(_members(group).block, []).append(group)
    for block, of_block in by_block.items():
        rows, of = _rows((_members(group), list(group.member_numbers.values())) for group in of_block)
        taken = _taken(block.members, rows)
        columns = {
            "group_id": pa.array([group.group_id for group in of_block], pa.string()).take(pa.array(of)),
            "log_offset": pa.array([group.log_offset for group in of_block], pa.int64()).take(pa.array(of)),
            "user_data": _user_data(taken.column("user_data")),
            **_columns(taken, release),
        }
        columns["assigned_partitions"] = _with_topic_ids(columns["assigned_partitions"], topics)
        if len(rows):
            yield table_of("group_members", columns, len(rows), **constants)


def _members(group: ClassicGroup | None) -> SnapshotMembers:
    assert group is not None and group.members_on_demand is not None
    return group.members_on_demand


def _rows(chosen: Iterable[tuple[SnapshotMembers, list[int]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each chosen member, its row in the block and the index of its entry in `chosen`."""
    rows: list[int] = []
    counts = []
    first = []
    for members, numbers in chosen:
        rows += numbers
        counts.append(len(numbers))
        first.append(members.first)
    of = np.repeat(np.arange(len(counts)), counts)
    return np.array(rows, np.int64) + np.array(first, np.int64)[of], of


def _taken(members: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.RecordBatch:
    """These rows. If they are most rows and consecutive, for example when every member is new, they are not copied."""
    if 2 * len(rows) > members.num_rows and (np.diff(rows) == 1).all():
        return members.slice(rows[0], len(rows))
    return members.take(pa.array(rows))


def _user_data(user_data: pa.Array) -> pa.Array:
    """The bytes of base64 texts."""
    encoded = user_data.dictionary_encode()
    decoded = pa.array(map(base64.b64decode, encoded.dictionary.to_pylist()), pa.binary())
    return decoded.take(encoded.indices)


def _places(
    versions: Sequence[MemberVersions], of: NDArray[np.int64], *, is_removed: bool = False
) -> dict[str, pa.Array]:
    names = ("offsets_partition", "log_offset", "log_timestamp", "group_id")
    fields = [arrow_schema("group_member_versions").field(name) for name in names]
    values = zip(*(version[:4] for version in versions), strict=True)
    columns = {
        field.name: column(list(of_field), field.type).take(pa.array(of))
        for field, of_field in zip(fields, values, strict=True)
    }
    return {**columns, "is_removed": constant(is_removed, len(of), pa.bool_())}


def _columns(taken: pa.RecordBatch, release: Release) -> dict[str, pa.Array]:
    """The member columns that both tables have."""
    return {
        **{name: taken.column(name) for name in _AS_IT_STANDS},
        "rebalance_timeout_ms": _rebalance_timeout(taken, release),
        "uses_classic_protocol": constant(True, taken.num_rows, pa.bool_()),
    }


def _rebalance_timeout(taken: pa.RecordBatch, release: Release) -> pa.Array:
    """The rebalance timeout in ms. If it is unset (T8), the session timeout or null, as in ClassicGroup."""
    rebalance, session = taken.column("rebalance_timeout_ms"), taken.column("session_timeout_ms")
    default = session
    if not release.unset_rebalance_timeout_is_session_timeout:
        default = pc.if_else(pc.equal(taken.column("value_version"), 0), session, pa.scalar(None, pa.int32()))
    return pc.if_else(pc.equal(rebalance, -1), default, rebalance)


def _with_topic_ids(assigned: pa.Array, topics: Topics) -> pa.Array:
    """The partitions with the topic ids of their topics."""
    elements = assigned.flatten()
    topic, _, partition, epoch = elements.flatten()
    names = topic.dictionary_encode()
    ids = pa.array([topics.ids.get(name) for name in names.dictionary.to_pylist()], pa.string())
    offsets = list_offsets(pc.list_value_length(assigned).to_numpy())
    completed = pa.StructArray.from_arrays(
        [topic, ids.take(names.indices), partition, epoch], fields=list(ASSIGNED.value_type)
    )
    return pa.ListArray.from_arrays(offsets, completed, type=ASSIGNED)
