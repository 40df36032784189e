"""Tables of lakes into which real logs were audited: the corpora, and the shipped segments, whose story is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.ledger import PartitionProgress
from kgroups_spark.tables.schemas import arrow_schema
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
    return _tables([name], 0)


@cache
def tables_of_all() -> dict[str, pa.Table]:
    """The tables of all logs in one lake; only which release's rules were used differs."""
    return _tables(LOGS, 1)


def _tables(logs: Sequence[str], apart: int) -> dict[str, pa.Table]:
    """`apart`: 1 if the partitions of each log have numbers of their own, else 0."""
    shifts = {log: apart * FIRST_PARTITION[log] for log in logs}
    names = (*CURRENT, *RECORD_TABLES, *VERSIONS, "group_traffic", "topics")
    tables = {
        name: pa.concat_tables([_shifted(audited_log(log).table(name), by) for log, by in shifts.items()])
        for name in names
    }
    # Two of the logs are of one cluster, and name the same topics.
    topics = {row["topic_id"]: row for row in tables["topics"].to_pylist()}
    tables["topics"] = pa.Table.from_pylist([*topics.values()], schema=arrow_schema("topics"))
    ledger = _ledger(
        [_read(each, by) for log, by in shifts.items() for each in audited_log(log).newest.partitions or ()]
    )
    return tables | {"audits": pa.Table.from_pylist([ledger], schema=arrow_schema("audits"))}


def _shifted(rows: pa.Table, by: int) -> pa.Table:
    """The rows, of other partitions, as of audit 1."""
    changed = {"audit_id": pa.repeat(1, len(rows))}
    if "offsets_partition" in rows.column_names:
        changed["offsets_partition"] = pc.add(rows["offsets_partition"], by)
    for name, values in changed.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), values.cast(rows.schema.field(at).type))
    return rows


def _read(part: PartitionProgress, by: int) -> dict[str, Any]:
    return {
        "offsets_partition": part.offsets_partition + by,
        "start_offset": 0,
        "log_start_offset": 0,
        "end_offset": part.end_offset,
        "records": part.records,
        "records_reread": 0,
        "bytes": part.bytes,
    }


def _ledger(partitions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    required = {
        "audit_id": 1,
        "status": "finished",
        "owner": "",
        "started_at": EPOCH,
        "lake_version": 1,
        "software_version": "",
    }
    required |= {"newest_log_timestamp": EPOCH + timedelta(days=365_000)}
    return required | {"partitions": list(partitions)}
