"""R6: an offsets partition whose log was read again from its start corrects the state that was carried on.

Tombstones and markers that nobody read may be gone by now, and what they ended lives on in the carried state. That
which the log says from its start is right. Versions of what is corrected stand at the offset before the log's end, in
the place of those that this replay found there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.rows import GroupVersion, MemberVersion
from kgroups_spark.coordinator.state_difference import WAIT, Correction, corrections
from kgroups_spark.coordinator.state_rows import STATE_FORMAT
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.coordinator.versions import MemberVersions, Version
from kgroups_spark.offsets.state import GroupRange
from kgroups_spark.replay.replay_shard import Night, Output, ShardReplay
from kgroups_spark.replay.shard_history import ShardHistory
from kgroups_spark.replay.shard_state import ShardState
from kgroups_spark.replay.state_rows import shard_of, state_of
from kgroups_spark.tables.rows import table_batch

PlainVersion: TypeAlias = GroupVersion | MemberVersion
CURRENT = ("groups", "group_members", "committed_offsets", "pending_offsets", "open_transactions")
VERSIONS: dict[str, type[PlainVersion]] = {"group_versions": GroupVersion, "group_member_versions": MemberVersion}


@dataclass(frozen=True)
class ReadAgain:
    """An offsets partition whose log was read again from its start: it says what the saved state may have missed.

    `end_offset`: up to where it was read. `waiting`: groups that have versions at the offset before that in history
    already; no second one may stand there, so that they are corrected when the partition is read again after more has
    come.
    """

    end_offset: int
    waiting: frozenset[str] = frozenset()


class CorrectedReplay:
    """A replay, corrected by what was read again. `outputs` and `state` as of ShardReplay."""

    def __init__(
        self,
        offsets_partition: int,
        night: Night,
        state: ShardState,
        new: ShardHistory,
        again: ShardHistory,
        read_again: ReadAgain,
        ranges: Sequence[GroupRange],
    ) -> None:
        self._partition, self._night, self._read_again, self._ranges = offsets_partition, night, read_again, ranges
        self._carried = ShardReplay(offsets_partition, night, state, new, ranges)
        self._told = ShardReplay(offsets_partition, night, ShardState(), new.behind(again), ranges)
        self._corrected: ShardState | None = None

    @property
    def state(self) -> ShardState:
        return self._carried.state if self._corrected is None else self._corrected

    def outputs(self) -> Iterator[Output]:
        """(table, rows); `state_corrections` says what was corrected."""
        carried = list(self._carried.outputs())
        for _ in self._told.outputs():
            pass
        release, partition = self._night.release, self._partition
        shard = shard_of(self._carried.state, release, partition, recording=True)
        found = list(corrections(shard, shard_of(self._told.state, release, partition), self._read_again.waiting))
        if not found:
            yield from carried
            return
        for correction in found:
            if correction.correction != WAIT:
                shard.correct(self._read_again.end_offset, *correction[1:])
        versions = list(_plain(shard.take_changes()))
        for name, rows in carried:
            if name in VERSIONS:
                rows = self._without(rows, versions)
            if name not in CURRENT and rows.num_rows:
                yield name, rows
        yield from self._version_rows(versions)
        yield "state_corrections", self._correction_rows(found)
        self._corrected = state_of(shard)
        # What stands in the state is in the current tables.
        nothing = ShardReplay(partition, self._night, self._corrected, ShardHistory.empty(), self._ranges)
        yield from nothing.outputs()

    def _without(self, rows: pa.Table | pa.RecordBatch, versions: Sequence[PlainVersion]) -> pa.Table | pa.RecordBatch:
        """The rows without those in whose place other versions stand."""
        is_there = pc.equal(rows.column("log_offset"), self._read_again.end_offset - 1)
        keys = {(version.group_id, _member_of(version)) for version in versions}
        there = rows.filter(is_there).to_pylist()
        stays = [(row["group_id"], row.get("member_id")) not in keys for row in there]
        mask = is_there.to_numpy(zero_copy_only=False).copy()
        mask[mask] = ~np.array(stays, np.bool_)
        return rows.filter(pa.array(~mask))

    def _version_rows(self, versions: Sequence[PlainVersion]) -> Iterator[Output]:
        for name, kind in VERSIONS.items():
            rows = [version for version in versions if isinstance(version, kind)]
            if rows:
                yield name, table_batch(name, kind._fields, rows, audit_id=self._night.audit_id)

    def _correction_rows(self, found: Sequence[Correction]) -> pa.RecordBatch:
        constants = {
            "audit_id": self._night.audit_id,
            "offsets_partition": self._partition,
            "log_offset": self._read_again.end_offset,
            "state_format": STATE_FORMAT,
            "release_version": self._night.release_version,
            "rules_version": RULES_VERSION,
        }
        return table_batch("state_corrections", Correction._fields, found, **constants)


def _plain(versions: Sequence[Version]) -> Iterator[PlainVersion]:
    for version in versions:
        yield from version.rows(Topics()) if isinstance(version, MemberVersions) else [version]


def _member_of(version: PlainVersion) -> str | None:
    return version.member_id if isinstance(version, MemberVersion) else None
