"""Decisions over DataFrames, for Spark's own writer: tasks get the rows of whole coordinator shards and decide those.

Rows travel packed (packed_rows.py). The same rules as Spark SQL took seconds of planning and generated code before the
first row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.audit.decide_by_parts import SMALLEST_HAND_ROWS, rows_in
from kgroups_spark.audit.judging import DECIDED_BY, HELD_GROUPS, Judging, columns_needed
from kgroups_spark.audit.packed_rows import PACKED, packed_by_shard, packed_outputs, unpacked
from kgroups_spark.audit.saved_state import state_files
from kgroups_spark.tables.as_of_audit import LakeAsOfAudit
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.tables.writer import LakeWriter


def decide_by_spark(lake: Lake, writer: LakeWriter, judging: Judging) -> None:
    """Commits previous_offset_expiry, offset_expiry and group_expiry."""
    _keep_previous(lake, writer)
    tables = {name: lake.read_files(name) for name in DECIDED_BY if name != HELD_GROUPS}
    if judging.looks_at_held_groups:
        tables[HELD_GROUPS] = _held_groups(lake)
    if rows_in(lake.table("committed_offsets").files()) < SMALLEST_HAND_ROWS:
        for name, rows in judging.decided(_on_driver(tables)):
            writer.replace(name, lake.spark.createDataFrame(rows, TABLES[name].schema))
        return
    decided = decided_frame(tables, judging).persist()
    try:
        for name in ("offset_expiry", "group_expiry"):
            writer.replace(name, unpacked(decided, name))
    finally:
        decided.unpersist()


def _on_driver(tables: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """The rows of small tables: to deal them to tasks costs more than all that there is to decide."""
    found = {name: columns_needed(name).empty_table() for name in DECIDED_BY}
    for name, frame in tables.items():
        schema = columns_needed(name)
        found[name] = frame.select(*schema.names).toArrow().cast(schema)
    return found


def decided_frame(tables: Mapping[str, DataFrame], judging: Judging) -> DataFrame:
    """offset_expiry and group_expiry of whatever shards the tables (DECIDED_BY; held_groups may be missing) hold, as
    PACKED: `unpacked` tells them apart."""
    by_shard = [packed_by_shard(frame, name, columns_needed(name)) for name, frame in tables.items()]
    placed = reduce(DataFrame.unionAll, by_shard).repartition("offsets_partition")

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for shard in _shards(batches):
            yield from packed_outputs(judging.decided(shard))

    return placed.sortWithinPartitions("offsets_partition").mapInArrow(task, PACKED)


def _shards(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, pa.Table]]:
    """The tables of each offsets partition, of rows that come sorted by it."""
    names = ["offsets_partition", "packed_table", "packed_rows"]
    rows = (row for batch in batches for row in zip(*(batch.column(name) for name in names), strict=True))
    for _, of_one in itertools.groupby(rows, key=itemgetter(0)):
        found: dict[str, list[pa.RecordBatch]] = {name: [] for name in DECIDED_BY}
        for _, name, some in of_one:
            found[name.as_py()].extend(pa.ipc.open_stream(some.as_buffer()))
        yield {name: pa.Table.from_batches(some, columns_needed(name)) for name, some in found.items()}


def _held_groups(lake: Lake) -> DataFrame:
    """Groups for which producers are noted; the state of the audit before lies beside this one's."""
    noted = (F.col("entry_type") == "noted") & (F.col("audit_id") == max(state_files(lake), default=0))
    return lake.read_files("coordinator_state").where(noted)


def _keep_previous(lake: Lake, writer: LakeWriter) -> None:
    before = LakeAsOfAudit.last_finished(lake)
    if before.audit_id == 0:
        return
    decided = before.read("offset_expiry").withColumn("decided_by", F.col("audit_id"))
    kept = decided.withColumn("audit_id", F.lit(writer.audit_id).cast("bigint"))
    writer.replace("previous_offset_expiry", kept.select(*TABLES["previous_offset_expiry"].schema.names))
