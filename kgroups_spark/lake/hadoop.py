"""A lake's files through Hadoop, whose file systems and settings the driver's JVM has: for stores that are no folder of
this machine. Calls go through py4j."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.store import Store
from kgroups_spark.sources import files
from kgroups_spark.sources.files import StandIn, Task, forget, stand_in_for, with_storage
from kgroups_spark.spark.runner import LINES, SparkRunner, frame_of, rows_by_task
from kgroups_spark.spark.session import DELTA_JAR, NOT_FOR_S3, S3_JARS, require_jvm
from kgroups_spark.spark.tasks import Files, Line, lines_in

# It creates a file only if there is none, by the rules of each store (spark.hadoop.io.delta.kernel.logStore...).
LOG_STORES = "io.delta.kernel.defaults.internal.logstore.LogStoreProvider"


class Hadoop(Store):
    """Hadoop's file systems. Raises KgroupsError without Delta's jars, and for a session of Spark Connect."""

    def __init__(self, spark: SparkSession) -> None:
        use_hadoops_storage(spark)
        jvm: Any = spark._jvm
        self.java = JavaClasses(jvm)
        self.hadoop: Any = spark._jsc.hadoopConfiguration()
        if not self.java.has(LOG_STORES):
            raise KgroupsError(f"Delta is not on Spark's class path: spark-submit --packages {DELTA_JAR} puts it there")

    def qualified(self, location: str) -> str:
        on_this_machine = "://" not in location and self.hadoop.get("fs.defaultFS", "file:///").startswith("file:")
        if on_this_machine:
            return f"file:{Path(location.removeprefix('file:')).resolve()}"
        path = self.java_path(name_for_hadoop(location, self.java, self.hadoop))
        return str(path.getFileSystem(self.hadoop).makeQualified(path).toString()).rstrip("/")

    def java_path(self, *parts: str) -> Any:
        return self.java("org.apache.hadoop.fs.Path")(*parts)

    def _file_system(self, path: Any) -> Any:
        return path.getFileSystem(self.hadoop)

    def delete(self, file_or_folder: str) -> None:
        path = self.java_path(file_or_folder)
        self._file_system(path).delete(path, True)

    def names_in(self, folder: str) -> list[str]:
        return [status.getPath().getName() for status in self._statuses(folder)]

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        files = (status for status in self._statuses(folder) if status.isFile())
        return {each.getPath().getName(): (each.getLen(), each.getModificationTime()) for each in files}

    def _statuses(self, folder: str) -> Iterable[Any]:
        path = self.java_path(folder)
        with suppress(FileNotFoundError), _missing_files():
            found: Iterable[Any] = self._file_system(path).listStatus(path)
            return found
        return ()

    def size_of(self, file: str) -> int | None:
        path = self.java_path(file)
        with suppress(FileNotFoundError), _missing_files():
            return int(self._file_system(path).getFileStatus(path).getLen())
        return None

    def fetch(self, uri: str, path: str) -> None:
        source = self.java_path(uri)
        self._file_system(source).copyToLocalFile(False, source, self.java_path(f"file://{path}"), True)

    def put(self, path: str, uri: str) -> None:
        target = self.java_path(uri)
        self._file_system(target).copyFromLocalFile(False, True, self.java_path(f"file://{path}"), target)

    def listed(self, log: str) -> dict[str, Any]:
        return self.files_in(log)

    def identity(self, file: str, listed: Mapping[str, Any]) -> Any:
        name = file.rpartition("/")[2]
        if name not in listed:
            raise FileNotFoundError(file)
        return listed[name]

    def read(self, file: str) -> bytes:
        path = self.java_path(file)
        with _missing_files():
            stream = self._file_system(path).open(path)
        try:
            return bytes(self.java("org.apache.commons.io.IOUtils").toByteArray(stream))
        finally:
            stream.close()

    def create(self, file: str, text: str) -> bool:
        path = self.java_path(file)
        file_system = self._file_system(path)
        file_system.mkdirs(path.getParent())
        lines = self.java("java.util.ArrayList")(text.splitlines())
        store = self.java(LOG_STORES).getLogStore(self.hadoop, file_system.getScheme())
        try:
            store.write(path, lines.iterator(), False, self.hadoop)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in _java_class(error):
                raise
            return False
        return True

    def replace(self, file: str, content: bytes) -> None:
        folder, target = file.rpartition("/")[0], self.java_path(file)
        new = f"{folder}/.{uuid.uuid4()}.tmp"
        with NamedTemporaryFile() as here:
            here.write(content)
            here.flush()
            self.put(here.name, new)
        self.delete(file)
        self._file_system(target).rename(self.java_path(new), target)


@contextmanager
def _missing_files() -> Iterator[None]:
    """Java's error for a file that does not exist as Python's."""
    try:
        yield
    except Py4JJavaError as error:
        if "FileNotFoundException" not in _java_class(error):
            raise
        raise FileNotFoundError(str(error.java_exception.getMessage())) from error


def _java_class(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


# Hadoop's settings of S3 for pyarrow, and the spelling of an S3 location that Hadoop understands.

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
