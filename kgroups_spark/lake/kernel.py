"""A Delta table at a path through Delta Kernel, a part of Delta's jars: reading its log, and committing to it.

Kernel reads and writes a table's log without Spark jobs. A commit takes 0.06 CPU seconds; Spark's writer takes 0.5
(append) or 1.5 (overwrite). Calls go through py4j into the driver's JVM.

The files added here are plain Parquet. `refusal` names properties of a table that forbid that: with column mapping, for
example, such a commit succeeds, and reads fail afterwards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.last_finished import version_gone
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.store import (
    PROTOCOL,
    AlreadyWritten,
    ChangedMeanwhile,
    Removal,
    Store,
    TableFile,
    TableLog,
    metadata,
    refusal,
)
from kgroups_spark.sources import files
from kgroups_spark.sources.files import StandIn, Task, create_local, forget, stand_in_for, with_storage
from kgroups_spark.spark.runner import LINES, SparkRunner, frame_of, rows_by_task
from kgroups_spark.spark.session import DELTA_JAR, NOT_FOR_S3, S3_JARS, require_jvm
from kgroups_spark.spark.tasks import Files, Line, lines_in
from kgroups_spark.tables.schemas import Table
from kgroups_spark.tables.spark_types import quoted, table_definition, text

# Kernel throws these if another commit took the version: without retries, or on a conflict that no retry solves.
LOST_THE_RACE = ("MaxCommitRetryLimitReachedException", "ConcurrentWriteException")


DEFAULT_ENGINE = "io.delta.kernel.defaults.engine.DefaultEngine"


class Kernel(Store):
    """Delta Kernel in the driver's JVM, for all tables of a lake. Raises KgroupsError without Delta's jars, and for a
    session of Spark Connect."""

    def __init__(self, spark: SparkSession) -> None:
        use_hadoops_storage(spark)
        jvm: Any = spark._jvm
        self.java = JavaClasses(jvm)
        self.hadoop: Any = spark._jsc.hadoopConfiguration()
        if not self.java.has(DEFAULT_ENGINE):
            raise KgroupsError(f"Delta is not on Spark's class path: spark-submit --packages {DELTA_JAR} puts it there")
        self.engine: Any = self.java(DEFAULT_ENGINE).create(self.hadoop)
        # With spark-submit's default logging, Kernel would log a warning at each read of a log without a checkpoint.
        level = self.java("org.apache.logging.log4j.Level").ERROR
        self.java("org.apache.logging.log4j.core.config.Configurator").setLevel("io.delta.kernel", level)

    def table(self, path: str) -> KernelTable:
        return KernelTable(self, path)

    def qualified(self, location: str) -> str:
        on_this_machine = "://" not in location and self.hadoop.get("fs.defaultFS", "file:///").startswith("file:")
        if on_this_machine:
            return f"file:{Path(location.removeprefix('file:')).resolve()}"
        path = self.java_path(name_for_hadoop(location, self.java, self.hadoop))
        return str(path.getFileSystem(self.hadoop).makeQualified(path).toString()).rstrip("/")

    def java_path(self, *parts: str) -> Any:
        return self.java("org.apache.hadoop.fs.Path")(*parts)

    def delete(self, file_or_folder: str) -> None:
        path = self.java_path(file_or_folder)
        path.getFileSystem(self.hadoop).delete(path, True)

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        path = self.java_path(folder)
        found = path.getFileSystem(self.hadoop).listStatus(path)
        return {
            each.getPath().getName(): (each.getLen(), each.getModificationTime()) for each in found if each.isFile()
        }

    def names_in(self, folder: str) -> list[str]:
        path = self.java_path(folder)
        file_system = path.getFileSystem(self.hadoop)
        if not file_system.exists(path):
            return []
        return [status.getPath().getName() for status in file_system.listStatus(path)]

    def fetch(self, uri: str, path: str) -> None:
        source = self.java_path(uri)
        source.getFileSystem(self.hadoop).copyToLocalFile(False, source, self.java_path(f"file://{path}"), True)

    def put(self, path: str, uri: str) -> None:
        target = self.java_path(uri)
        target.getFileSystem(self.hadoop).copyFromLocalFile(False, True, self.java_path(f"file://{path}"), target)


class KernelTable(TableLog):
    """One table's log through Kernel."""

    def __init__(self, kernel: Kernel, path: str) -> None:
        self._kernel = kernel
        self._engine = kernel.engine
        self._java = kernel.java
        self.path = path

    def _api(self, name: str) -> Any:
        return self._java(f"io.delta.kernel.{name}")

    def create(self, schema_json: str, comment: str, properties: dict[str, str]) -> None:
        # Kernel's own builder keeps no table comment. Spark's SQL costs 0.15 CPU seconds a table (7 in a cold session).
        self._write_version(0, [PROTOCOL, metadata(schema_json, comment, properties)], "CREATE TABLE")

    def _write_version(self, version: int, actions: list[dict[str, Any]], operation: str) -> bool:
        """Writes this version of the log; False: another commit already has that version."""
        now_ms = int(time.time() * 1000)
        commit_info = {"timestamp": now_ms, "operation": operation, "operationParameters": {}}
        lines = [json.dumps(action) for action in ({"commitInfo": commit_info}, *actions)]
        if self.path.startswith("file:"):
            # Without its native library, Hadoop's LogStore starts ten processes (chmod, readlink) to write a local
            # file.
            with suppress(OSError):
                return create_local(self._entry_name(version), "".join(f"{line}\n" for line in lines))
        return self._write_by_log_store(version, lines)

    def _write_by_log_store(self, version: int, lines: list[str]) -> bool:
        path, hadoop = self._entry_path(version), self._kernel.hadoop
        file_system = path.getFileSystem(hadoop)
        file_system.mkdirs(path.getParent())
        java_lines = self._java("java.util.ArrayList")(lines)
        provider = self._api("defaults.internal.logstore.LogStoreProvider")
        try:
            provider.getLogStore(hadoop, file_system.getScheme()).write(path, java_lines.iterator(), False, hadoop)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in _java_class(error):
                raise
            return False
        return True

    def exists(self) -> bool:
        try:
            self._snapshot()
        except Py4JJavaError as error:
            if "TableNotFoundException" in _java_class(error):
                return False
            raise
        return True

    def version(self) -> int:
        return int(self._snapshot().getVersion())

    def entry(self, version: int) -> str | None:
        path = self._entry_path(version)
        try:
            stream = path.getFileSystem(self._kernel.hadoop).open(path)
        except Py4JJavaError as error:
            if "FileNotFoundException" in _java_class(error):
                return None
            raise
        try:
            return str(self._java("org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _entry_path(self, version: int) -> Any:
        return self._kernel.java_path(self._entry_name(version))

    def _entry_name(self, version: int) -> str:
        return f"{self.path}/_delta_log/{version:020d}.json"

    def properties(self) -> dict[str, str]:
        return dict_of(self._snapshot().getMetadata().getConfiguration())

    def schema_json(self) -> str:
        return str(self._snapshot().getMetadata().getSchemaString())

    def features(self) -> set[str]:
        return set(items_of(self._snapshot().getProtocol().getReaderFeatures()))

    def shut_out(self, transactions: dict[str, int], *, by: str) -> None:
        snapshot = self._snapshot()
        older = {app: to for app, to in transactions.items() if (self._last_transaction(snapshot, app) or 0) < to}
        if not older:
            return
        actions, none = list[Any](), self._java("java.util.Optional").empty()
        for app_id, version in older.items():
            row = self._api("internal.actions.SetTransaction")(app_id, version, none).toRow()
            actions.append(self._api("internal.actions.SingleAction").createTxnSingleAction(row))
        # Kernel resolves conflicts only by the transaction identifier. The snapshot must still be the newest: no
        # retries.
        builder = self._table().createTransactionBuilder(self._engine, by, self._api("Operation").valueOf("WRITE"))
        delta_transaction = builder.withMaxRetries(0).build(self._engine)
        if int(delta_transaction.getReadTableVersion()) != int(snapshot.getVersion()):
            raise ChangedMeanwhile(f"{self.path} has a version after {snapshot.getVersion()}")
        with self._refusals("", loses_races=True):
            delta_transaction.commit(self._engine, self._iterable(actions))

    @contextmanager
    def _refusals(self, app_id: str, *, loses_races: bool = False) -> Iterator[None]:
        """Within the block, turns Kernel's refusals of a commit into AlreadyWritten and ChangedMeanwhile."""
        try:
            yield
        except Py4JJavaError as error:
            if "ConcurrentTransactionException" in _java_class(error):
                raise AlreadyWritten(f"its newest is {self.last_transaction(app_id)}") from error
            if loses_races and _java_class(error).endswith(LOST_THE_RACE):
                raise ChangedMeanwhile(str(error.java_exception.getMessage())) from error
            raise

    def last_transaction(self, app_id: str) -> int | None:
        return self._last_transaction(self._snapshot(), app_id)

    def version_as_of(self, app_id: str, transaction: int) -> int:
        snapshot = self._snapshot()
        while (self._last_transaction(snapshot, app_id) or 0) > transaction:
            try:
                snapshot = self._snapshot(snapshot.getVersion() - 1)
            except Py4JJavaError as error:
                raise version_gone(self.path, transaction) from error
        return int(snapshot.getVersion())

    def _last_transaction(self, snapshot: Any, app_id: str) -> int | None:
        found = snapshot.getLatestTransactionVersion(self._engine, app_id)
        return int(found.get()) if found.isPresent() else None

    def refusal(self) -> str | None:
        metadata = self._snapshot().getMetadata()
        return refusal(dict_of(metadata.getConfiguration()), metadata.getSchemaString())

    def files(self, version: int | None = None) -> list[TableFile]:
        return list(self._files(self._snapshot(version)))

    def missing(self, parts: Sequence[Part]) -> list[str]:
        missing = []
        for part in parts:
            path = self._kernel.java_path(self.path, part.path)
            try:
                size = path.getFileSystem(self._kernel.hadoop).getFileStatus(path).getLen()
                if size != part.size:
                    missing.append(f"{path.toString()}: {size} bytes, not {part.size}")
            except Py4JJavaError as error:
                missing.append(f"{path.toString()}: {_java_class(error)}")
        return missing

    def commit(
        self,
        parts: Sequence[Part],
        *,
        by: str,
        transaction: tuple[str, int] | None,
        remove: Removal | None = None,
        removes: int | None = None,
        changes_rows: bool = True,
    ) -> int:
        engine = self._engine
        with self._refusals(transaction[0] if transaction else "", loses_races=remove is not None):
            builder = self._table().createTransactionBuilder(engine, by, self._api("Operation").valueOf("WRITE"))
            if transaction is not None:
                builder = builder.withTransactionId(engine, *transaction)
            if remove is not None:
                # The files to remove were chosen at the version read, so any commit in between must make this one fail.
                builder = builder.withMaxRetries(0)
            delta_transaction = builder.build(engine)
            actions = self._append_actions(delta_transaction, parts, changes_rows)
            if remove is not None:
                read = self._snapshot(delta_transaction.getReadTableVersion())
                removals = self._removals(read, remove, changes_rows)
                if removes is not None and len(removals) != removes:
                    raise ChangedMeanwhile(f"{len(removals)} of {removes} files to be replaced still exist")
                actions += removals
            result = delta_transaction.commit(engine, self._iterable(actions))
            for hook in items_of(result.getPostCommitHooks()):
                # Kernel leaves the checkpoints of delta.checkpointInterval to its caller.
                if hook.getType().name() == "CHECKPOINT":
                    # A checkpoint only saves time: without it the commit still counts, as in Spark's own writer.
                    with suppress(Py4JJavaError, PySparkException):
                        self._snapshot().writeCheckpoint(engine)
            return int(result.getVersion())

    def _append_actions(self, delta_transaction: Any, parts: Sequence[Part], changes_rows: bool) -> list[Any]:
        # As Transaction.generateAppendActions, which always sets dataChange to true.
        schema = delta_transaction.getSchema(self._engine)
        folder = self._api("internal.fs.Path")(self.path).toUri()
        nothing, none = self._java("java.util.HashMap")(), self._java("java.util.Optional").empty()
        now_ms, actions = int(time.time() * 1000), list[Any]()
        single_action = self._api("internal.actions.SingleAction")
        for part in parts:
            stats = self._api("statistics.DataFileStatistics").deserializeFromJson(part.stats_json, schema)
            status = self._api("utils.DataFileStatus")(f"{self.path}/{part.path}", part.size, now_ms, stats)
            add = self._api("internal.actions.AddFile").convertDataFileStatus(
                schema, folder, status, nothing, changes_rows, nothing, none, none, none
            )
            actions.append(single_action.createAddFileSingleAction(add.toRow()))
        return actions

    def _removals(self, snapshot: Any, remove: Removal, changes_rows: bool) -> list[Any]:
        now = self._java("java.util.Optional").empty()
        rows = [file.add_action.toRemoveFileRow(changes_rows, now) for file in self._files(snapshot) if remove(file)]
        return [self._api("internal.actions.SingleAction").createRemoveFileSingleAction(row) for row in rows]

    def _files(self, snapshot: Any) -> Iterator[TableFile]:
        batches = snapshot.getScanBuilder().build().getScanFiles(self._engine, True)
        rows = self._api("internal.util.Utils").intoRows(batches)
        try:
            while rows.hasNext():
                add = self._api("internal.actions.AddFile")(rows.next().getStruct(0))
                stats = add.getStatsJson()
                stats = json.loads(stats.get()) if stats.isPresent() else {}
                yield TableFile(add.getPath(), stats, int(add.getSize()), add)
        finally:
            rows.close()

    def _iterable(self, actions: list[Any]) -> Any:
        java_list = self._java("java.util.ArrayList")(actions)
        rows = self._api("internal.util.Utils").toCloseableIterator(java_list.iterator())
        return self._api("utils.CloseableIterable").inMemoryIterable(rows)

    def _table(self) -> Any:
        return self._api("Table").forPath(self._engine, self.path)

    def _snapshot(self, version: int | None = None) -> Any:
        if version is None:
            return self._table().getLatestSnapshot(self._engine)
        return self._table().getSnapshotAsOfVersion(self._engine, version)


def _java_class(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


# Java classes and collections through py4j, without py4j's usual cost.
#
# For every step of a dotted name py4j asks the JVM whether it is a class, and the JVM looks for each name that is none
# in all of Spark's some three hundred jars. An iteration over a Java collection ends with a Java exception, which
# PySpark translates with thirty such names. Together that was nearly half of a small night.


class JavaClasses:
    """Classes of the driver's JVM by their full names, each looked up once."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._found: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        """The class; py4j's package of that name if there is no such class."""
        if name not in self._found:
            self._found[name] = getattr(self._jvm, name)
        return self._found[name]

    def has(self, name: str) -> bool:
        return not isinstance(self(name), JavaPackage)


def items_of(collection: Any) -> Iterator[Any]:
    """The elements of a java.util.Collection."""
    yield from collection.toArray()


def dict_of(java_map: Any) -> dict[str, Any]:
    """A java.util.Map of strings."""
    return {key: java_map[key] for key in items_of(java_map.keySet())}


def use_hadoops_storage(spark: SparkSession) -> None:
    """Lets pyarrow reach S3 as this session's Hadoop does, in this process and in tasks that get the settings.

    Access keys are read as Hadoop reads them, because it may keep them in its own files (a credential provider).
    Raises KgroupsError for a session of Spark Connect.
    """
    require_jvm(spark)
    hadoop: Any = spark._jsc.hadoopConfiguration()
    settings = dict_of(hadoop.getPropsWithPrefix("fs.s3a."))
    for name in files.SECRETS:
        secret = hadoop.getPassword(f"fs.s3a.{name}")
        if secret is not None:
            settings[name] = "".join(secret)
    files.use(files.S3Settings(settings))


def name_for_hadoop(location: str, java: JavaClasses, hadoop: Any) -> str:
    """The location with a scheme that Hadoop knows: s3a:// for S3, unless a platform has its own s3:// (EMR).

    Raises UsageError for credentials in the location, KgroupsError if Hadoop's S3 classes are missing.
    """
    files.require_no_credentials(location)
    scheme, separator, rest = location.partition("://")
    if not files.is_s3(location) or (scheme != "s3a" and hadoop.get(f"fs.{scheme}.impl") is not None):
        return location
    if not java.has("org.apache.hadoop.fs.s3a.S3AFileSystem"):
        raise KgroupsError(
            "Hadoop's S3 is not on Spark's class path; conf/s3.conf puts it there, or spark-submit "
            f"--packages {','.join((DELTA_JAR, *S3_JARS))} --exclude-packages {','.join(NOT_FOR_S3)}"
        )
    return f"s3a{separator}{rest}"


# Tasks that do not reach the lake's store: Spark and Hadoop carry the files.
#
# The files that a task reads come first in its rows, by Spark's source `binaryFile`, and go into a folder that stands
# in for the store. The files that it writes there return with its lines, and the driver puts them into the store.


# Columns of a task's rows, and of its lines: the URI of a file, and its bytes.
URI, CONTENT = "carried_uri", "carried"
CARRIED = StructType([*LINES.fields]).add(URI, "string").add(CONTENT, BinaryType())


@dataclass(frozen=True)
class CarryingRunner(SparkRunner):
    """Tasks in Spark whose files are carried. `stand_in`: the driver's."""

    stand_in: StandIn
    store: Store
    reports = CARRIED

    def frame(self, given: Sequence[pa.Table], files: Files = ()) -> DataFrame:
        rows = rows_by_task(self.spark, given).withColumns({URI: F.lit(None), CONTENT: F.lit(None)})
        if carried := self._carried(files):
            rows = rows.unionByName(carried, allowMissingColumns=True)
        return rows.repartitionById(len(given), "task").sortWithinPartitions("row")

    def function(self, task: Task) -> Task:
        return with_storage(carrying(task, self.stand_in.uri))

    def collected(self, reports: DataFrame) -> list[Line]:
        lines = list[Line]()
        for kind, payload, uri, content in reports.collect():
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


# A lake's tables by Spark: in a schema of a catalog (`schema`, or `catalog.schema`), and frames with rows of files.
#
# Rows are read and written by the tables' names. Delta Kernel reads their logs at the tables' locations in the catalog,
# as for a path lake: the last transaction, the files, the newest claim. A Hive metastore, Glue, and Unity Catalog's
# external tables allow that. The log in storage of a table with the feature `catalogManaged` is incomplete: such tables
# are refused.
#
# The schema must exist, because the catalog's administrators decide about its users and its location.


class CatalogSchema:
    """The location of a catalog lake; `uri` is the folder of the schema's tables.

    Raises UsageError if there is no such schema, KgroupsError if the catalog does not have its location.
    """

    def __init__(self, spark: SparkSession, store: Store, location: str) -> None:
        self.spark = spark
        self.store = store
        self.location = location
        self.name = ".".join(quoted(word) for word in schema_words(location))
        self.uri = self._schemas_folder()
        self._paths: dict[str, str] = {}

    def path(self, name: str) -> str:
        """The table's location in the catalog. Raises AnalysisException if there is no such table."""
        if name not in self._paths:
            described = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.identifier(name)}")
            # Column names are in lower case, so `Location` is not one.
            self._paths[name] = described.where("col_name = 'Location'").select("data_type").collect()[0][0]
        return self._paths[name]

    def identifier(self, name: str) -> str:
        """The table's name in SQL."""
        return f"{self.name}.{quoted(name)}"

    def names(self) -> list[str]:
        """The schema's tables and views."""
        shown = self.spark.sql(f"SHOW TABLES IN {self.name}").where("NOT isTemporary").select("tableName").collect()
        return [row.tableName for row in shown]

    def has(self, name: str) -> bool:
        """Whether the table exists. Raises KgroupsError for a table that is managed by its catalog."""
        if name not in self.names():
            return False
        self._require_plain(name)
        return True

    def create(self, table: Table, properties: dict[str, str]) -> None:
        """Creates the table, empty; does nothing if another process has just created it."""
        definition = table_definition(table.schema, table.comment, properties)
        create = f"CREATE TABLE IF NOT EXISTS {self.identifier(table.name)} {definition}"
        folder = f"{self.uri}/{table.name}"
        if self.store.table(folder).exists() and table.name not in self.names():
            # Delta writes the log before the catalog's entry: a process killed in between leaves a table without one.
            create += f" LOCATION {text(folder)}"
        try:
            self.spark.sql(create)
        except PySparkException:
            if table.name not in self.names():
                raise
        self._require_plain(table.name)

    def read(self, name: str, version: int | None = None) -> DataFrame:
        """A version of the table (default: the newest)."""
        reader = self.spark.read if version is None else self.spark.read.option("versionAsOf", version)
        return reader.table(self.identifier(name))

    def _schemas_folder(self) -> str:
        try:
            described = self.spark.sql(f"DESCRIBE SCHEMA {self.name}").collect()
        except PySparkException as error:
            if error.getCondition() not in NO_SUCH_SCHEMA:
                raise
            raise UsageError(
                f"--lake {self.location}: the catalog has no schema of that name; CREATE SCHEMA {self.location} makes "
                f"one, and for a folder of that name write ./{self.location}"
            ) from error
        folder = {row[0]: row[1] for row in described}.get("Location")
        if not folder:
            raise KgroupsError(f"--lake {self.location}: the catalog has no location for that schema; use a folder")
        # DESCRIBE SCHEMA returns a URI, unlike the locations of tables.
        return unquote(str(folder)).rstrip("/")

    def _require_plain(self, name: str) -> None:
        if MANAGED_BY_CATALOG.intersection(self.store.table(self.path(name)).features()):
            raise KgroupsError(
                f"table {name} of schema {self.location} is managed by its catalog (feature catalogManaged), which "
                "keeps part of its log to itself: use a schema whose tables are not, or a folder"
            )


MANAGED_BY_CATALOG = {"catalogManaged", "catalogOwned-preview"}

# Spark's error classes for a missing `schema`, or a missing catalog in `catalog.schema`.
NO_SUCH_SCHEMA = {"SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND"}


def schema_words(location: str) -> list[str]:
    """The one or two words of `catalog.schema`. Raises UsageError for any other number, or an empty word."""
    words = location.split(".")
    if len(words) > 2 or not all(words):
        raise UsageError(
            f"--lake {location} is neither schema nor catalog.schema; for a folder of that name write ./{location}"
        )
    return words


def never_null(field: StructField) -> Column:
    """The column as not nullable: Delta ensures that it has no null, but Spark's Parquet reader drops that fact."""
    if isinstance(field.dataType, StringType):
        zero = F.lit("")
    elif isinstance(field.dataType, ArrayType):
        zero = F.array()
    else:
        zero = F.lit(0)
    return F.coalesce(field.name, zero.cast(field.dataType)).alias(field.name, metadata=field.metadata)


def rows_of_files(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    """The rows of these files, with the nullability of the schema. Spark takes paths for globs by default, and a lake's
    folder may be named `{a}`."""
    if not paths:
        return spark.createDataFrame([], schema)
    rows = spark.read.schema(schema).option("__globPaths__", False).parquet(*paths)
    return rows.select(*(never_null(field) if not field.nullable else F.col(field.name) for field in schema))
