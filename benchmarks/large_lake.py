"""Lakes of any size, written without an audit: a ledger of many nights, or many groups with committed offsets.

    python -m benchmarks.large_lake LAKE --audits 3650 --partitions 200 --groups 20
    python -m benchmarks.large_lake LAKE --groups 100000 --offsets-per-group 50

Files lie as audits leave them: one for each of the ledger's newest rows, one for 1,024 older ones, and some for each
current table, with the rows of some offsets partitions each.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kgroups_spark.lake.last_finished import APP_ID
from kgroups_spark.lake.ledger import FULL_FILE_ROWS
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.tables.schemas import LAKE_VERSION, LAKE_VERSION_PROPERTY, TABLES, Table, arrow_schema

AS_OF = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
DAY = timedelta(days=1)
RETENTION_MS = 7 * 86_400_000
SMALL_FILES = 20
FILES_OF_A_TABLE = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lake", type=Path)
    parser.add_argument("--audits", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--offsets-per-group", type=int, default=5)
    parser.add_argument("--members-per-group", type=int, default=2)
    asked = parser.parse_args()
    shutil.rmtree(asked.lake, ignore_errors=True)
    write_large_lake(
        asked.lake, asked.audits, asked.partitions, asked.groups, asked.offsets_per_group, asked.members_per_group
    )


def write_large_lake(
    lake: Path, audits: int, partitions: int, groups: int, offsets_per_group: int, members_per_group: int = 0
) -> None:
    """Writes a lake into the folder, which must not exist."""
    for table in TABLES.values():
        _create(lake, table)
    for rows in ledger_files(audits, partitions):
        _add(lake, "audits", rows, audits)
    for some in np.array_split(np.arange(partitions), FILES_OF_A_TABLE):
        for name, rows in current_rows(some, audits, partitions, groups, offsets_per_group, members_per_group).items():
            _add(lake, name, rows, audits)


def ledger_files(audits: int, partitions: int) -> Iterator[pa.Table]:
    """The ledger's files, each as its rows: for every audit one `running` and one `finished`."""
    first_small = max(1, audits - SMALL_FILES // 2 + 1)
    first = 1
    while first < first_small:
        numbers = range(first, min(first + FULL_FILE_ROWS // 2, first_small))
        yield pa.concat_tables(each for number in numbers for each in _rows_of_audit(number, audits, partitions))
        first += FULL_FILE_ROWS // 2
    for number in range(first_small, audits + 1):
        yield from _rows_of_audit(number, audits, partitions)


def _rows_of_audit(number: int, audits: int, partitions: int) -> list[pa.Table]:
    at = AS_OF - (audits - number) * DAY
    # Every partition grows by another number of records each night.
    chance = np.random.default_rng(number)
    records = chance.integers(500, 5_000, partitions)
    start = 10_000 * number + np.arange(partitions)
    entries = [
        {
            "offsets_partition": p,
            "topic_id": "A" * 22,
            "log_start_offset": 0,
            "start_offset": int(start[p]),
            "end_offset": int(start[p] + 10_000),
            "records": int(records[p]),
            "records_reread": 0,
            "bytes": int(records[p]) * 150,
            "offsets_missing": 10_000 - int(records[p]),
            "last_batch_offset": int(start[p] + 9_999),
            "last_leader_epoch": 5,
            "last_batch_crc": int(chance.integers(0, 2**32)),
            "newest_log_timestamp": at,
        }
        for p in range(partitions)
    ]
    running = {"audit_id": number, "status": "running", "owner": "host 1 1 x", "started_at": at}
    running |= {"lake_version": LAKE_VERSION, "software_version": "0"}
    finished = running | {
        "status": "finished",
        "finished_at": at,
        "as_of": at,
        "retention_ms": RETENTION_MS,
        "retention_source": "default",
        "release_version": "4.3",
        "rules_version": 1,
        "state_format": 1,
        "source": "kafka",
        "newest_log_timestamp": at,
        "partitions": entries,
        "rows_added": [(name, 1_000) for name in ("offset_commits", "group_records", "findings", "group_traffic")],
        "quarantined": [],
        "record_counts": [{"record_type": kind, "value_version": 3, "records": 500} for kind in range(10)],
        "notes": [f"12.5 % of the night's offsets ({number} of 9,999) were compacted away before this audit"],
    }
    return [pa.Table.from_pylist([row], arrow_schema("audits")) for row in (running, finished)]


def current_rows(
    some: np.ndarray, audit_id: int, partitions: int, groups: int, offsets_per_group: int, members_per_group: int
) -> dict[str, pa.Table]:
    """Rows of the groups whose offsets partition is in `some`, by table. A third of the groups is empty and expires."""
    group = np.flatnonzero(np.isin(np.arange(groups) % partitions, some))
    names = np.array([f"team-{i % 37:02}.service-{i:06}.consumer" for i in group], dtype=object)
    is_empty = group % 3 == 0
    of_group = {
        "group_id": names,
        "offsets_partition": group % partitions,
        "group_type": np.full(len(group), "classic", dtype=object),
        "state": np.where(is_empty, "Empty", "Stable").astype(object),
        "is_simple": np.zeros(len(group), bool),
        "is_misplaced": np.zeros(len(group), bool),
        "protocol_type": np.full(len(group), "consumer", dtype=object),
        "member_count": np.where(is_empty, 0, members_per_group),
    }
    at = np.repeat(np.arange(len(group)), offsets_per_group)
    slot = np.tile(np.arange(offsets_per_group), len(group))
    due = 1_000_000 * int(AS_OF.timestamp()) + (1 + (group[at] * 7 + slot) % (30 * 24 * 60)) * 60_000_000
    committed = due - 1_000 * RETENTION_MS
    of_offset = {name: of_group[name][at] for name in ("group_id", "offsets_partition")} | {
        "topic": np.array(
            [f"domain.events.topic-{(g + s // 10) % 997:04}" for g, s in zip(group[at], slot, strict=True)], object
        ),
        "partition": slot % 10,
        "committed_offset": 1_000_000 + slot,
        "log_offset": group[at] * offsets_per_group + slot,
        "metadata": np.full(len(at), "", dtype=object),
        "commit_timestamp": committed,
        "record_type": np.ones(len(at), int),
        "value_version": np.full(len(at), 3),
        "is_orphan": np.zeros(len(at), bool),
    }
    expiry = {name: of_offset[name] for name in of_offset if name in arrow_schema("offset_expiry").names} | {
        "as_of": np.full(len(at), 1_000_000 * int(AS_OF.timestamp())),
        "retention_ms": np.full(len(at), RETENTION_MS),
        "decision": np.full(len(at), "keep", dtype=object),
        "reason": np.where(is_empty[at], "within_retention", "group_active").astype(object),
        "base": pa.array(np.full(len(at), "commit_timestamp"), mask=~is_empty[at]),
        "base_timestamp": pa.array(committed, mask=~is_empty[at]),
        "expires_at": pa.array(due, mask=~is_empty[at]),
        "expires_at_if_empty": due,
    }
    previous = expiry | {"decided_by": np.full(len(at), max(1, audit_id - 1))}
    tables = {"groups": of_group, "committed_offsets": of_offset, "offset_expiry": expiry}
    tables |= {"previous_offset_expiry": previous, "group_members": _members(of_group, is_empty, members_per_group)}
    return {name: _table(name, columns, audit_id) for name, columns in tables.items()}


def _members(of_group: dict[str, Any], is_empty: np.ndarray, members: int) -> dict[str, Any]:
    at = np.repeat(np.flatnonzero(~is_empty), members)
    held = [
        [{"topic": f"domain.events.topic-{(g + n) % 997:04}", "partition": n} for n in range(10)] for g in at.tolist()
    ]
    return {
        "group_id": of_group["group_id"][at],
        "offsets_partition": of_group["offsets_partition"][at],
        "member_id": np.array(
            [f"consumer-{number}-0f3c1d5e-89ab-4cde-8f01-23456789abcd" for number in range(len(at))], object
        ),
        "client_id": np.full(len(at), "consumer", dtype=object),
        "client_host": np.full(len(at), "/10.0.0.1", dtype=object),
        "uses_classic_protocol": np.ones(len(at), bool),
        "subscribed_topics": [["orders"]] * len(at),
        "assigned_partitions": held,
        "log_offset": np.arange(len(at)),
    }


def _table(name: str, columns: dict[str, Any], audit_id: int) -> pa.Table:
    rows = len(next(iter(columns.values())))
    filled = [
        pa.nulls(rows, field.type)
        if field.name not in columns and field.name != "audit_id"
        else pa.array(np.full(rows, audit_id) if field.name == "audit_id" else columns[field.name]).cast(field.type)
        if not pa.types.is_nested(field.type)
        else pa.array(columns[field.name], field.type)
        for field in arrow_schema(name)
    ]
    return pa.Table.from_arrays(filled, schema=arrow_schema(name))


def _create(lake: Path, table: Table) -> None:
    from kgroups_spark.tables.spark_types import spark_schema

    properties = {
        "delta.dataSkippingStatsColumns": ",".join(table.statistics),
        LAKE_VERSION_PROPERTY: str(LAKE_VERSION),
    }
    metadata = {
        "id": table.name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": spark_schema(table.columns).json(),
        "partitionColumns": [],
        "configuration": properties,
        "createdTime": 0,
    }
    (lake / table.name / "_delta_log").mkdir(parents=True)
    _commit(lake, table.name, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata})


def _add(lake: Path, name: str, rows: pa.Table, audit_id: int) -> None:
    part = PartWriter(name, str(lake.resolve()), audit_id).write([rows])
    if part is None:
        return
    added = {"path": part.path, "partitionValues": {}, "size": part.size, "modificationTime": int(time.time() * 1000)}
    added |= {"dataChange": True, "stats": part.stats_json}
    # The ledger's own log does not name the audit.
    transaction = [] if name == "audits" else [{"txn": {"appId": APP_ID, "version": audit_id}}]
    _commit(lake, name, *transaction, {"add": added})


def _commit(lake: Path, name: str, *actions: dict[str, Any]) -> None:
    log = lake / name / "_delta_log"
    version = len(list(log.iterdir()))
    (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


if __name__ == "__main__":
    main()
