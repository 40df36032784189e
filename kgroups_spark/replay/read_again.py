"""R6: an offsets partition whose log was read again from its start corrects the state carried from audit to audit.

The cleaner may have removed tombstones and markers before an audit read them. The carried state then still has what
they ended. The log, read from its start, is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from kgroups_spark.coordinator.state_entries import made_by
from kgroups_spark.offsets.mixed import Mixed
from kgroups_spark.offsets.ranges import SlotRange
from kgroups_spark.replay.checkpoint_rows import checkpoint_rows, plain_entries
from kgroups_spark.replay.corrected_history import CorrectedPiece
from kgroups_spark.replay.corrections import Correction, corrections
from kgroups_spark.replay.replay_shard import Night, Output, ShardReplay
from kgroups_spark.replay.shard_history import ShardHistory
from kgroups_spark.replay.shard_state import ShardState
from kgroups_spark.tables.internal import REREAD
from kgroups_spark.tables.schemas import CHECKPOINTS


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
            yield CHECKPOINTS, self._correction_rows()
        if not self._carried.is_corrected:
            yield from self._carried.replay.current()
            return
        # The current tables come from the state alone.
        nothing = ShardReplay(self.offsets_partition, self.night, self.state, ShardHistory.empty(), self._ranges)
        yield from nothing.outputs()

    def _find(self, carried: ShardState) -> list[Correction]:
        for _ in self._read.changes():
            pass
        self._found = list(corrections(carried, self._read.state))
        return self._found

    def _correction_rows(self) -> pa.Table:
        made = made_by(self.night.audit_id, REREAD, self.night.release_version)
        return checkpoint_rows(plain_entries(self._found), self.offsets_partition, self._end_offset, made)
