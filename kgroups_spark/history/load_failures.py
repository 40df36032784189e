"""Quarantine by the rules of a release, for history that was read under another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.decoding.record_rows import misread_detail
from kgroups_spark.messages.group_records import EARLY_ACCESS, layout_from_json
from kgroups_spark.replay.failure_rows import LOAD_WOULD_FAIL, MISREAD_COLUMNS
from kgroups_spark.replay.read_by import ReadBy
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.tables.schemas import TABLES

_ASKED = ("offsets_partition", *(name for name in MISREAD_COLUMNS if name != "detail"), "value")


def coordinator_fails(release: Release) -> Column:
    """Whether the release would refuse to load where an undecodable record stands (decoding/record_rows.py)."""
    knows = F.col("record_type").isin(sorted(release.record_types | release.unreplayable_types))
    return F.coalesce(knows, F.lit(True)) | F.lit(not release.skips_unknown_types)


def misread(group_records: DataFrame, release: Release, read_by: ReadBy) -> DataFrame:
    """Rows of quarantine that name values in early-access layouts which the release does not read (T58)."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _misread_rows(batch.to_pylist(), release, read_by)

    early = [number for number in EARLY_ACCESS if number in release.record_types]
    values = group_records.where(F.col("record_type").isin(early) & F.col("value").isNotNull())
    columns = [F.unix_millis(name).alias(name) if name == "log_timestamp" else F.col(name) for name in _ASKED]
    return values.select(*columns).mapInArrow(task, TABLES["quarantine"].schema)


def _misread_rows(rows: list[dict[str, Any]], release: Release, read_by: ReadBy) -> Iterator[pa.RecordBatch]:
    by_partition: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        layout = layout_from_json(row["record_type"], row["value"])
        if not release.reads_layout(layout):
            row["detail"] = misread_detail(row["record_name"], layout, release)
            by_partition.setdefault(row["offsets_partition"], []).append(tuple(row[name] for name in MISREAD_COLUMNS))
    for number, found in by_partition.items():
        constants = {"audit_id": 0, "offsets_partition": number, **LOAD_WOULD_FAIL}
        yield read_by.with_audit_ids(table_batch("quarantine", MISREAD_COLUMNS, found, **constants))
