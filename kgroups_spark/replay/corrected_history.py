"""The replay of a history in which audits corrected the state (R6), each at the end of the log that it had read.

    history up to 40 -> corrections before 40 -> history from 40 on -> ...

Versions of a corrected group or member are at the offset before, without a time. They replace the versions that the
replay found at that offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.rows import VERSIONS, GroupVersion, MemberVersion
from kgroups_spark.coordinator.state_entries import STATE_FORMAT
from kgroups_spark.coordinator.versions import MemberVersions, Place, Version
from kgroups_spark.offsets.mixed import Mixed
from kgroups_spark.offsets.ranges import SlotRange
from kgroups_spark.offsets.replay import ALL_SLOTS
from kgroups_spark.replay.corrections import Correction, corrected, versions
from kgroups_spark.replay.replay_shard import Failure, Night, Output, ShardReplay
from kgroups_spark.replay.shard_history import ShardHistory
from kgroups_spark.replay.shard_state import ShardState
from kgroups_spark.tables.rows import table_batch

PlainVersion: TypeAlias = GroupVersion | MemberVersion


@dataclass(frozen=True)
class CorrectedAt:
    """The corrections before the record at a log offset."""

    log_offset: int
    corrections: Sequence[Correction]

    def found_in(self, _: ShardState) -> Sequence[Correction]:
        """The corrections; the state is ignored."""
        return self.corrections


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
        right = list(_plain(versions(found, state, self._state, place)))
        for name, rows in last:
            yield name, _without(rows, right)
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
            replay = self._piece(state, start, each.log_offset)
            piece = CorrectedPiece(replay, each.log_offset, each.found_in)
            for name, rows in piece.changes():
                is_new = name not in VERSIONS or pc.greater_equal(rows.column("log_offset"), self.history_from)
                yield name, rows if is_new is True else rows.filter(is_new)
            self._take_failures(replay)
            state, start = piece.state, each.log_offset
        self._last = self._piece(state, start, None)
        yield from self._last.changes()
        self._take_failures(self._last)

    def current(self) -> Iterator[Output]:
        """(table, rows) of the current tables, once all changes have been taken."""
        return self._last.current()

    def deciding(self) -> Iterator[Output]:
        """As in ShardReplay."""
        return self._last.deciding()

    def _take_failures(self, replay: ShardReplay) -> None:
        self.failures += replay.failures
        self._unreadable.append(replay.unreadable)

    def _piece(self, state: ShardState, start: int | None, end: int | None) -> ShardReplay:
        history = self.history.between(start, end) if self.corrections else self.history
        return ShardReplay(self.offsets_partition, self.night, state, history, self.ranges)


def _without(rows: pa.Table | pa.RecordBatch, versions: Sequence[PlainVersion]) -> pa.Table | pa.RecordBatch:
    """The rows except those that these versions replace (same group and member)."""
    keys = {(version.group_id, getattr(version, "member_id", None)) for version in versions}
    stays = [(row["group_id"], row.get("member_id")) not in keys for row in rows.to_pylist()]
    return rows.filter(pa.array(np.array(stays, np.bool_)))


def _plain(versions: Iterable[Version]) -> Iterator[PlainVersion]:
    """The versions as single rows. MemberVersions become removals: a corrected group has plain rows for the others."""
    for version in versions:
        yield from version.removed() if isinstance(version, MemberVersions) else [version]
