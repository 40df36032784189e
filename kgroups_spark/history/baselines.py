"""Where reduced history begins to count: states that `kgroups maintain --keep` wrote down before it reduced what lies
below them."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_rows import STATE_FORMATS
from kgroups_spark.replay.stored_history import CORRECTIONS, Baseline
from kgroups_spark.tables.conditions import Condition

PLACE = ("offsets_partition", "audit_id", "log_offset")
RULES = ("release_version", "rules_version", "state_format")
# Its offsets are left out: each baseline has a row that is none (baseline_rows.MARK), and may have millions that are.
IS_BASELINE = (Condition("correction", "==", "baseline"), Condition("record_offset", "is null"))


class Rows(Protocol):
    """A lake, as it is or as an audit left it."""

    def rows(self, name: str, *, columns: list[str], conditions: list[Condition]) -> pa.Table: ...


def baseline_places(lake: Rows) -> pa.Table:
    """Where the baselines of a lake stand, and by which rules they were made: PLACE and RULES, each once."""
    columns = [*PLACE, *RULES]
    return lake.rows(CORRECTIONS, columns=columns, conditions=[*IS_BASELINE]).group_by(columns).aggregate([])


def usable_baselines(places: pa.Table, release_version: str) -> dict[int, Baseline]:
    """The newest of each offsets partition, if it was made by today's rules: another state cannot be gone on from, and
    what is left of the history is replayed as a broker loads a compacted log."""
    ours = {(release_version, RULES_VERSION, state_format) for state_format in STATE_FORMATS}
    newest = {row["offsets_partition"]: row for row in places.sort_by([(n, "ascending") for n in PLACE]).to_pylist()}
    return {
        number: Baseline(row["log_offset"], row["audit_id"])
        for number, row in newest.items()
        if tuple(row[name] for name in RULES) in ours
    }


def newest_baselines(lake: Rows) -> dict[int, int]:
    """Below which log offset each offsets partition is, or may be, reduced; whatever the rules of its baseline."""
    places = baseline_places(lake).sort_by([(name, "ascending") for name in PLACE])
    return dict(zip(places["offsets_partition"].to_pylist(), places["log_offset"].to_pylist(), strict=True))
