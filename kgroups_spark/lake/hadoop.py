"""A lake's files through Hadoop in the driver's JVM: the logs of its tables, and files that Spark carries; a lake's
tables in a catalog.

Calls go through py4j. A commit is written by the `LogStore` for the store's scheme, which Delta's writers use, too: on
S3 it looks and then writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.local import LocalStore
from kgroups_spark.lake.store import Store, whole_checkpoints
from kgroups_spark.sources import files
from kgroups_spark.sources.files import StandIn, Task, forget, stand_in_for, with_storage
from kgroups_spark.spark.runner import SparkRunner
from kgroups_spark.spark.session import DELTA_JAR, NOT_FOR_S3, S3_JARS, require_jvm
from kgroups_spark.spark.tasks import Files, Line, lines_in
from kgroups_spark.tables.schemas import Table
from kgroups_spark.tables.spark_types import quoted, table_definition, text

MANAGED_BY_CATALOG = {"catalogManaged", "catalogOwned-preview"}
# Features of tables whose logs have the usual form. Spark reads their rows.
FEATURES = {*MANAGED_BY_CATALOG, "columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck"}

# Delta's class that finds the `LogStore` of a scheme.
LOG_STORES = "io.delta.kernel.defaults.internal.logstore.LogStoreProvider"


class LocalBySpark(LocalStore):
    """Folders of the driver's machine: Hadoop's local files would cost ten processes for each commit (chmod)."""

    features = FEATURES


class HadoopStore(Store):
    """Any file system of Hadoop. Raises KgroupsError without Delta's jars, and for a session of Spark Connect."""

    features = FEATURES

    def __init__(self, spark: SparkSession) -> None:
        use_hadoops_storage(spark)
        self.java: JavaClasses = cache(partial(getattr, spark._jvm))
        self.hadoop: Any = spark._jsc.hadoopConfiguration()
        if isinstance(self.java(LOG_STORES), JavaPackage):
            raise KgroupsError(f"Delta is not on Spark's class path: spark-submit --packages {DELTA_JAR} puts it there")
        # By the last listings of logs: the version of the newest checkpoint, and size and time of each file.
        self._checkpoints: dict[str, int] = {}
        self._identities: dict[str, tuple[int, ...]] = {}

    def at(self, uri: str) -> Store:
        return LocalBySpark() if uri.startswith("file:") else self

    def qualified(self, location: str) -> str:
        on_this_machine = "://" not in location and self.hadoop.get("fs.defaultFS", "file:///").startswith("file:")
        if on_this_machine:
            return f"file:{Path(location.removeprefix('file:')).resolve()}"
        path, file_system = self._place(name_for_hadoop(location, self.java, self.hadoop))
        return str(file_system.makeQualified(path).toString()).rstrip("/")

    def _place(self, uri: str) -> tuple[Any, Any]:
        path = self.java("org.apache.hadoop.fs.Path")(uri)
        return path, path.getFileSystem(self.hadoop)

    def delete(self, file_or_folder: str) -> None:
        path, file_system = self._place(file_or_folder)
        file_system.delete(path, True)

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        path, file_system = self._place(folder)
        found = file_system.listStatus(path)
        return {
            each.getPath().getName(): (each.getLen(), each.getModificationTime()) for each in found if each.isFile()
        }

    def names_in(self, folder: str) -> list[str]:
        path, file_system = self._place(folder)
        if not file_system.exists(path):
            return []
        return [status.getPath().getName() for status in file_system.listStatus(path)]

    def fetch(self, uri: str, path: str) -> None:
        source, file_system = self._place(uri)
        file_system.copyToLocalFile(False, source, self._place(f"file://{path}")[0], True)

    def put(self, path: str, uri: str) -> None:
        target, file_system = self._place(uri)
        file_system.copyFromLocalFile(False, True, self._place(f"file://{path}")[0], target)

    def size_of(self, uri: str) -> int:
        path, file_system = self._place(uri)
        with _missing_files(uri):
            return int(file_system.getFileStatus(path).getLen())

    def read_text(self, uri: str) -> str:
        path, file_system = self._place(uri)
        with _missing_files(uri):
            stream = file_system.open(path)
        try:
            return str(self.java("org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, uri: str, text: str, *, overwrite: bool) -> bool:
        path, file_system = self._place(uri)
        file_system.mkdirs(path.getParent())
        lines = self.java("java.util.ArrayList")(text.splitlines())
        try:
            self._log_store(file_system).write(path, lines.iterator(), overwrite, self.hadoop)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in _java_class(error):
                raise
            return False
        return True

    def log_names(self, log: str, version: int | None) -> list[str]:
        """As Store.log_names, from the last known checkpoint on: each file costs some calls of the JVM."""
        since = self._checkpoints.get(log, 0)
        since = since if version is None or since <= version else 0
        found = self._listed(log, since)
        checkpoints = whole_checkpoints(found)
        if since and not checkpoints:  # the table is another one
            found = self._listed(log, 0)
        self._checkpoints[log] = max(checkpoints, default=0)
        self._identities |= {f"{log}/{name}": identity for name, identity in found.items()}
        return [*found]

    def identity(self, uri: str) -> tuple[int, ...]:
        if uri not in self._identities:
            raise FileNotFoundError(uri)
        return self._identities[uri]

    def _listed(self, log: str, since: int) -> dict[str, tuple[int, ...]]:
        path, file_system = self._place(f"{log}/{since:020d}.")
        try:
            found = self._log_store(file_system).listFrom(path, self.hadoop)
        except Py4JJavaError as error:
            if "FileNotFoundException" not in _java_class(error):
                raise
            return {}
        listed = dict[str, tuple[int, ...]]()
        while found.hasNext():
            each = found.next()
            listed[each.getPath().getName()] = each.getLen(), each.getModificationTime()
        return listed

    def _log_store(self, file_system: Any) -> Any:
        return self.java(LOG_STORES).getLogStore(self.hadoop, file_system.getScheme())


@contextmanager
def _missing_files(uri: str) -> Iterator[None]:
    """Within the block, turns Java's error for a missing file into Python's."""
    try:
        yield
    except Py4JJavaError as error:
        if "FileNotFoundException" not in _java_class(error):
            raise
        raise FileNotFoundError(uri) from error


def _java_class(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


# Finds classes of the driver's JVM by their full names, each once; py4j's package of that name if there is none.
#
# For every step of a dotted name py4j asks the JVM whether it is a class, and the JVM looks for each name that is none
# in all of Spark's some three hundred jars. An iteration over a Java collection ends with a Java exception, which
# PySpark translates with thirty such names. Together that was nearly half of a small night.
JavaClasses = Callable[[str], Any]


def use_hadoops_storage(spark: SparkSession) -> None:
    """Lets pyarrow reach S3 as this session's Hadoop does, in this process and in tasks that get the settings. Access
    keys may be in Hadoop's own files (a credential provider). Raises KgroupsError for Spark Connect."""
    require_jvm(spark)
    hadoop: Any = spark._jsc.hadoopConfiguration()
    given = hadoop.getPropsWithPrefix("fs.s3a.")
    settings = {key: given[key] for key in given.keySet().toArray()}
    for name in files.SECRETS:
        secret = hadoop.getPassword(f"fs.s3a.{name}")
        if secret is not None:
            settings[name] = "".join(secret)
    files.use(files.S3Settings(settings))


def name_for_hadoop(location: str, java: JavaClasses, hadoop: Any) -> str:
    """The location with a scheme that Hadoop knows: s3a:// for S3, unless a platform has its own s3:// (EMR). Raises
    UsageError for credentials in it, KgroupsError if Hadoop's S3 classes are missing."""
    files.require_no_credentials(location)
    scheme, separator, rest = location.partition("://")
    if not files.is_s3(location) or (scheme != "s3a" and hadoop.get(f"fs.{scheme}.impl") is not None):
        return location
    if isinstance(java("org.apache.hadoop.fs.s3a.S3AFileSystem"), JavaPackage):
        raise KgroupsError(
            "Hadoop's S3 is not on Spark's class path; conf/s3.conf puts it there, or spark-submit "
            f"--packages {','.join((DELTA_JAR, *S3_JARS))} --exclude-packages {','.join(NOT_FOR_S3)}"
        )
    return f"s3a{separator}{rest}"


# Tasks that do not reach the lake's store: Spark's source `binaryFile` reads the files for them, which go into a
# stand-in folder; those that they write return with their lines. A file is its URI and its bytes.


@dataclass(frozen=True)
class CarryingRunner(SparkRunner):
    """Tasks in Spark whose files are carried. `stand_in`: the driver's."""

    stand_in: StandIn
    store: Store

    def rows(self, given: Sequence[pa.Table], files: Files = ()) -> RDD[Any]:
        tasks = self.spark.sparkContext.parallelize([*enumerate(given)], len(given)).flatMapValues(pa.Table.to_batches)
        return tasks.union(self._carried(files)).partitionBy(len(given), int).values() if any(files) else tasks.values()

    def function(self, task: Task) -> Any:
        return with_storage(carrying(task, self.stand_in.uri), in_worker=True)

    def collected(self, reports: RDD[Any]) -> list[Line]:
        lines = list[pa.RecordBatch]()
        for each in reports.collect():
            if isinstance(each, pa.RecordBatch):
                lines.append(each)
            else:
                uri, content = each
                here = Path(self.stand_in.path(uri))
                here.write_bytes(content)
                self.store.put(str(here), uri)
        return lines_in(lines)

    def _carried(self, files: Files) -> RDD[Any]:
        """The files, each with the numbers of its tasks."""
        tasks = defaultdict[str, list[tuple[int, str]]](list)
        for number, uris in enumerate(files):
            for uri in uris:
                tasks[uri.rpartition("/")[2]].append((number, uri))
        paths = sorted({uri for uris in files for uri in uris})
        read = self.spark.read.format("binaryFile").option("__globPaths__", False).load(paths)
        return read.rdd.flatMap(
            lambda file: [(task, (uri, bytes(file.content))) for task, uri in tasks[file.path.rpartition("/")[2]]]
        )


def carrying(task: Task, uri: str) -> Task:
    """The task, with its files in a folder of its own."""

    def run(given: Iterator[Any]) -> Iterator[Any]:
        stand_in, rows, carried = stand_in_for(uri), list[pa.RecordBatch](), set[str]()
        try:
            for each in given:
                if isinstance(each, pa.RecordBatch):
                    rows.append(each)
                else:
                    carried.add(each[0])
                    Path(stand_in.path(each[0])).write_bytes(each[1])
            yield from task(iter(rows))
            for made in {*stand_in.uris()} - carried:
                yield made, Path(stand_in.path(made)).read_bytes()
        finally:
            forget(stand_in)

    return run


# A lake's tables by Spark: in a schema of a catalog (`schema`, or `catalog.schema`), and frames with rows of files.
#
# Rows are read and written by the tables' names. We read their logs at the tables' locations in the catalog,
# as for a path lake: the last transaction, the files, the newest claim. A Hive metastore, Glue, and Unity Catalog's
# external tables allow that. The log in storage of a table with the feature `catalogManaged` is incomplete: such tables
# are refused.
#
# The schema must exist, because the catalog's administrators decide about its users and its location.


class CatalogSchema:
    """The location of a catalog lake; `uri`: the folder of the schema's tables. Raises UsageError if there is no such
    schema, KgroupsError if the catalog does not have its location."""

    def __init__(self, spark: SparkSession, store: Store, location: str) -> None:
        self.spark = spark
        self.location = location
        self.name = ".".join(quoted(word) for word in schema_words(location))
        self.uri = self._schemas_folder()
        self.store = store.at(self.uri)
        self._paths: dict[str, str] = {}

    def path(self, name: str) -> str:
        """The table's location in the catalog. Raises AnalysisException if there is no such table."""
        if name not in self._paths:
            described = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.identifier(name)}")
            # Column names are in lower case, so `Location` is not one.
            self._paths[name] = described.where("col_name = 'Location'").select("data_type").collect()[0][0]
        return self._paths[name]

    def identifier(self, name: str) -> str:
        return f"{self.name}.{quoted(name)}"

    def names(self) -> list[str]:
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
        if MANAGED_BY_CATALOG.intersection(self.store.table(self.path(name)).snapshot().features):
            raise KgroupsError(
                f"table {name} of schema {self.location} is managed by its catalog (feature catalogManaged), which "
                "keeps part of its log to itself: use a schema whose tables are not, or a folder"
            )


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
    """The rows of these files, as the schema has them. Spark takes paths such as `{a}` for globs by default."""
    if not paths:
        return spark.createDataFrame([], schema)
    rows = spark.read.schema(schema).option("__globPaths__", False).parquet(*paths)
    return rows.select(*(never_null(field) if not field.nullable else F.col(field.name) for field in schema))
