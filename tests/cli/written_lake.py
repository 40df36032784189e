"""Lakes written without Spark: tables of recordings, as Delta tables in a folder."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import TimestampNTZType, TimestampType

from kgroups_spark.cli.output import plain_value
from kgroups_spark.lake.lake import table_properties
from kgroups_spark.lake.last_finished import APP_ID, FINISHED
from kgroups_spark.tables.schemas import LAKE_VERSION, LAKE_VERSION_PROPERTY, TABLES, arrow_schema

AS_OF = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)


def write_lake(path: Path, tables: Mapping[str, pa.Table], *, layout: int = LAKE_VERSION, without: str = "") -> str:
    """Writes every table but `without`, as the last finished audit; those that are not given are empty. Returns the
    lake's location."""
    audits = tables.get("audits", arrow_schema("audits").empty_table())
    audit_id = pc.max(audits.filter(pc.field("status") == FINISHED)["audit_id"]).as_py() or 1
    for name in TABLES:
        if name != without:
            rows = tables.get(name, arrow_schema(name).empty_table())
            create(path, name, rows.schema, table_properties(TABLES[name]) | {LAKE_VERSION_PROPERTY: str(layout)})
            if name in tables:
                add(path, name, rows, audit_id=audit_id)
    return str(path)


def create(path: Path, name: str, schema: pa.Schema, properties: Mapping[str, str]) -> None:
    """The table, empty. By hand: deltalake's own writer refuses our property."""
    (path / name / "_delta_log").mkdir(parents=True)
    commit(path, name, protocol(1), {"metaData": _metadata(schema, properties)})


def add(path: Path, name: str, rows: pa.Table, *, audit_id: int) -> Path:
    """Appends rows as an audit of that number does: the file."""
    file = path / name / f"{uuid.uuid4()}.parquet"
    pq.write_table(rows, file, write_page_checksum=True)
    stands = {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 0}
    stands |= {"dataChange": True, "stats": json.dumps(_statistics(name, rows))}
    commit(path, name, {"txn": {"appId": APP_ID, "version": audit_id}}, {"add": stands})
    return file


def _statistics(name: str, rows: pa.Table) -> dict[str, Any]:
    """The statistics of a file's columns in Delta's log, as an audit writes them."""
    columns = [column for column in TABLES[name].statistics if rows.num_rows and column in rows.column_names]
    bounds = {column: pc.min_max(rows[column]).as_py() for column in columns}
    said = {column: both for column, both in bounds.items() if both["min"] is not None}
    return {
        "numRecords": rows.num_rows,
        "minValues": {column: plain_value(both["min"]) for column, both in said.items()},
        "maxValues": {column: plain_value(both["max"]) for column, both in said.items()},
        "nullCount": {column: rows[column].null_count for column in columns},
    }


def commit(path: Path, name: str, *actions: dict[str, Any]) -> None:
    """The next version of the table's log."""
    log = path / name / "_delta_log"
    (log / f"{len(list(log.iterdir())):020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def protocol(min_reader_version: int, *features: str) -> dict[str, Any]:
    named = {"readerFeatures": list(features), "writerFeatures": list(features)} if features else {}
    return {"protocol": {"minReaderVersion": min_reader_version, "minWriterVersion": 7 if features else 2} | named}


@cache
def _schema_string(schema: pa.Schema) -> str:
    """The schema as Delta's log has it."""
    columns = from_arrow_schema(schema)
    for field in columns:
        if isinstance(field.dataType, TimestampNTZType):
            field.dataType = TimestampType()
    return columns.json()


def _metadata(schema: pa.Schema, properties: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _schema_string(schema),
        "partitionColumns": [],
        "configuration": dict(properties),
        "createdTime": 0,
    }


def waiting(committed_offsets: pa.Table, retention_ms: int = 604_800_000) -> pa.Table:
    """Rows of offset_expiry as if all offsets waited for their time, counted from the commit."""
    rows = []
    for row in committed_offsets.to_pylist():
        moment = row["commit_timestamp"] + timedelta(milliseconds=retention_ms)
        rows.append(
            {name: row.get(name) for name in arrow_schema("offset_expiry").names}
            | {"as_of": AS_OF, "retention_ms": retention_ms, "decision": "keep", "reason": "within_retention"}
            | {"base": "commit_timestamp", "base_timestamp": row["commit_timestamp"]}
            | {"expires_at": moment, "expires_at_if_empty": moment}
        )
    return pa.Table.from_pylist(rows, arrow_schema("offset_expiry"))


def ledger(*rows: dict[str, Any]) -> pa.Table:
    """Rows of the ledger; defaults are those of a finished audit by this version, which trusted every timestamp of
    the recordings."""
    finished = {"audit_id": 1, "status": "finished", "owner": "x", "started_at": AS_OF, "finished_at": AS_OF}
    finished |= {"as_of": AS_OF, "retention_ms": 604_800_000, "release_version": "4.3", "lake_version": LAKE_VERSION}
    finished |= {"newest_log_timestamp": datetime(2026, 12, 1, tzinfo=UTC)}
    return pa.Table.from_pylist([finished | row for row in rows], arrow_schema("audits"))
