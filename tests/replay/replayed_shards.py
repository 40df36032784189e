"""Nights that are replayed: records in, rows of the tables and the next state out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgroups_spark.coordinator.releases import Topics
from kgroups_spark.offsets.columns import JoinedLog
from kgroups_spark.offsets.expiry import CleanUp
from kgroups_spark.offsets.replay import ALL_SLOTS
from kgroups_spark.replay.shard import Night, ShardReplay
from kgroups_spark.replay.state import LogState
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.coordinator.log_rows import ReplayRow
from tests.coordinator.oracle_answers import Tables
from tests.offsets.log_tables import history_tables, shard_history

RELEASES = ("4.4", "4.3", "4.1", "4.0.0", "3.8-java", "3.7-java", "3.9", "2.8", "0.11")
AS_OF = 1_700_000_001_500
CHANGES = ("group_versions", "group_member_versions", "group_events", "quarantine", "transaction_markers")
Row = dict[str, Any]
Rows = dict[str, list[Row]]


def night(version: str) -> Night:
    return Night(1, version, 50, Topics(), retention_ms=1000, clean_up=CleanUp(AS_OF, 1000, version, 1))


def replayed(
    rows: Sequence[ReplayRow], night: Night, state: LogState | None = None, ranges=ALL_SLOTS
) -> tuple[Rows, LogState]:
    """Rows by table, and the state after them."""
    state = state or LogState()
    shard = ShardReplay(night, state, shard_history(history_tables(rows), log=state.log), ranges)
    found: Rows = {}
    for name, table in shard.outputs():
        assert table.schema.names == arrow_schema(name).names
        found.setdefault(name, []).extend(table.to_pylist(maps_as_pydicts="strict"))
    return {name: in_order(name, of) for name, of in found.items() if of}, shard.state


def in_order(name: str, rows: Sequence[Row]) -> list[Row]:
    key = TABLES[name].key
    return sorted(rows, key=lambda row: [(row[column] is not None, row[column]) for column in key])


class Shard:
    """One offsets partition, replayed in steps: its current tables, and all changes so far."""

    def __init__(self, night: Night, offsets_partition: int = 0) -> None:
        self.night, self.state = night, LogState(log=JoinedLog.over([offsets_partition], {}))
        self._rows: Rows = {}
        self.tables = Tables(night.release, lambda name: self._rows.get(name, []))

    def replay(self, rows: Sequence[ReplayRow]) -> None:
        found, self.state = replayed(rows, self.night, self.state)
        self._rows = found | {name: self._rows.get(name, []) + found.get(name, []) for name in CHANGES}
