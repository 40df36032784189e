"""The rows of `offset_commits` as ready Arrow batches, written by Spark's Delta writer: the least that Spark needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.decode_and_replay import whole_log
from kgroups_spark.coordinator.releases import NEWEST
from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.replay.range_decoder import RangeDecoder
from kgroups_spark.replay.ranges import ReadContext
from kgroups_spark.sources.files import open_file
from kgroups_spark.sources.segments import find_partitions
from kgroups_spark.tables.schemas import TABLES, arrow_schema

NAME = "offset_commits"


def prepare(segments: str, folder: Path) -> list[str]:
    """Decodes the commits of all segments into Arrow files below the folder, one per offsets partition. Returns their
    paths."""
    folder.mkdir(parents=True, exist_ok=True)
    context = ReadContext(1, NEWEST, open_file)
    paths = []
    for copy in find_partitions([segments]):
        path = str(folder / f"{copy.partition}.arrow")
        paths.append(path)
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, arrow_schema(NAME)) as writer:
            for name, rows in RangeDecoder([whole_log(copy)], context, GroupRecordDecoder()).outputs():
                if name == NAME:
                    writer.write_table(rows.unify_dictionaries().cast(arrow_schema(NAME)))
    return paths


def write_by_spark(spark: SparkSession, paths: list[str], table: str) -> None:
    """Writes the ready rows as a new Delta table, with statistics of two columns, as our table has."""

    def ready(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with pa.memory_map(paths[number]) as source, pa.ipc.open_file(source) as reader:
                    for at in range(reader.num_record_batches):
                        yield reader.get_batch(at)

    rows = spark.range(0, len(paths), 1, numPartitions=len(paths)).mapInArrow(ready, TABLES[NAME].schema)
    writer = rows.write.format("delta").option("delta.dataSkippingStatsColumns", "log_offset,commit_timestamp")
    writer.save(table)
