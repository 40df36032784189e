"""The state at H, saved before history below H is reduced: what a rebuild starts from then (baselines.py).

A baseline is rows `baseline` of `state_corrections`, of every offsets partition at least one: the whole saved state at
`log_offset`, by the rules of the release that it names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_rows import STATE_FORMAT, StateRow
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.history.baselines import baseline_places, usable_baselines
from kgroups_spark.history.horizons import Horizons
from kgroups_spark.history.stored import Stored, dealt
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger_rows import records_read, what_was_read
from kgroups_spark.replay.history_parts import HistoryPart, PartReader
from kgroups_spark.replay.replay_shard import Night, Output
from kgroups_spark.replay.state_rows import ENTRIES, entry_rows, plain_entries
from kgroups_spark.replay.stored_history import CORRECTIONS, StoredHistory
from kgroups_spark.tasks.replay_stage import STATE, ShardTask, shard_rows

# A row that every partition has, so that one whose state is empty has a baseline, too.
MARK = StateRow("topics", None, '{"topics": []}')


def history_below(
    lake: Lake, stored: Stored, horizon: Horizons, release_version: str, shards: Collection[int] = ()
) -> StoredHistory:
    """The history up to H of each partition, from its newest baseline on where that is usable; all of it must be of
    finished audits. `shards`: others that tasks look at."""
    records = records_read(what_was_read(lake, LakeAsOfAudit.last_finished(lake).audit_id))
    return StoredHistory(
        stored.tables(),
        dealt({number: records[number] for number in {*horizon, *shards}}, lake.spark.sparkContext.defaultParallelism),
        replaced=lake.replaced,
        baselines=usable_baselines(baseline_places(lake), release_version),
        horizons=dict(horizon),
    )


def state_task(history: StoredHistory, release_version: str, audit_id: int) -> ShardTask:
    """Makes coordinator_state of a history."""
    night = Night(audit_id, release_version, None, Topics())
    return ShardTask(night, stored=history, tables=frozenset({STATE}))


@dataclass(frozen=True)
class OnTopOfState:
    """A task that goes on from what another one says of the state of its shards."""

    state: ShardTask

    @property
    def audit_id(self) -> int:
        return self.state.audit_id


@dataclass(frozen=True)
class BaselineTask(OnTopOfState):
    """The state of a shard where its history ends, as rows of state_corrections."""

    horizon: Horizons
    release_version: str

    def outputs(self, reader: PartReader, offsets_partition: int, parts: Sequence[HistoryPart]) -> Iterator[Output]:
        """(state_corrections, rows)."""
        constants: dict[str, Any] = {
            "audit_id": self.audit_id,
            "offsets_partition": offsets_partition,
            "log_offset": self.horizon[offsets_partition],
            "correction": "baseline",
            "state_format": STATE_FORMAT,
            "release_version": self.release_version,
            "rules_version": RULES_VERSION,
        }
        states = [rows.select(ENTRIES.names) for _, rows in self.state.outputs(reader, offsets_partition, parts)]
        for entries in (plain_entries([MARK]), *states):
            yield CORRECTIONS, entry_rows(CORRECTIONS, entries, **constants)


def baseline_rows(lake: Lake, horizon: Horizons, release_version: str, audit_id: int) -> DataFrame:
    """Rows of state_corrections: the state at H of each partition."""
    stored = Stored.of(lake)
    history = history_below(lake, stored, horizon, release_version)
    state = state_task(history, release_version, audit_id)
    task = BaselineTask(state, dict(horizon), release_version)
    return shard_rows(stored.shards(history.dealt.hands), task, CORRECTIONS)
