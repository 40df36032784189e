"""Whole audits in this process: a loop runs the tasks, and Delta's logs are written here. No JVM.

An audit needs little of Spark: the Runner of its tasks is a loop here, and from a session it
only needs to sort the rows of files that maintenance compacts. Everything else is the package's own code. The logs are
also on disk, in Delta's form, so that any reader of Delta tables can read the lake.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kgroups_spark.audit import keep
from kgroups_spark.lake.kernel import Kernel, use_hadoops_storage
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.store import Store, TableFile
from kgroups_spark.spark.runner import LINES, Line, Runner, SparkRunner, lines_in, lines_of
from tests.protocol.fake_delta import (
    FakeKernel,
    FakeSpark,
    FakeStore,
    FakeTable,
    Version,
    folder_of,
    opened_once,
    remembered,
)

# Each task writes its own files, which is most of the cost of a small audit.
SLOTS = 1
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class LocalSpark(FakeSpark):
    """The part of a session that audits and maintenance use: sorting and clearing up files. `slots`: of the loop that
    runs their tasks."""

    def __init__(self, store: FakeStore | None = None) -> None:
        super().__init__(store or StoreOnDisk())
        self.slots = SLOTS
        self.read = Reader(self.store)

    def createDataFrame(self, rows: Any, schema: StructType) -> LocalFrame:
        assert not rows
        return LocalFrame([_arrow_schema(schema).empty_table()])

    def sql(self, statement: str) -> Any:
        found = re.fullmatch(r"VACUUM delta\.`(.*)` RETAIN (\d+) HOURS( DRY RUN)?", statement)
        if found is None:
            return super().sql(statement)
        return LocalFrame([_vacuumed(self.store, found[1], int(found[2]), dry=found[3] is not None)])


def _vacuumed(store: FakeStore, path: str, hours: int, *, dry: bool) -> pa.Table:
    """Deletes old files that no version has (all versions here are within VACUUM's retention); returns their paths."""
    known = {unquote(file.path) for version in store.log(path) for file in version.adds}
    old = time.time() - hours * 3600
    files = [
        file for file in folder_of(path).glob("*.parquet") if file.name not in known and file.stat().st_mtime < old
    ]
    for file in () if dry else files:
        file.unlink()
    return pa.table({"path": [str(file) for file in files]})


def answer(query: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The answer to a query of DuckDB over these tables."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(query).to_arrow_table()


def _arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone="UTC")


@dataclass(frozen=True)
class Loop:
    """A Runner: one task after the other, in this process."""

    slots: int = SLOTS
    is_here: bool = True

    def map(self, task: Task, given: Sequence[pa.Table], files: Any = ()) -> list[Line]:
        with mock.patch("kgroups_spark.lake.parts.COMPRESSION", "none"):
            made = [batch for rows in given for batch in task(iter(rows.to_batches()))]
        return [line for batch in made for line in lines_in(_pairs(batch))]

    def lines(self, rows: Any, task: Task) -> list[Line]:
        return lines_of(rows, task)

    @contextmanager
    def watched(self, say: Callable[[str], None], what: str) -> Iterator[None]:
        say(what)
        yield


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[str, str]]:
    return zip(*(batch.column(name).to_pylist() for name in LINES.names), strict=True)


class LocalFrame:
    """Rows by task."""

    def __init__(self, tasks: list[pa.Table]) -> None:
        self.tasks = tasks

    def mapInArrow(self, task: Task, schema: Any) -> LocalFrame:
        made = [list(task(iter(rows.to_batches()))) for rows in self.tasks]
        tables = [pa.Table.from_batches(batches) for batches in made if batches]
        return LocalFrame(tables or [_arrow_schema(schema).empty_table()])

    def select(self, *columns: str) -> LocalFrame:
        return LocalFrame([rows.select(columns) for rows in self.tasks])

    def collect(self) -> list[Row]:
        return [Row(**row) for rows in self.tasks for row in rows.to_pylist()]

    def toArrow(self) -> pa.Table:
        return pa.concat_tables(self.tasks)

    def coalesce(self, tasks: int) -> LocalFrame:
        assert tasks == 1
        return LocalFrame([pa.concat_tables(self.tasks)])

    def unionByName(self, other: LocalFrame) -> LocalFrame:
        names = [rows.column_names for rows in (*self.tasks, *other.tasks)]
        return LocalFrame([rows.select(names[0]) for rows in (*self.tasks, *other.tasks)])

    def repartition(self, tasks: int, *columns: str) -> LocalFrame:
        rows = pa.concat_tables(self.tasks)
        keys = zip(*(rows.column(column).to_pylist() for column in columns), strict=True)
        task = pa.array([zlib.crc32(repr(key).encode()) % tasks for key in keys])
        return LocalFrame([rows.filter(pc.equal(task, number)) for number in range(tasks)])

    def sortWithinPartitions(self, *columns: str) -> LocalFrame:
        keys = [(column, "ascending") for column in columns]
        return LocalFrame([rows.sort_by(keys) for rows in self.tasks])


class Reader:
    """As session.read."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self._version: int | None = None

    def schema(self, schema: StructType) -> Reader:
        return self

    def format(self, name: str) -> Reader:
        assert name == "delta"
        return Reader(self._store)

    def option(self, name: str, value: int) -> Reader:
        assert name in ("versionAsOf", "__globPaths__")
        if name == "versionAsOf":
            self._version = value
        return self

    def load(self, path: str) -> LocalFrame:
        table = FakeTable(self._store, path)
        found = _parquet(*(f"{path}/{file.path}" for file in table.files(self._version)))
        schema = _arrow_schema(StructType.fromJson(json.loads(table.schema_json())))
        return LocalFrame([rows.cast(schema) for rows in found.tasks] or [schema.empty_table()])

    def parquet(self, *paths: str) -> LocalFrame:
        return _parquet(*paths)


def _parquet(*paths: str) -> LocalFrame:
    return LocalFrame([pyarrow.parquet.read_table(folder_of(path), partitioning=None) for path in paths])


class StoreOnDisk(FakeStore):
    """A store with Delta's own log files, listed again each time: lakes may be copied, changed and deleted meanwhile.
    It supports the commits of this process and of Spark in a test's lakes, without checkpoints."""

    def log(self, path: str) -> list[Version]:
        try:
            entries = [entry for entry in os.scandir(folder_of(path) / "_delta_log") if entry.name.endswith(".json")]
        except FileNotFoundError:
            return []
        found = ((entry.path, entry.stat()) for entry in sorted(entries, key=lambda entry: entry.name))
        return [_entry(path, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for path, at in found]

    def tables_in(self, folder: str) -> set[str]:
        return set()

    def put(self, path: str, number: int, version: Version) -> bool:
        self.step()
        log = folder_of(path) / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        # Atomic: the whole file or none, and only one of two processes writes a version.
        whole = log / f".{uuid.uuid4()}"
        whole.write_text("".join(f"{json.dumps(each)}\n" for each in _actions(version)))
        try:
            os.link(whole, log / f"{number:020d}.json")
        except FileExistsError:
            return False
        finally:
            whole.unlink()
        return True


@lru_cache(maxsize=16384)
def _entry(path: str, *file: int) -> Version:
    """The version in that file, of these numbers: another file of that path has others."""
    return _version(Path(path).read_text())


@lru_cache(maxsize=4096)
def _version(text: str) -> Version:
    """The version that an entry of Delta's log describes; its text is its name."""
    adds, removes, transactions, properties = [], set(), [], {}
    schema_json = None
    for action in map(json.loads, text.splitlines()):
        if "add" in action:
            adds.append(_file_of(action["add"]))
        elif "remove" in action:
            removes.add(action["remove"]["path"])
        elif "txn" in action:
            transactions.append((action["txn"]["appId"], action["txn"]["version"]))
        elif "metaData" in action:
            properties, schema_json = action["metaData"]["configuration"], action["metaData"]["schemaString"]
    return Version(
        tuple(adds), frozenset(removes), tuple(transactions), tuple(properties.items()), schema_json, name=text
    )


def _file_of(add: dict[str, Any]) -> TableFile:
    return TableFile(add["path"], json.loads(add.get("stats") or "{}"), add["size"])


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
        yield {"remove": {"path": path, "dataChange": version.changes_rows}}
    for file in version.adds:
        yield {
            "add": {
                "path": file.path,
                "partitionValues": {},
                "size": file.size,
                "modificationTime": int(time.time() * 1000),
                "dataChange": version.changes_rows,
                "stats": json.dumps(file.stats),
            }
        }


class LocalKernel(FakeKernel):
    """As kernel.Kernel, for folders with a scheme."""

    def qualified(self, location: str) -> str:
        return f"file:{folder_of(location).resolve()}"


@contextmanager
def in_memory() -> Iterator[None]:
    """The same for lakes with logs in memory; each file is opened once, because files never change."""
    with without_a_jvm(), opened_once(), mock.patch.object(Lake, "stand_in", None):
        yield


@contextmanager
def without_a_jvm() -> Iterator[None]:
    """Lets audits and maintenance run on a LocalSpark; those on other sessions work as usual."""

    def store_of(spark: Any) -> Store:
        return LocalKernel(spark.store) if isinstance(spark, LocalSpark) else Kernel(spark)

    def storage_of(spark: Any) -> None:
        if not isinstance(spark, LocalSpark):
            use_hadoops_storage(spark)

    def runner_of(spark: Any) -> Runner:
        return Loop(spark.slots) if isinstance(spark, LocalSpark) else SparkRunner(spark)

    def answer_of(spark: Any, query: str, frames: Mapping[str, Any]) -> Any:
        if not isinstance(spark, LocalSpark):
            return by_spark(spark, query, frames)
        return LocalFrame([answer(query, {name: rows.toArrow() for name, rows in frames.items()})])

    def dataset_of(lake: Any, name: str, paths: Sequence[str]) -> Any:
        return (remembered if isinstance(lake.spark, LocalSpark) else dataset)(lake, name, paths)

    dataset, by_spark = Lake.dataset, keep.by_spark
    with (
        mock.patch("kgroups_spark.lake.lake.Kernel", store_of),
        mock.patch.object(Lake, "dataset", dataset_of),
        mock.patch("kgroups_spark.lake.lake.SparkRunner", runner_of),
        mock.patch.object(keep, "by_spark", answer_of),
        mock.patch("kgroups_spark.audit.run.use_hadoops_storage", storage_of),
    ):
        yield
