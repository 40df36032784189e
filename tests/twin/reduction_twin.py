"""The slow, obvious twin of reduced history: row by row, by the rules in audit/keep.py; and the product's SQL
over rows in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kgroups_spark.audit.keep import MARKERS, STORED, Reduction
from kgroups_spark.lake.replaced import NOTHING, Replaced
from kgroups_spark.replay.shard_states import Horizons
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.lake.table_rows import rows_of
from tests.protocol.fake_delta import answer

Row = dict[str, Any]
Rows = list[Row]
UNKNOWN = ("unknown_record_type", "unknown_value_version")
KEYS = {
    "offset_commits": ("record_type", "group_id", "topic", "partition", "raw_key"),
    "group_records": ("record_type", "group_id", "member_id", "regular_expression", "raw_key"),
    "quarantine": ("raw_key",),
    "group_versions": ("group_id",),
    "group_member_versions": ("group_id", "member_id"),
}


def twin(tables: Mapping[str, Rows], horizons: Mapping[int, int]) -> dict[str, Rows]:
    """The rows that stay of the tables of __consumer_offsets."""

    def is_old(row: Row) -> bool:
        return bool(row["log_offset"] < horizons.get(row["offsets_partition"], -1))

    def end_of(row: Row) -> Row | None:
        """The marker that ended the row's transaction."""
        if row["is_transactional"] and row.get("marker_offset") is None:
            for marker in tables.get(MARKERS, []):
                start = marker["transaction_start_offset"]
                is_its = all(marker[name] == row[name] is not None for name in ("offsets_partition", "producer_id"))
                is_its &= marker["outcome"] is not None and start is not None
                if is_its and start <= row["log_offset"] < marker["log_offset"]:
                    return marker
            return None
        if row.get("marker_offset") is None:
            return None
        return {"log_offset": row["marker_offset"], "outcome": row["outcome"]}

    def stays_anyway(name: str, row: Row) -> bool:
        if name == "quarantine":
            is_unknown = row["reason"] in UNKNOWN and row["resolved_by"] is None and row["producer_id"] is None
            return not is_unknown
        if "versions" in name:
            return False
        if not row["is_transactional"]:
            return name == "offset_commits" and row["producer_id"] is not None
        end = end_of(row)
        return end is None or not end["log_offset"] < horizons[row["offsets_partition"]]

    def is_void(name: str, row: Row) -> bool:
        """A value of an aborted transaction."""
        end = end_of(row) if name == "offset_commits" and row["value_version"] is not None else None
        has_ended = end is not None and end["log_offset"] < horizons[row["offsets_partition"]]
        return end is not None and has_ended and end["outcome"] == "aborted"

    left: dict[str, Rows] = {}
    for name in KEYS:
        last: dict[tuple[Any, ...], int] = {}
        others = [row for row in tables.get(name, []) if is_old(row) and not stays_anyway(name, row)]
        others = [row for row in others if not is_void(name, row)]
        for row in others:
            key = _key(row, "offsets_partition", *KEYS[name])
            last[key] = max(last.get(key, -1), row["log_offset"])
        left[name] = [
            row
            for row in tables.get(name, [])
            if not is_old(row)
            or stays_anyway(name, row)
            or (row in others and row["log_offset"] == last[_key(row, "offsets_partition", *KEYS[name])])
        ]
    left[MARKERS] = [row for row in tables.get(MARKERS, []) if not is_old(row) or _is_needed(row, tables, left)]
    return left


def _is_needed(marker: Row, tables: Mapping[str, Rows], left: Mapping[str, Rows]) -> bool:
    """Whether the same producer's previous entry is a record, not a marker."""
    if marker["outcome"] is None or marker["producer_id"] is None:
        return True
    records = [*left["offset_commits"], *left["group_records"]]
    records += [row for row in left["quarantine"] if row["record_count"] > 0]
    ends = [row for row in tables[MARKERS] if row["outcome"] is not None]
    place = _key(marker, "offsets_partition", "producer_id")

    def last_before(rows: Rows) -> int:
        its = (row["log_offset"] for row in rows if _key(row, "offsets_partition", "producer_id") == place)
        return max((at for at in its if at < marker["log_offset"]), default=-1)

    return last_before(records) > last_before(ends)


def _key(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def reduced(
    tables: Mapping[str, pa.Table],
    horizons: Mapping[int, int],
    state_horizons: Mapping[tuple[str, int], int] | None = None,
    replaced: Replaced = NOTHING,
) -> dict[str, pa.Table]:
    """The rows of the tables that the product keeps. Tables that it reads but that are not given are empty."""
    given = {f"{STORED}{name}": tables.get(name, rows_of(name)) for name in TABLES}
    of: Horizons = {**{(None, number): at for number, at in horizons.items()}, **(state_horizons or {})}
    reduction = Reduction(of, replaced)
    return {name: answer(reduction.rows_left(name), given).cast(arrow_schema(name)) for name in tables}
