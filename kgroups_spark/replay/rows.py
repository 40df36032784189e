"""Rows of `group_member_versions` and `group_members` of classic groups, built from columns of member blocks."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.events import GroupEvent, MemberEvents
from kgroups_spark.coordinator.group_snapshots import SnapshotBlock, SnapshotMembers
from kgroups_spark.coordinator.releases import Release, Topics, unknown_version
from kgroups_spark.coordinator.rows import NAME_COLUMNS
from kgroups_spark.coordinator.transaction_shard import MAX_TRANSACTION_TIMEOUT_MS
from kgroups_spark.coordinator.versions import MemberVersions
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS
from kgroups_spark.messages.group_metadata import ASSIGNED, user_data_json
from kgroups_spark.offsets.columns import NEITHER, TEXT, GroupKey, JoinedLog, Markers, starts_of
from kgroups_spark.offsets.effects import MOVES
from kgroups_spark.offsets.expiry import NOWHERE, rows_among
from kgroups_spark.offsets.replay import ReplayedOffsets
from kgroups_spark.offsets.state import Transactions
from kgroups_spark.records.columns import list_offsets
from kgroups_spark.replay.groups import GroupFacts, GroupTimes
from kgroups_spark.tables.rows import by_name, column, constant, flags, numbers, table_of, table_of_rows, where
from kgroups_spark.tables.schemas import arrow_schema

K = TypeVar("K")
T = TypeVar("T")
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
    some = [version for version in versions if version.numbers]
    for block, of_block in _by(lambda each: _members(each.group).block, some):
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
    groups: Iterable[tuple[int, ClassicGroup]], topics: Topics, release: Release, **constants: Any
) -> Iterator[pa.Table]:
    """Rows of `group_members`, a table for each block. A topic id is null if `topics` lacks the topic."""
    for block, of_block in _by(lambda each: _members(each[1]).block, groups):
        rows, of = _rows((_members(group), list(group.member_numbers.values())) for _, group in of_block)
        taken = _taken(block.members, rows)
        columns = {
            "offsets_partition": pa.array([number for number, _ in of_block], pa.int32()).take(pa.array(of)),
            "group_id": pa.array([group.group_id for _, group in of_block], pa.string()).take(pa.array(of)),
            "log_offset": pa.array([group.log_offset for _, group in of_block], pa.int64()).take(pa.array(of)),
            **_columns(taken, release),
        }
        encoded = taken.column("user_data").dictionary_encode()
        if len(encoded.dictionary):
            decoded = pa.array(map(base64.b64decode, encoded.dictionary.to_pylist()), pa.binary())
            columns["user_data"] = user_data = decoded.take(encoded.indices)
            protocols = [(group.value or {}).get("protocol") for _, group in of_block]
            texts = map(user_data_json, (protocols[at] for at in of.tolist()), user_data.to_pylist())
            columns["user_data_json"] = pa.array(texts, pa.string())
        columns["assigned_partitions"] = _with_topic_ids(columns["assigned_partitions"], topics)
        if len(rows):
            yield table_of("group_members", columns, len(rows), **constants)


def _by(key: Callable[[T], K], some: Iterable[T]) -> Iterable[tuple[K, list[T]]]:
    found: dict[K, list[T]] = {}
    for each in some:
        found.setdefault(key(each), []).append(each)
    return found.items()


def _members(group: ClassicGroup | None) -> SnapshotMembers:
    assert group is not None and group.members_on_demand is not None
    return group.members_on_demand


def _rows(chosen: Iterable[tuple[SnapshotMembers, list[int]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each chosen member, its row in the block and the index of its entry in `chosen`."""
    rows: list[int] = []
    counts = []
    first = []
    for members, its_numbers in chosen:
        rows += its_numbers
        counts.append(len(its_numbers))
        first.append(members.first)
    of = np.repeat(np.arange(len(counts)), counts)
    return np.array(rows, np.int64) + np.array(first, np.int64)[of], of


def _taken(members: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.RecordBatch:
    """These rows. If they are most rows and consecutive, for example when every member is new, they are not copied."""
    if 2 * len(rows) > members.num_rows and (np.diff(rows) == 1).all():
        return members.slice(rows[0], len(rows))
    return members.take(pa.array(rows))


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
    # An unset rebalance timeout (T8) is the session timeout or null, as in ClassicGroup.
    rebalance, session = taken.column("rebalance_timeout_ms"), taken.column("session_timeout_ms")
    default = session
    if not release.unset_rebalance_timeout_is_session_timeout:
        default = pc.if_else(pc.equal(taken.column("value_version"), 0), session, pa.scalar(None, pa.int32()))
    return {
        **{name: taken.column(name) for name in _AS_IT_STANDS},
        "rebalance_timeout_ms": pc.if_else(pc.equal(rebalance, -1), default, rebalance),
        "uses_classic_protocol": constant(True, taken.num_rows, pa.bool_()),
    }


def _with_topic_ids(assigned: pa.Array, topics: Topics) -> pa.Array:
    """The partitions with the topic ids of their topics."""
    topic, _, partition, epoch = assigned.flatten().flatten()
    names = topic.dictionary_encode()
    ids = pa.array([topics.ids.get(name) for name in names.dictionary.to_pylist()], pa.string())
    offsets = list_offsets(pc.list_value_length(assigned).to_numpy())
    completed = pa.StructArray.from_arrays(
        [topic, ids.take(names.indices), partition, epoch], fields=list(ASSIGNED.value_type)
    )
    return pa.ListArray.from_arrays(offsets, completed, type=ASSIGNED)


# Rows of the lake's tables from a replay of offsets, with the columns of tables/definitions.py.
#
# `audit_id` is the same in all rows. A time outside TIMESTAMP's range becomes the nearest one.


def committed_rows(replayed: ReplayedOffsets, groups: Sequence[GroupKey], **constants: Any) -> pa.Table:
    """Rows of `committed_offsets`, by slot. `groups`: the existing ones; offsets of other groups are orphans."""
    columns = replayed.log.parted(where(replayed.state.offsets, ~replayed.is_pending))
    names = pa.array([name for _, name in groups], pa.string())
    partitions = pa.array(replayed.log.partitions[[number for number, _ in groups]], pa.int32())
    at = rows_among([columns["offsets_partition"], columns["group_id"]], [partitions, names])
    return table_of("committed_offsets", columns | {"is_orphan": pa.array(at == NOWHERE)}, len(at), **constants)


def pending_rows(replayed: ReplayedOffsets, **constants: Any) -> pa.Table:
    """Rows of `pending_offsets`, by slot and producer. transactional_id is null: the offsets log does not name it."""
    columns = replayed.log.parted(where(replayed.state.offsets, replayed.is_pending))
    open_ = pa.table(replayed.log.parted(replayed.state.transactions, by="transaction_start_offset"))
    key = ("offsets_partition", "producer_id")
    at = rows_among([columns[name] for name in key], [open_[name] for name in key])
    of_transaction = open_.select(["transaction_start_offset", "open_since"]).take(pa.array(at, mask=at == NOWHERE))
    columns |= by_name(of_transaction)
    return table_of("pending_offsets", columns, len(at), transactional_id=None, **constants)


def open_transaction_rows(replayed: ReplayedOffsets, as_of_ms: int | None = None, **constants: Any) -> pa.Table:
    """Rows of `open_transactions`; is_hanging by age alone as of `as_of_ms`, null without it."""
    rows = replayed.state.transactions
    latest_ms = pa.scalar(None if as_of_ms is None else as_of_ms - MAX_TRANSACTION_TIMEOUT_MS, pa.int64())
    columns = replayed.log.parted(rows, by="transaction_start_offset")
    columns["is_hanging"] = pc.less(rows.column("open_since").cast(pa.int64()), latest_ms)
    return table_of("open_transactions", columns, len(rows), transactional_id=None, **constants)


def failure_rows(replayed: ReplayedOffsets, **constants: Any) -> pa.Table:
    """Rows of `quarantine`: values of a version at which the release's load fails."""
    rows = replayed.unreadable
    record_type, version = numbers(rows["record_type"]).tolist(), numbers(rows["value_version"]).tolist()
    details = list(map(unknown_version, record_type, version))
    names = [CONSUMER_OFFSETS[each].name for each in record_type]
    more = {"record_name": pa.array(names, pa.string()), "detail": pa.array(details, pa.string())}
    fixed = {"record_count": 0, "reason": "load_would_fail", "coordinator_fails": True, "is_transactional": None}
    return table_of("quarantine", replayed.log.parted(rows) | more, len(rows), **(constants | fixed))


def ended_columns(transactions: Transactions, markers: Markers) -> pa.Table:
    """transaction_start_offset, offset_count and group_ids of `transaction_markers`, a row for each marker."""
    start = markers.log.starts[markers.log.number_at(markers.log_offset)]
    at = pc.index_in(pa.array(markers.log_offset), pa.array(transactions.end))
    count = pc.fill_null(pa.array(transactions.offset_count).take(at), 0).cast(pa.int32())
    nothing = pa.array([[]], pa.list_(pa.string()))
    is_neither = pa.array(markers.outcome == NEITHER)
    groups = pa.concat_arrays([transactions.groups(), nothing]).take(pc.fill_null(at, len(transactions)))
    return pa.table(
        {
            "transaction_start_offset": pc.subtract(pa.array(transactions.start_offset).take(at), pa.array(start)),
            "offset_count": pc.if_else(is_neither, pa.scalar(None, pa.int32()), count),
            "group_ids": groups.take(pa.array(np.arange(len(groups)), mask=markers.outcome == NEITHER)),
        }
    )


# Rows of `group_events`: events of acts (coordinator/events.py), and events at values and markers.
#
# Events at values and markers are moves of offsets, and groups that a value creates or a marker removes.


WITHOUT_CAUSE = ("topic_recreated", "offset_unset")
_OF_ALL = ("log_offset", "log_timestamp", "event_timestamp", "group_id", "group_type", "event")


def event_batches(events: Sequence[tuple[int, GroupEvent | MemberEvents]], **constants: Any) -> Iterator[pa.Table]:
    """The events and their offsets partitions as rows, in no order."""
    single = [(number, *event) for number, event in events if isinstance(event, GroupEvent)]
    if single:
        yield table_of_rows("group_events", ("offsets_partition", *GroupEvent._fields), single, **constants)
    of_members = [(number, event) for number, event in events if isinstance(event, MemberEvents)]
    for block, of_block in _by(lambda each: getattr(each[1].change.value, "block", None), of_members):
        yield _member_rows(block, of_block, constants)


def _member_rows(
    block: SnapshotBlock | None, reported: list[tuple[int, MemberEvents]], constants: dict[str, Any]
) -> pa.Table:
    """Events of members of the block; None: of members by name."""
    partitions, events = zip(*reported, strict=True)
    changes = [event.change for event in events]
    counts = np.array([len(change.members) for change in changes])
    rows, of = int(counts.sum()), np.repeat(np.arange(len(events)), counts)
    first = np.array([event.event_index for event in events])
    if block is None:
        names = [*zip(*chain.from_iterable(change.members for change in changes), strict=True)]
        named = [pa.array(values, pa.string()) for values in names]
    else:
        at, _ = _rows((change.value, change.members) for change in changes)
        named = _taken(block.members.select(NAME_COLUMNS), at).columns
    columns = dict(zip(NAME_COLUMNS, named, strict=True))
    for name, values in (("value_before", "values_before"), ("value_after", "values_after")):
        found = (getattr(change, values) or repeat(None, len(change.members)) for change in changes)
        columns[name] = pa.array([*chain.from_iterable(found)], pa.string())
    columns["event_index"] = pa.array(first[of] + np.arange(rows) - (np.cumsum(counts) - counts)[of], pa.int32())
    for name in _OF_ALL:
        of_each = changes if name == "event" else events
        values = column([getattr(each, name) for each in of_each], arrow_schema("group_events").field(name).type)
        columns[name] = values.take(pa.array(of))
    columns["offsets_partition"] = pa.array(partitions, pa.int32()).take(pa.array(of))
    return table_of("group_events", columns, rows, **constants)


def move_event_rows(
    moves: pa.Table, of_groups: Sequence[GroupEvent], times: GroupTimes, log: JoinedLog, **constants: Any
) -> pa.Table:
    """Moves (MOVES, in any order) and events of groups at values and markers of a log, as rows of `group_events`. They
    are numbered from 0 at each log offset: by group, topic and partition, a group before its offsets.

    `times`: the facts of the groups. Facts at a marker's moves are those before the marker removes groups.
    """
    others = pa.Table.from_pylist([event._asdict() | {"rank": 0} for event in of_groups], _ROWS)
    by_marker, at = flags(moves["by_marker"]), numbers(moves["log_offset"])
    groups = zip(log.number_at(at).tolist(), moves.column("group_id").to_pylist(), strict=True)
    facts = times.at(groups, at - by_marker)
    # topic_recreated has no cause of its own and comes first at its value. A marker's events are sorted by their names.
    events = moves.column("event")
    is_renamed = pc.equal(events, "topic_recreated").to_numpy()
    causes = [
        None if event in WITHOUT_CAUSE else cause or _cause(of)
        for event, cause, of in zip(events.to_pylist(), moves.column("cause").to_pylist(), facts, strict=True)
    ]
    found = {
        "group_type": pa.array([each.group_type for each in facts], pa.string()),
        "cause": pa.array(causes, pa.string()),
        "rank": pa.array((is_renamed == by_marker).astype(np.int64)),
    }
    rows = pa.concat_tables([pa.table(by_name(moves) | found, _ROWS), others])
    topic = rows["topic"].cast(pa.string())
    # Without nulls, because pyarrow's releases sort them differently.
    keys = {
        "log_offset": rows["log_offset"],
        "group_id": rows["group_id"].cast(pa.string()),
        "is_move": topic.is_valid().cast(pa.int8()),
        "topic": pc.fill_null(topic, ""),
        "partition": pc.fill_null(rows["partition"], 0),
        "rank": rows["rank"],
    }
    rows = rows.take(pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys]))
    starts = np.flatnonzero(starts_of(numbers(rows["log_offset"])))
    first = np.repeat(starts, np.diff(np.append(starts, len(rows))))
    rows = rows.append_column("event_index", pa.array(np.arange(len(rows)) - first))
    return table_of("group_events", log.parted(rows), len(rows), **constants)


_ROWS = pa.schema(
    [
        *(MOVES.field(name) for name in ("log_offset", "log_timestamp", "event_timestamp", "group_id")),
        ("group_type", pa.string()),
        ("event", pa.string()),
        ("topic", TEXT),
        *(MOVES.field(n) for n in ("partition", "offset_before", "offset_after", "value_before", "value_after")),
        ("cause", pa.string()),
        ("rank", pa.int64()),
    ]
)


def _cause(facts: GroupFacts) -> str:
    if facts.group_type is None:
        return "unknown"
    if facts.has_members:
        return "with_members"
    return "self_assigned" if facts.is_self_assigned else "no_members"
