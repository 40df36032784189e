"""The differences between a state that was carried from audit to audit and the log as it is now.

The cleaner may compact tombstones and markers away between two audits. The carried state then still has what they
ended, while a replay of the log from its start does not. Both are states of one log at one offset, and the log is
right.

Only differences in substance count. If a group differs only in the log offset and the time of its record
(`log_offset`, `state_since`), the carried group stays: it has seen records that the log no longer has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.consumer_group import ConsumerGroup
from kgroups_spark.coordinator.releases import Release, Topics
from kgroups_spark.coordinator.rows import VERSIONS, GroupRow, MemberRow
from kgroups_spark.coordinator.state_entries import (
    OWN_FIELDS,
    STATE_FORMAT,
    group_row,
    made_by,
    noted_row,
    producer_row,
    saved_and_loaded,
)
from kgroups_spark.coordinator.versions import Group, MemberVersions, Place, Version, before, changes
from kgroups_spark.offsets.columns import GroupKey
from kgroups_spark.offsets.expiry import unmatched
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay.groups import ShardHistory
from kgroups_spark.replay.shard import Output, ShardReplay
from kgroups_spark.replay.state import (
    OFFSET_COLUMNS,
    LogState,
    ShardGroups,
    checkpoint_rows,
    loaded,
    noted_producers,
    offset_fields,
    open_transactions,
    plain_entries,
)
from kgroups_spark.tables.definitions import REREAD
from kgroups_spark.tables.rows import no_rows, table_of_rows
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES, arrow_schema


class Correction(NamedTuple):
    """An entry that replaces one of the carried state; `payload` None removes it. A producer's payload has its id;
    without transaction and pending offsets the producer is removed."""

    entry_type: str
    group_id: str | None
    payload: str | None

    @property
    def is_gone(self) -> bool:
        """Whether the log no longer has the entry."""
        if self.entry_type == "producer":
            return "transaction" not in orjson.loads(self.payload or "{}")
        return self.payload is None

    @property
    def producer_id(self) -> int | None:
        """The producer of the entry; None: it is not a producer's."""
        is_of_producer = self.entry_type == "producer"
        return orjson.loads(self.payload or "{}").get("producer_id") if is_of_producer else None

    @property
    def entry(self) -> tuple[str, str | None, int | None]:
        """The key of the entry: its type, group and producer."""
        return self.entry_type, self.group_id, self.producer_id


def corrections(carried: LogState, reported: LogState) -> Iterator[Correction]:
    """The corrections that turn the carried state into that of the log, in no particular order."""
    names = [*OFFSET_COLUMNS, "producer_id"]
    offsets = pa.concat_tables(unmatched(*(each.offsets.offsets.select(names) for each in (carried, reported))))
    is_committed = offsets["producer_id"].is_null()
    yield from _of_groups(carried, reported, set(offsets.filter(is_committed)["group_id"].to_pylist()))
    others = set(offsets.filter(pc.invert(is_committed))["producer_id"].to_pylist())
    yield from _of_producers(carried, reported, others)
    yield from _of_noted_producers(noted_producers(carried), noted_producers(reported))


def corrected(state: LogState, found: Sequence[Correction], release: Release) -> LogState:
    """The state with these entries in place of its own."""
    groups = {each.group_id for each in found if each.entry_type == "group"}
    noted_groups = {each.group_id for each in found if each.entry_type == "noted"}
    producers = {each.producer_id for each in found if each.entry_type == "producer"}
    added = loaded(plain_entries([(0, each) for each in found if each.payload is not None]), release)
    (shard,) = state.shards
    was, more = state.offsets, added.offsets
    is_committed = was.offsets["producer_id"].is_null()
    offsets = OffsetState(
        pa.concat_tables(
            [
                _without(was.offsets.filter(is_committed), "group_id", groups),
                _without(was.offsets.filter(pc.invert(is_committed)), "producer_id", producers),
                more.offsets,
            ]
        ),
        was.removed,
        pa.concat_tables([_without(was.noted, "group_id", noted_groups), more.noted]),
        pa.concat_tables([_without(was.transactions, "producer_id", producers), more.transactions]),
    )
    known = {group_id: group for group_id, group in shard.groups.items() if group_id not in groups} | added.groups
    gone = {group_id: at for group_id, at in shard.removed.items() if group_id not in groups}
    return LogState(offsets, [ShardGroups(known, gone)], state.log)


def versions(found: Sequence[Correction], was: LogState, now: LogState, place: Place) -> Iterator[Version]:
    for each in found:
        if each.entry_type == "group" and each.group_id is not None:
            start = before(was.groups.get(each.group_id), None)
            yield from changes(start, now.groups.get(each.group_id), None, place, Topics())


def _without(rows: pa.Table, column: str, owners: Collection[Any]) -> pa.Table:
    return rows.filter(pc.invert(_is_one(rows, column, owners)))


def _is_one(rows: pa.Table, column: str, owners: Collection[Any]) -> pa.ChunkedArray:
    """Whether each row belongs to one of these groups or producers."""
    values = rows[column].cast(pa.string()) if column == "group_id" else rows[column]
    return pc.is_in(values, pa.array(sorted(owners), values.type))


def _of_groups(carried: LogState, reported: LogState, moved: set[str]) -> Iterator[Correction]:
    """`moved`: groups whose committed offsets differ."""
    known = carried.groups.keys() | reported.groups.keys()
    others = {g for g in known if not _is_same(carried.groups.get(g), reported.groups.get(g))}
    offsets = reported.offsets.offsets
    committed = _by_owner(offsets.filter(offsets["producer_id"].is_null()), "group_id", moved | others)
    for group_id in sorted(moved | others):
        group = (reported if group_id in others else carried).groups.get(group_id)
        its_offsets = [fields[1:] for fields in committed.get(group_id, ())]
        is_gone = group is None and not its_offsets
        yield Correction("group", group_id, None) if is_gone else Correction(*group_row(group_id, group, its_offsets))


def _of_producers(carried: LogState, reported: LogState, moved: set[int]) -> Iterator[Correction]:
    """`moved`: producers whose pending offsets differ."""
    were, are = ({producer: of for _, producer, of in open_transactions(each)} for each in (carried, reported))
    others = {producer for producer in were.keys() | are.keys() if were.get(producer) != are.get(producer)}
    pending = _by_owner(reported.offsets.offsets, "producer_id", moved | others)
    for producer in sorted(moved | others):
        if producer in are or producer in pending:
            yield Correction(*producer_row(producer, are.get(producer), pending.get(producer, ())))
        else:
            yield Correction("producer", None, orjson.dumps({"producer_id": producer}).decode())


def _of_noted_producers(carried: dict[GroupKey, set[int]], reported: dict[GroupKey, set[int]]) -> Iterator[Correction]:
    for key in sorted(carried.keys() | reported.keys()):
        if key not in reported:
            yield Correction("noted", key[1], None)
        elif carried.get(key) != reported[key]:
            yield Correction(*noted_row(key[1], reported[key]))


def _by_owner(offsets: pa.Table, column: str, owners: Collection[Any]) -> dict[Any, list[tuple[Any, ...]]]:
    """The offsets of these groups or producers, by group or producer."""
    offsets = offsets.filter(_is_one(offsets, column, owners))
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for owner, fields in zip(offsets[column].to_pylist(), offset_fields(offsets), strict=True):
        found.setdefault(owner, []).append(fields)
    return found


def _is_same(one: Group | None, other: Group | None) -> bool:
    """Whether the groups are equal in substance."""
    if one is None or other is None:
        return one is other
    if isinstance(one, ClassicGroup) and isinstance(other, ClassicGroup):
        # A classic group is one record of the log, or none, so an equal log offset is enough.
        return one.log_offset == other.log_offset or _facts(one) == _facts(other)
    return type(one) is type(other) and _facts(one) == _facts(other)


def _facts(group: Group) -> tuple[Any, ...]:
    """All fields of the group except the log offset and time of its record."""
    group = saved_and_loaded(group)
    if isinstance(group, ClassicGroup):
        return group.value, group.value_version
    members = {member_id: member[:-1] for member_id, member in group.members.items()}
    own = [getattr(group, name) for name in OWN_FIELDS[group.group_type]]
    if isinstance(group, ConsumerGroup):
        own.append({topic: owned for topic, owned in group.partition_epochs.epochs.items() if owned})
    epochs = (group.group_epoch, group.assignment_epoch)
    return group.state, *epochs, group.metadata_hash, members, group.target, *own


# The replay of a history in which audits corrected the state (R6), each at the end of the log that it had read.
#
#     history up to 40 -> corrections before 40 -> history from 40 on -> ...
#
# Versions of a corrected group or member are at the offset before, without a time. They replace the versions that the
# replay found at that offset.


class CorrectedAt(NamedTuple):
    """The corrections before the record at a log offset."""

    log_offset: int
    corrections: Sequence[Correction]


def corrections_of(reread: pa.Table) -> list[CorrectedAt]:
    """The corrections among rows `reread` of an offsets partition, in log order.

    If several have the same entry at the same log offset, the newest audit's counts. An entry of another state format
    is left out, because this release cannot read it.
    """
    rows = reread.sort_by([("log_offset", "ascending"), ("audit_id", "ascending")]).to_pylist()
    found = []
    for log_offset, of_place in groupby(rows, key=lambda row: row["log_offset"]):
        newest = {}
        for row in of_place:
            is_readable = row["payload"] is None or row["state_format"] == STATE_FORMAT
            if is_readable:
                correction = Correction(*(row[name] for name in Correction._fields))
                newest[correction.entry] = correction
        if newest:
            found.append(CorrectedAt(log_offset, list(newest.values())))
    return found


def corrected_changes(
    replay: ShardReplay, log_offset: int, find: Callable[[LogState], Sequence[Correction]], history_from: int = 0
) -> Generator[Output, None, LogState]:
    """The changes of a replay up to `log_offset`, whose state is then corrected: returns that state.

    find          state -> the corrections to make in it
    history_from  versions before this log offset are left out, because history has them already
    """
    last: list[Output] = []

    def new(rows: pa.Table) -> pa.Table:
        return rows.filter(pc.greater_equal(rows.column("log_offset"), history_from))

    for name, rows in replay.changes():
        if name in VERSIONS:
            is_last = pc.equal(rows.column("log_offset"), log_offset - 1)
            last.append((name, rows.filter(is_last)))
            rows = new(rows.filter(pc.invert(is_last)))
        yield name, rows
    state, release = replay.state, replay.night.release
    found = find(state)
    now = corrected(state, found, release) if found else state
    place = Place(int(replay.log.partitions[0]), log_offset - 1, None)
    right = list[GroupRow | MemberRow]()
    for version in versions(found, state, now, place):
        # MemberVersions become removals: a corrected group has plain rows for the others.
        right += version.removed() if isinstance(version, MemberVersions) else [version]
    replaced = {(version.group_id, getattr(version, "member_id", None)) for version in right}
    for name, rows in last:
        stays = [(row["group_id"], row.get("member_id")) not in replaced for row in rows.to_pylist()]
        yield name, new(rows.filter(pa.array(stays, pa.bool_())))
    for name, kind in VERSIONS.items():
        of_kind = [version for version in right if isinstance(version, kind)]
        yield name, new(table_of_rows(name, kind._fields, of_kind, audit_id=replay.night.audit_id))
    return now


@dataclass(eq=False)
class HistoryReplay(ShardReplay):
    """The replay of a log, in pieces that end where corrections are: only a log of one partition has any.

    history_from  versions before this log offset are left out, because history has them already
    """

    corrections: Sequence[CorrectedAt] = ()
    history_from: int = 0

    def changes(self) -> Iterator[Output]:
        """(table, rows) of versions, events, markers and records at which a load would fail."""
        whole, start, pieces = self.history, None, list[ShardReplay]()
        for each in self.corrections:
            history = whole.between(start, each.log_offset)
            pieces.append(ShardReplay(self.night, self.saved, history, self.ranges))
            find = lambda _, found=each.corrections: found  # noqa: E731
            self.saved = yield from corrected_changes(pieces[-1], each.log_offset, find, self.history_from)
            start = each.log_offset
            self.history = whole.between(start, None)
        yield from super().changes()
        self.failures = [failure for piece in (*pieces, self) for failure in piece.failures]
        self.unreadable = pa.concat_tables(piece.unreadable for piece in (*pieces, self))


# R6: an offsets partition whose log was read again from its start corrects the state carried from audit to audit.
#
# The cleaner may have removed tombstones and markers before an audit read them. The carried state then still has what
# they ended. The log, read from its start, is right.


@dataclass(eq=False, kw_only=True)
class CorrectedReplay(ShardReplay):
    """A replay, corrected by a replay of the log read again, `again`, which ends at `end_offset`."""

    again: ShardHistory
    end_offset: int

    def outputs(self) -> Iterator[Output]:
        """(table, rows); rows of `checkpoints` are the corrections."""
        found = list[Correction]()

        def find(carried: LogState) -> list[Correction]:
            read = ShardReplay(self.night, LogState(), self.history.after(self.again), self.ranges)
            for _ in read.changes():
                pass
            found.extend(corrections(carried, read.state))
            return found

        state = yield from corrected_changes(self, self.end_offset, find)
        if not found:
            yield from self.current()
            return
        made, (number,) = made_by(self.night.audit_id, REREAD, self.night.release_version), self.log.partitions
        entries = plain_entries([(number, each) for each in found])
        yield CHECKPOINTS, checkpoint_rows(entries, {number: self.end_offset}, made)
        # The current tables come from the state alone.
        self.saved, self._shards = state, []
        commits, *others = (no_rows(arrow_schema(name)) for name in LOG_TABLES)
        self.history = ShardHistory.of(self.log, lambda _: commits, *others)
        yield from super().outputs()
