"""Hadoop's settings of S3 for pyarrow, and the spelling of an S3 location that Hadoop understands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.store import Store
from kgroups_spark.sources import files as s3
from kgroups_spark.sources.files import StandIn, Task, forget, stand_in_for, with_storage
from kgroups_spark.spark.runner import LINES, Files, Line, SparkRunner, frame_of, lines_in, rows_by_task
from kgroups_spark.spark.session import DELTA_JAR, NOT_FOR_S3, S3_JARS, require_jvm

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
    for name in s3.SECRETS:
        secret = hadoop.getPassword(f"fs.s3a.{name}")
        if secret is not None:
            settings[name] = "".join(secret)
    s3.use(s3.S3Settings(settings))


def name_for_hadoop(location: str, java: JavaClasses, hadoop: Any) -> str:
    """The location with a scheme that Hadoop knows: s3a:// for S3, unless a platform has its own s3:// (EMR).

    Raises UsageError for credentials in the location, KgroupsError if Hadoop's S3 classes are missing.
    """
    s3.require_no_credentials(location)
    scheme, separator, rest = location.partition("://")
    if not s3.is_s3(location) or (scheme != "s3a" and hadoop.get(f"fs.{scheme}.impl") is not None):
        return location
    if not java.has("org.apache.hadoop.fs.s3a.S3AFileSystem"):
        raise KgroupsError(
            "Hadoop's S3 is not on Spark's class path; conf/s3.conf puts it there, or spark-submit "
            f"--packages {','.join((DELTA_JAR, *S3_JARS))} --exclude-packages {','.join(NOT_FOR_S3)}"
        )
    return f"s3a{separator}{rest}"


# A failure of storage, Delta or a task as one line for people, without the stacks of three languages.


@contextmanager
def reported_in_one_line(what_failed: str) -> Iterator[None]:
    """Within the block, turns such a failure into a KgroupsError with `what_failed` and the innermost reason."""
    try:
        yield
    except (Py4JJavaError, PySparkException, OSError) as error:
        raise KgroupsError(f"{what_failed}: {reason_of(error)}") from error


@contextmanager
def machine_failures_reported(what_failed: str) -> Iterator[None]:
    """The same for a whole command and failures of its machine or cluster: a killed JVM or worker, a full disk.

    The message of a KgroupsError in a task is shown unchanged. A bug of ours in a task's Python keeps its stack.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        reason = reason_of(error)
        if isinstance(error, PythonException) and not (_reported_by_task(str(error)) or MACHINES_FAULTS.search(reason)):
            raise
        raise KgroupsError(f"{what_failed}: {reason}") from error
    except (Py4JError, ConnectionError) as error:
        if type(error) is Py4JError and NO_ANSWER.fullmatch(str(error)) is None:
            raise
        raise KgroupsError(f"{what_failed}: Spark's JVM has ended ({reason_of(error)})") from error


# py4j's error if the connection broke while it waited for an answer; else it raises Py4JNetworkError. If Java answers
# that it has no such class or method, the error has other words, or a trace.
NO_ANSWER = re.compile(r"An error occurred while calling \S+")
# Java's messages for a socket or a process with a vanished other side, such as a killed worker.
BROKEN_CONNECTIONS = ("Broken pipe", "Connection reset", "Connection reset by peer", "Stream closed")
# Python's and Arrow's errors that a disk, a network or a lack of memory causes.
MACHINES_FAULTS = re.compile(
    r"^(OSError|PermissionError|FileNotFoundError|Connection\w*|TimeoutError|MemoryError|Arrow\w+)"
)


def reason_of(error: BaseException) -> str:
    """The innermost reason: a Java root cause, or the last error that a task's Python raised."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        message, kind = str(cause.getMessage() or ""), cause.getClass().getSimpleName()
        if kind == "TableNotFoundException":  # the folder is there, the log is not
            return (
                f"{message.rstrip('.')}: restore its _delta_log; or remove the folder, and kgroups audit makes the "
                "table again if the other tables have its rows"
            )
        if message in BROKEN_CONNECTIONS:
            return f"the connection to a Python worker or to storage broke ({message}, {kind})"
        return _reported_by_task(message) or " ".join(f"{message} ({kind})".split())
    text = str(error).strip()
    if reported := _reported_by_task(text):
        return reported
    raised = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception|Invalid): .+)$", text, re.MULTILINE)
    return str(raised[-1]) if raised else text.split("\n", 1)[0]


def _reported_by_task(text: str) -> str | None:
    """The message of a KgroupsError that ended a task; None: another error. `text`: Spark's error with Python's
    stack."""
    raised = re.findall(r"^(kgroups_spark(?:\.\w+)*)\.(\w+): (.+)$", text, re.MULTILINE)
    if not raised:
        return None
    module, name, message = raised[-1]
    kind = getattr(import_module(module), name, None)
    return str(message) if isinstance(kind, type) and issubclass(kind, KgroupsError) else None


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
