"""Tasks that do not reach the lake's store: Spark and Hadoop carry the files.

The files that a task reads come first in its rows, by Spark's source `binaryFile`, and go into a folder that stands in
for the store. The files that it writes there return with its lines, and the driver puts them into the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from kgroups_spark.lake.store import Store
from kgroups_spark.runner import LINES, Files, Line, SparkRunner, frame_of, lines_in, rows_by_task
from kgroups_spark.storage.carried import StandIn, forget, stand_in_for
from kgroups_spark.storage.s3 import Task, with_storage

# Columns of a task's rows, and of its lines: the URI of a file, and its bytes.
URI, CONTENT = "carried_uri", "carried"
CARRIED = StructType([*LINES.fields]).add(URI, "string").add(CONTENT, BinaryType())


@dataclass(frozen=True)
class CarryingRunner(SparkRunner):
    """Tasks in Spark whose files are carried. `stand_in`: the driver's."""

    stand_in: StandIn
    store: Store

    def map(self, task: Task, given: Sequence[pa.Table], files: Files = ()) -> list[Line]:
        if not given:
            return []
        rows = rows_by_task(self.spark, given).withColumns({URI: F.lit(None), CONTENT: F.lit(None)})
        if carried := self._carried(files):
            rows = rows.unionByName(carried, allowMissingColumns=True)
        return self.lines(rows.repartitionById(len(given), "task").sortWithinPartitions("row"), task)

    def lines(self, rows: DataFrame, task: Task) -> list[Line]:
        lines = list[Line]()
        for kind, payload, uri, content in rows.mapInArrow(
            with_storage(carrying(task, self.stand_in.uri)), CARRIED
        ).collect():
            if uri is None:
                lines += lines_in([(kind, payload)])
            else:
                here = Path(self.stand_in.path(uri))
                here.write_bytes(content)
                self.store.put(str(here), uri)
        return lines

    def _carried(self, files: Files) -> DataFrame | None:
        """The files of each task, before its rows (`row`)."""
        pairs = [(uri.rpartition("/")[2], uri, number) for number, uris in enumerate(files) for uri in uris]
        if not pairs:
            return None
        columns = zip(
            ("file", URI, "task"), zip(*pairs, strict=True), (pa.string(), pa.string(), pa.int32()), strict=True
        )
        tasks = frame_of(self.spark, pa.table({name: pa.array(each, kind) for name, each, kind in columns}))
        paths = sorted({uri for _, uri, _ in pairs})
        read = self.spark.read.format("binaryFile").option("__globPaths__", False).load(paths)
        read = read.select(F.regexp_extract("path", "[^/]*$", 0).alias("file"), F.col("content").alias(CONTENT))
        return read.join(F.broadcast(tasks), "file").drop("file").withColumn("row", F.lit(-1).cast("long"))


def carrying(task: Task, uri: str) -> Task:
    """The task, with its files in a folder of its own."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stand_in, given = stand_in_for(uri), set[str]()
        try:
            for lines in task(_without_files(batches, stand_in, given)):
                nothing = (pa.nulls(len(lines), kind) for kind in (pa.string(), pa.binary()))
                yield _of_carried([*lines.columns, *nothing])
            for each in {*stand_in.uris()} - given:
                content = Path(stand_in.path(each)).read_bytes()
                yield _of_carried([pa.array([value]) for value in ("file", "", each, content)])
        finally:
            forget(stand_in)

    return run


def _of_carried(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=CARRIED.names)


def _without_files(batches: Iterator[pa.RecordBatch], stand_in: StandIn, given: set[str]) -> Iterator[pa.RecordBatch]:
    """The rows; files among them go into the folder."""
    for batch in batches:
        if URI not in batch.schema.names:
            yield batch
            continue
        for uri, content in zip(batch[URI], batch[CONTENT], strict=True):
            if uri.is_valid:
                given.add(uri.as_py())
                Path(stand_in.path(uri.as_py())).write_bytes(content.as_buffer())
        yield batch.filter(batch[URI].is_null()).drop_columns([URI, CONTENT])
