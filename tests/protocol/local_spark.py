"""Whole audits in this process: Spark's tasks are called here, and Delta's logs are written here. No JVM.

What an audit by parts asks of Spark is little: to run a function in tasks, and to sort what maintenance brings
together. Everything else is the package's own code. The logs lie on disk as well, as Delta has them, so that any
reader of Delta tables can look at the lake.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyspark.sql import Row

from tests.protocol.fake_delta import FakeKernel, FakeSpark, FakeStore, Version, in_this_process

# Each writes files of its own, which is what most of a small audit costs.
SLOTS = 1
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class LocalSpark(FakeSpark):
    """As a session, as far as audits and maintenance by parts use one."""

    def __init__(self) -> None:
        super().__init__(StoreOnDisk())
        tracker = SimpleNamespace(getActiveStageIds=list)
        self.sparkContext = SimpleNamespace(defaultParallelism=SLOTS, statusTracker=lambda: tracker)
        self.read = SimpleNamespace(schema=lambda _: SimpleNamespace(parquet=_parquet))

    def range(self, start: int, end: int, step: int = 1, numPartitions: int = 1) -> LocalFrame:
        """A number a task."""
        return LocalFrame([pa.table({"id": pa.array([number], pa.int64())}) for number in range(start, end, step)])

    def createDataFrame(self, rows: pa.Table) -> LocalFrame:
        """The rows, in one task."""
        return LocalFrame([rows])


class LocalFrame:
    """Rows by task."""

    def __init__(self, tasks: list[pa.Table]) -> None:
        self.tasks = tasks

    def mapInArrow(self, task: Task, schema: Any) -> LocalFrame:
        made = [list(task(iter(rows.to_batches()))) for rows in self.tasks]
        return LocalFrame([pa.Table.from_batches(batches) for batches in made if batches])

    def select(self, *columns: str) -> LocalFrame:
        return LocalFrame([rows.select(columns) for rows in self.tasks])

    def collect(self) -> list[Row]:
        return [Row(**row) for rows in self.tasks for row in rows.to_pylist()]

    def coalesce(self, tasks: int) -> LocalFrame:
        assert tasks == 1
        return LocalFrame([pa.concat_tables(self.tasks)])

    def repartitionById(self, tasks: int, number: str) -> LocalFrame:
        rows = pa.concat_tables(self.tasks)
        return LocalFrame([rows.filter(pc.equal(rows.column(number), task)) for task in range(tasks)])

    def sortWithinPartitions(self, *columns: str) -> LocalFrame:
        keys = [(column, "ascending") for column in columns]
        return LocalFrame([rows.sort_by(keys) for rows in self.tasks])


def _parquet(*paths: str) -> LocalFrame:
    return LocalFrame([pyarrow.parquet.read_table(path, partitioning=None) for path in paths])


class StoreOnDisk(FakeStore):
    """A store that writes each version down as Delta has it, too."""

    def put(self, path: str, number: int, version: Version) -> bool:
        is_written = super().put(path, number, version)
        if is_written:
            log = Path(path) / "_delta_log"
            log.mkdir(exist_ok=True)
            (log / f"{number:020d}.json").write_text("".join(f"{json.dumps(each)}\n" for each in _actions(version)))
        return is_written


def _actions(version: Version) -> Iterator[dict[str, Any]]:
    if version.schema_json is not None:
        yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        yield {
            "metaData": {
                "id": version.name,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": version.schema_json,
                "partitionColumns": [],
                "configuration": dict(version.properties),
            }
        }
    for app_id, number in version.transactions:
        yield {"txn": {"appId": app_id, "version": number}}
    for path in version.removes:
        yield {"remove": {"path": path, "dataChange": True}}
    for file in version.adds:
        yield {
            "add": {
                "path": file.path,
                "partitionValues": {},
                "size": file.size,
                "modificationTime": int(time.time() * 1000),
                "dataChange": True,
                "stats": json.dumps(file.stats),
            }
        }


class LocalKernel(FakeKernel):
    """As kernel.Kernel, with what maintenance asks of storage."""

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        stats = {path.name: path.stat() for path in Path(folder).iterdir() if path.is_file()}
        return {name: (each.st_size, int(each.st_mtime * 1000)) for name, each in stats.items()}


@contextmanager
def without_a_jvm() -> Iterator[None]:
    """Lets audits and maintenance run on a LocalSpark."""
    with (
        in_this_process(),
        mock.patch("kgroups_spark.tables.lake.Kernel", lambda spark: LocalKernel(spark.store)),
        mock.patch("kgroups_spark.audit.run.use_hadoops_storage", lambda spark: None),
        mock.patch("kgroups_spark.tables.writer_choice.what_hinders_pyarrow", lambda lake: None),
    ):
        yield
