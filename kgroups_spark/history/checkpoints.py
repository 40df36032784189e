"""The start of reduced history: states that `kgroups maintain --keep` saved before it reduced the history below them.
Each such partition has rows of a state, even of an empty one, because all states have state_entries.MARK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_entries import STATE_FORMAT
from kgroups_spark.replay.stored_history import Checkpoint
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.internal import KEEP
from kgroups_spark.tables.schemas import CHECKPOINTS

# A log (None: __consumer_offsets) and a partition of it.
Place = tuple[str | None, int]
# The H of partitions: history below it is old.
Horizons = Mapping[Place, int]
PLACE = ("offsets_partition", "audit_id", "log_offset")
RULES = ("release_version", "rules_version", "state_format")
# Without the state's offsets, of which there may be millions.
IS_KEPT = (Condition("reason", "==", KEEP), Condition("record_offset", "is null"))


class Rows(Protocol):
    """A lake, in its present state or as an audit left it."""

    def rows(self, name: str, *, columns: list[str], conditions: list[Condition]) -> pa.Table: ...


def kept_checkpoints(lake: Rows) -> pa.Table:
    """The places of a lake's kept states, and the rules that made them: columns PLACE and RULES, each row once."""
    columns, is_one = [*PLACE, *RULES], [*IS_KEPT, Condition("log", "is null")]
    return lake.rows(CHECKPOINTS, columns=columns, conditions=is_one).group_by(columns).aggregate([])


def usable_checkpoints(kept: pa.Table, release_version: str) -> dict[int, Checkpoint]:
    """The newest checkpoint of each offsets partition, if the present rules made it. A replay cannot start from any
    other state; it then replays the remaining history, as a broker loads a compacted log."""
    newest = {row["offsets_partition"]: row for row in kept.sort_by([(n, "ascending") for n in PLACE]).to_pylist()}
    return {
        number: Checkpoint(row["log_offset"], row["audit_id"])
        for number, row in newest.items()
        if tuple(row[name] for name in RULES) == (release_version, RULES_VERSION, STATE_FORMAT)
    }


def of_groups(horizons: Horizons) -> dict[int, int]:
    """The H of each offsets partition."""
    return {number: at for (log, number), at in horizons.items() if log is None}


def reduced_to(lake: Rows) -> dict[Place, int]:
    """The log offset below which each partition is, or may be, reduced, whatever the rules of its checkpoint."""
    columns = ["log", "offsets_partition", "log_offset"]
    kept = lake.rows(CHECKPOINTS, columns=columns, conditions=[*IS_KEPT]).group_by(columns[:2])
    rows = kept.aggregate([("log_offset", "max")]).to_pylist()
    return {(row["log"], row["offsets_partition"]): row["log_offset_max"] for row in rows}
