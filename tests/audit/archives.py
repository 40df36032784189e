"""The records of a log as somebody else's sink keeps them, and what an audit of them must find."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgroups_spark import open_lake
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from kgroups_spark.spark.data_sources import record_batches

LOGS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
TABLES = (
    "groups",
    "group_members",
    "committed_offsets",
    "pending_offsets",
    "open_transactions",
    "group_expiry",
    "transactional_ids",
)


def rows_of(folder: Path) -> pa.Table:
    """The records of all coordinators' logs in a folder, as kafka-raw has them."""
    found = []
    for topic in LOGS:
        for path in sorted(folder.glob(f"{topic}-*/*.log")):
            for item in read_segment(io.BytesIO(path.read_bytes())):
                assert isinstance(item, RecordColumns)
                found += list(record_batches(topic, int(path.parent.name.rpartition("-")[2]), item))
    return pa.Table.from_batches(found)


def tables(lake: Path) -> dict[str, list[str]]:
    reader = open_lake(lake)
    left_out = {"audit_id", "decided_by"}
    return {name: sorted(_text(row, left_out) for row in reader.table(name).to_pylist()) for name in TABLES}


def _text(row: dict[str, Any], left_out: set[str]) -> str:
    return json.dumps({name: value for name, value in row.items() if name not in left_out}, default=str)
