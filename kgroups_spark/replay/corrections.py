"""The differences between a state that was carried from audit to audit and the log as it is now.

The cleaner may compact tombstones and markers away between two audits. The carried state then still has what they
ended, while a replay of the log from its start does not. Both are states of one log at one offset, and the log is
right.

Only differences in substance count. If a group differs only in the log offset and the time of its record
(`log_offset`, `state_since`), the carried group stays: it has seen records that the log no longer has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
from kgroups_spark.offsets.columns import SlotRange
from kgroups_spark.offsets.effects import Mixed
from kgroups_spark.offsets.expiry import unmatched
from kgroups_spark.offsets.replay import ALL_SLOTS
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay.groups import ShardHistory
from kgroups_spark.replay.shard import Failure, Night, Output, ShardReplay
from kgroups_spark.replay.state import (
    OFFSET_COLUMNS,
    ShardState,
    checkpoint_rows,
    loaded,
    noted_producers,
    offset_fields,
    open_transactions,
    plain_entries,
)
from kgroups_spark.tables.definitions import REREAD
from kgroups_spark.tables.rows import no_rows, table_batch
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


def corrections(carried: ShardState, reported: ShardState) -> Iterator[Correction]:
    """The corrections that turn the carried state into that of the log, in no particular order."""
    names = [*OFFSET_COLUMNS, "producer_id"]
    offsets = pa.concat_tables(unmatched(*(each.offsets.offsets.select(names) for each in (carried, reported))))
    is_committed = offsets["producer_id"].is_null()
    yield from _of_groups(carried, reported, set(offsets.filter(is_committed)["group_id"].to_pylist()))
    others = set(offsets.filter(pc.invert(is_committed))["producer_id"].to_pylist())
    yield from _of_producers(carried.offsets, reported.offsets, others)
    yield from _of_noted_producers(noted_producers(carried.offsets), noted_producers(reported.offsets))


def corrected(state: ShardState, found: Sequence[Correction], release: Release) -> ShardState:
    """The state with these entries in place of its own."""
    groups = {each.group_id for each in found if each.entry_type == "group"}
    noted_groups = {each.group_id for each in found if each.entry_type == "noted"}
    producers = {each.producer_id for each in found if each.entry_type == "producer"}
    added = loaded(plain_entries([each for each in found if each.payload is not None]), release)
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
    return ShardState(
        offsets,
        {group_id: group for group_id, group in state.groups.items() if group_id not in groups} | added.groups,
        {group_id: at for group_id, at in state.removed_groups.items() if group_id not in groups},
    )


def versions(found: Sequence[Correction], was: ShardState, now: ShardState, place: Place) -> Iterator[Version]:
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


def _of_groups(carried: ShardState, reported: ShardState, moved: set[str]) -> Iterator[Correction]:
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


def _of_producers(carried: OffsetState, reported: OffsetState, moved: set[int]) -> Iterator[Correction]:
    """`moved`: producers whose pending offsets differ."""
    were, are = open_transactions(carried), open_transactions(reported)
    others = {producer for producer in were.keys() | are.keys() if were.get(producer) != are.get(producer)}
    pending = _by_owner(reported.offsets, "producer_id", moved | others)
    for producer in sorted(moved | others):
        if producer in are or producer in pending:
            yield Correction(*producer_row(producer, are.get(producer), pending.get(producer, ())))
        else:
            yield Correction("producer", None, orjson.dumps({"producer_id": producer}).decode())


def _of_noted_producers(carried: dict[str, set[int]], reported: dict[str, set[int]]) -> Iterator[Correction]:
    for group_id in sorted(carried.keys() | reported.keys()):
        if group_id not in reported:
            yield Correction("noted", group_id, None)
        elif carried.get(group_id) != reported[group_id]:
            yield Correction(*noted_row(group_id, reported[group_id]))


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


@dataclass(frozen=True)
class CorrectedAt:
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


@dataclass(eq=False)
class CorrectedPiece:
    """A replay up to `log_offset`, whose state is then corrected. `changes` and `state` as in ShardReplay.

    find          state -> the corrections to make in it
    is_corrected  whether there were any; set once all changes have been taken
    """

    replay: ShardReplay
    log_offset: int
    find: Callable[[ShardState], Iterable[Correction]]
    is_corrected: bool = False

    @property
    def state(self) -> ShardState:
        return self._state

    def changes(self) -> Iterator[Output]:
        """(table, rows); the versions of corrected groups come last."""
        night = self.replay.night
        last: list[Output] = []
        for name, rows in self.replay.changes():
            if name in VERSIONS:
                is_last = pc.equal(rows.column("log_offset"), self.log_offset - 1)
                last.append((name, rows.filter(is_last)))
                rows = rows.filter(pc.invert(is_last))
            yield name, rows
        state = self.replay.state
        found = list(self.find(state))
        self.is_corrected = bool(found)
        self._state = corrected(state, found, night.release) if found else state
        place = Place(self.replay.offsets_partition, self.log_offset - 1, None)
        right = list[GroupRow | MemberRow]()
        for version in versions(found, state, self._state, place):
            # MemberVersions become removals: a corrected group has plain rows for the others.
            right += version.removed() if isinstance(version, MemberVersions) else [version]
        replaced = {(version.group_id, getattr(version, "member_id", None)) for version in right}
        for name, rows in last:
            stays = [(row["group_id"], row.get("member_id")) not in replaced for row in rows.to_pylist()]
            yield name, rows.filter(pa.array(stays, pa.bool_()))
        for name, kind in VERSIONS.items():
            of_kind = [version for version in right if isinstance(version, kind)]
            yield name, table_batch(name, kind._fields, of_kind, audit_id=night.audit_id)


@dataclass(eq=False)
class HistoryReplay:
    """The replay of an offsets partition, in pieces that end where corrections are. `changes`, `current`, `state`,
    `failures` and `unreadable` as in ShardReplay.

    history_from  versions before this log offset are left out, because history has them already
    """

    offsets_partition: int
    night: Night
    saved: ShardState
    history: ShardHistory
    corrections: Sequence[CorrectedAt] = ()
    ranges: Sequence[SlotRange] = ALL_SLOTS
    history_from: int = 0
    failures: list[Failure] = field(default_factory=list)
    _unreadable: list[pa.Table] = field(default_factory=list)

    @property
    def state(self) -> ShardState:
        return self._last.state

    @property
    def unreadable(self) -> pa.Table:
        return pa.concat_tables(self._unreadable)

    @property
    def mixed(self) -> Sequence[Mixed]:
        """As in ShardReplay, for the history after the last correction."""
        return self._last.mixed

    def outputs(self) -> Iterator[Output]:
        """(table, rows): changes, then the current tables."""
        yield from self.changes()
        yield from self.current()

    def changes(self) -> Iterator[Output]:
        """(table, rows) of versions, events, markers and records at which a load would fail."""
        state, start = self.saved, None
        for each in self.corrections:
            replay, found = self._piece(state, start, each.log_offset), each.corrections
            piece = CorrectedPiece(replay, each.log_offset, lambda _, found=found: found)  # type: ignore[misc]
            for name, rows in piece.changes():
                is_new = name not in VERSIONS or pc.greater_equal(rows.column("log_offset"), self.history_from)
                yield name, rows if is_new is True else rows.filter(is_new)
            self.failures += replay.failures
            self._unreadable.append(replay.unreadable)
            state, start = piece.state, each.log_offset
        self._last = self._piece(state, start, None)
        yield from self._last.changes()
        self.failures += self._last.failures
        self._unreadable.append(self._last.unreadable)

    def current(self) -> Iterator[Output]:
        """(table, rows) of the current tables, once all changes have been taken."""
        return self._last.current()

    def deciding(self) -> Iterator[Output]:
        """As in ShardReplay."""
        return self._last.deciding()

    def _piece(self, state: ShardState, start: int | None, end: int | None) -> ShardReplay:
        history = self.history.between(start, end) if self.corrections else self.history
        return ShardReplay(self.offsets_partition, self.night, state, history, self.ranges)


# R6: an offsets partition whose log was read again from its start corrects the state carried from audit to audit.
#
# The cleaner may have removed tombstones and markers before an audit read them. The carried state then still has what
# they ended. The log, read from its start, is right.


class CorrectedReplay:
    """A replay, corrected by a replay of the log read again. `outputs` and `state` as in ShardReplay."""

    def __init__(
        self,
        offsets_partition: int,
        night: Night,
        state: ShardState,
        new: ShardHistory,
        again: ShardHistory,
        end_offset: int,
        ranges: Sequence[SlotRange],
    ) -> None:
        self.offsets_partition, self.night = offsets_partition, night
        self._end_offset, self._ranges = end_offset, ranges
        self._found: list[Correction] = []
        self._read = ShardReplay(offsets_partition, night, ShardState(), new.after(again), ranges)
        carried = ShardReplay(offsets_partition, night, state, new, ranges)
        self._carried = CorrectedPiece(carried, end_offset, self._find)

    @property
    def state(self) -> ShardState:
        return self._carried.state

    @property
    def mixed(self) -> Sequence[Mixed]:
        """As in ShardReplay, for the new history."""
        return self._carried.replay.mixed

    def outputs(self) -> Iterator[Output]:
        """(table, rows); rows of `checkpoints` are the corrections."""
        yield from self._carried.changes()
        if self._found:
            made, entries = made_by(self.night.audit_id, REREAD, self.night.release_version), plain_entries(self._found)
            yield CHECKPOINTS, checkpoint_rows(entries, self.offsets_partition, self._end_offset, made)
        if not self._carried.is_corrected:
            yield from self._carried.replay.current()
            return
        # The current tables come from the state alone.
        empty = ShardHistory.of_tables(*(no_rows(arrow_schema(name)) for name in LOG_TABLES))
        nothing = ShardReplay(self.offsets_partition, self.night, self.state, empty, self._ranges)
        yield from nothing.outputs()

    def _find(self, carried: ShardState) -> list[Correction]:
        for _ in self._read.changes():
            pass
        self._found = list(corrections(carried, self._read.state))
        return self._found
