"""Tables of lakes into which real logs were audited: the corpora, and the shipped segments, whose story is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.logs.corpora import ANSWERS, audited
from tests.nights.nights_here import Audited
from tests.nights.reported_tables import CURRENT, RECORD_TABLES, VERSIONS
from tests.nights.story import story

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STORY = json.loads((Path(__file__).parents[1] / "data" / "story.json").read_text())
LOGS = (*sorted(ANSWERS), "story")
# The offsets partitions of each log are numbered from here on, so that one lake can hold all logs.
FIRST_PARTITION = {name: 100 * number for number, name in enumerate(LOGS)}


@cache
def audited_log(name: str) -> Audited:
    return story() if name == "story" else audited(name)


@cache
def tables_of(name: str) -> dict[str, pa.Table]:
    """The tables of one log, of one audit."""
    return {table: _table(table, rows) for table, rows in _rows(audited_log(name), 0).items()}


@cache
def tables_of_all() -> dict[str, pa.Table]:
    """The tables of all logs in one lake; only which release's rules were used differs."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in LOGS:
        for table, its in _rows(audited_log(name), FIRST_PARTITION[name]).items():
            rows.setdefault(table, []).extend(its)
    rows["audits"] = [_ledger([p for row in rows["audits"] for p in row["partitions"]])]
    return {table: _table(table, its) for table, its in rows.items()}


def _rows(result: Audited, first_partition: int) -> dict[str, list[dict[str, Any]]]:
    rows = {name: result.rows(name) for name in (*CURRENT, *RECORD_TABLES, *VERSIONS, "group_traffic")}
    for row in (row for its in rows.values() for row in its):
        row["offsets_partition"] += first_partition
    rows["topics"] = result.rows("topics")
    read = [
        {
            "offsets_partition": each.offsets_partition + first_partition,
            "start_offset": 0,
            "log_start_offset": 0,
            "end_offset": each.end_offset,
            "records": each.records,
            "records_reread": 0,
            "bytes": each.bytes,
        }
        for each in result.nights[-1].audit.partitions or ()
    ]
    rows["audits"] = [_ledger(read)]
    return rows


def _ledger(partitions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    required = {"status": "finished", "owner": "", "started_at": EPOCH, "lake_version": 1, "software_version": ""}
    required |= {"newest_log_timestamp": EPOCH + timedelta(days=365_000)}
    return required | {"partitions": list(partitions)}


def _table(name: str, rows: Sequence[dict[str, Any]]) -> pa.Table:
    assert name in TABLES
    return pa.Table.from_pylist([{**row, "audit_id": 1} for row in rows], schema=arrow_schema(name))
