"""The Spark session: our own on a laptop, for many small Delta tables; under spark-submit, in a notebook or on a
platform the existing one, with only indispensable settings (others are in conf/)."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext, accumulators, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from kgroups_spark.errors import KgroupsError, require_pyspark, require_spark
from kgroups_spark.package_data import IMPORTED_FROM, on_disk
from kgroups_spark.sources.files import endpoint_of_environment, memory_of_workers, region_of_environment, use_malloc
from kgroups_spark.spark.interruption import SIGNALS, still_in_force
from kgroups_spark.spark.java import NoJava, require_java
from kgroups_spark.words import printable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

STARTING = "starting Spark ..."
DELTA_JAR = "io.delta:delta-spark_4.2_2.13:4.4.0"

# Hadoop's S3 connector, of the release in Spark, and the parts that it needs of the AWS SDK with which this release was
# built: 35 jars, 13 MB. Hadoop itself depends on the SDK as a whole, which has 600 MB.
S3_JARS = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:s3-transfer-manager:2.35.4",
    "software.amazon.awssdk:sts:2.35.4",
    "software.amazon.awssdk:apache-client:2.35.4",
)
NOT_FOR_S3 = (
    "software.amazon.awssdk:bundle",
    "io.netty:*",
    "org.slf4j:*",
    "commons-logging:commons-logging",
)

NEEDED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

# Settings of a session, not of the JVM: suitable for our small tables on any cluster, and safe to set late.
PER_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Delta's snapshots: our tables have few files. With its default of 50 tasks an overwrite costs 4 times as much.
    "spark.databricks.delta.snapshotPartitions": "1",
    # The form in which pyarrow writes times; Spark's default is the old 96-bit form.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # By default VACUUM lists even a tiny table in 10,000 tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}

ON_ONE_MACHINE = {
    "spark.master": "local[*]",
    "spark.driver.memory": "2g",
    # No connection comes from outside, and a laptop's name may not resolve.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    # Tasks import this package from the driver's folder, whether it is installed or not.
    "spark.executorEnv.PYTHONPATH": str(IMPORTED_FROM),
    "spark.python.daemon.module": "kgroups_spark.cli.worker_daemon",
}

# A night on one machine ends before the JVM's second compiler pays off: without it the JVM takes half the CPU. With
# more than some 7 million rows written by Spark's own writer in one process the second compiler would be faster.
# By default such a JVM reserves 48 MB for compiled code, which an audit by Spark's writer fills, and it prints warnings
# to stdout. Its metaspace starts at 21 MB, and each time it grows all objects are marked.
JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m "
    "-Xlog:disable -Xlog:all=warning:stderr -Xlog:cds=off:stderr -Dlog4j2.configurationFile="
)
# Hardly any row passes through the JVM. With this collector a small night takes a twelfth less CPU than with G1.
COLLECTOR = "-XX:+UseSerialGC"
SMALLEST_ARCHIVE = 100 << 20  # of a session that has run nothing: 145 MB
# Variables from which the JVM takes options, too.
_MORE_OPTIONS = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")


def spark_session(
    app_name: str = "kgroups",
    extra: Mapping[str, str] | None = None,
    *,
    s3: bool = False,
    progress: Callable[[str], object] = lambda text: None,
) -> SparkSession:
    """The session to work in: the active one, spark-submit's, or a new one on this machine, with `extra` settings.

    `s3`: a new one reaches s3a://. `progress` is called before a start. Raises KgroupsError if Spark is of another
    release, there is no Java on which it runs, the jars are not available, Spark does not start, or the session is
    Spark Connect's.
    """
    require_pyspark()
    if is_remote() or "SPARK_REMOTE" in os.environ:
        raise KgroupsError(_CONNECT)
    use_malloc()
    active = SparkSession.getActiveSession()
    if active is not None:
        return _with_session_settings(active, extra or {})
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started this process
        progress(STARTING)
        return _with_session_settings(_started(_builder(app_name, NEEDED)), extra or {})
    return _local_session(app_name, extra or {}, s3, progress)


def require_jvm(spark: SparkSession) -> None:
    """Raises KgroupsError for another release of Spark, and for Spark Connect, whose class only grpc can load."""
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise KgroupsError(_CONNECT)
    require_spark(spark.version)


_CONNECT = (
    "this is a session of Spark Connect, whose JVM cannot be reached, and Delta's log is written there: submit "
    "jobs/nightly_audit.py by spark-submit, or unset SPARK_REMOTE"
)


def _with_session_settings(spark: SparkSession, extra: Mapping[str, str]) -> SparkSession:
    for name, value in {**PER_SESSION, **extra}.items():
        # isModifiable is false for Delta's settings until Delta has used them.
        if spark.conf.isModifiable(name) or name.startswith("spark.databricks.delta."):
            spark.conf.set(name, value)
    return spark


def _local_session(
    app_name: str, extra: Mapping[str, str], s3: bool, progress: Callable[[str], object]
) -> SparkSession:
    try:
        require_java()
    except NoJava as missing:
        raise KgroupsError(str(missing)) from missing
    progress(STARTING)
    # Workers must run this interpreter, or they lack the packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    of_jvm = java_options(extra.get("spark.driver.extraJavaOptions", ""))
    with _one_download_at_a_time(_packages(s3)):
        of_machine = {**ON_ONE_MACHINE, **memory_of_workers(), **_jars(s3), **_s3_of_environment()}
        settings = {**NEEDED, **PER_SESSION, **of_machine, **extra, "spark.driver.extraJavaOptions": of_jvm}
        spark = _started(_builder(app_name, settings))
        _remember_jars(spark)
    return spark


def java_options(given: str) -> str:
    """Our options for the JVM, then the given ones. A JVM does not start with two collectors, so another one counts."""
    own = [JVM_OPTIONS + on_disk("log4j2.xml").as_uri()]
    chosen = " ".join([given, *(os.environ.get(name, "") for name in _MORE_OPTIONS)])
    # A JVM that writes an archive fails if a folder of its class path has files, as Spark's settings in its own folder.
    if not re.search(r"-XX:\w*Archive", chosen) and not {"SPARK_HOME", "SPARK_CONF_DIR"} & os.environ.keys():
        own.append(class_archive())
    if not re.search(r"-XX:\+Use\w+GC\b", chosen):
        own.append(COLLECTOR)
    return " ".join([*own, given]).strip()


def class_archive() -> str:
    """The JVM's option that takes Spark's classes from an archive in our cache (two thirds of the CPU of a start), or
    writes it when the JVM ends, once for each Java and Spark. A JVM ignores an archive of other jars. One that was
    killed left zeros in its first bytes, one in which Spark did not start wrote 30 MB."""
    jars = Path(pyspark.__path__[0]) / "jars"
    installation = f"{os.environ.get('JAVA_HOME') or shutil.which('java')} {jars}"
    archive = ivy_folder().parent / f"spark-classes-{zlib.crc32(installation.encode()):08x}.jsa"
    with suppress(OSError), archive.open("rb") as written:
        about = archive.stat()
        if any(written.read(4)) and about.st_size > SMALLEST_ARCHIVE and about.st_mtime > jars.stat().st_mtime:
            return f"-XX:SharedArchiveFile={archive}"
    return f"-XX:ArchiveClassesAtExit={archive}"


def _s3_of_environment() -> dict[str, str]:
    """The endpoint and region of S3, from the settings of AWS's tools; Spark reads the credentials itself
    (SparkHadoopUtil, 4.2). Other vendors rarely have a host name for each bucket."""
    settings = {}
    endpoint, region = endpoint_of_environment(), region_of_environment()
    if endpoint:
        settings = {"spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.path.style.access": "true"}
    return {**settings, "spark.hadoop.fs.s3a.endpoint.region": region} if region else settings


def _builder(app_name: str, settings: Mapping[str, str]) -> SparkSession.Builder:
    builder: SparkSession.Builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _started(builder: SparkSession.Builder) -> SparkSession:
    # When the JVM is killed, PySpark's thread for accumulators would print a stack trace next to our one line. This is
    # a part of PySpark 4.2 that another one may lack.
    if server := getattr(accumulators, "AccumulatorTCPServer", None):
        server.handle_error = lambda *_: None
    try:
        with still_in_force(), own_jvm(_say):
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise KgroupsError(
            f"Spark did not start ({error.getCondition()}): its messages are above. The first start downloads "
            f"{DELTA_JAR} and what it needs into {ivy_folder()}; later ones need no network"
        ) from error


def _say(line: str) -> None:
    """Prints the line where the JVM would have printed it, even if a notebook or a test has replaced sys.stderr."""
    if sys.__stderr__ is not None:
        sys.__stderr__.write(printable(line) + "\n")
        sys.__stderr__.flush()


def ivy_folder() -> Path:
    """The folder of Delta's jars in the user's cache: our own, so downloads of other programs cannot break it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kgroups-spark", "ivy")


@contextmanager
def _one_download_at_a_time(packages: str) -> Iterator[None]:
    """Locks the folder during the block, unless its jars are complete. Two first starts would break each other's
    downloads, because Ivy does not lock it. Raises KgroupsError if the folder cannot be made."""
    if fcntl is None or _remembered_jars(packages):
        yield
        return
    try:
        ivy_folder().mkdir(parents=True, exist_ok=True)
        lock = open(ivy_folder() / ".lock", "w")  # noqa: SIM115
    except OSError as error:
        raise KgroupsError(
            f"Delta's jars are downloaded into {ivy_folder()}, which cannot be written to ({error.strerror}): set "
            "XDG_CACHE_HOME to a folder that can"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _packages(s3: bool) -> str:
    return ",".join((DELTA_JAR, *S3_JARS) if s3 else (DELTA_JAR,))


def _jars(s3: bool = False) -> dict[str, str]:
    """Settings that put Delta, and S3, on the class path: the jars of an earlier start, or else a download by Ivy."""
    packages = _packages(s3)
    jars = _remembered_jars(packages)
    if jars:
        # Ivy would resolve everything again, at 1 to 3 CPU seconds and a screen of text for each start.
        return {"spark.jars": ",".join(jars)}
    return {
        "spark.jars.packages": packages,
        "spark.jars.ivy": str(ivy_folder()),
        "spark.jars.ivySettings": str(on_disk("ivysettings.xml")),
        # Spark has its own versions of these, which are three quarters of the download.
        "spark.jars.excludes": ",".join((*SHIPPED_WITH_SPARK, *(NOT_FOR_S3 if s3 else ()))),
    }


SHIPPED_WITH_SPARK = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.parquet:parquet-hadoop",
    "com.github.luben:zstd-jni",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "com.fasterxml.jackson.core:jackson-databind",
)


def _jar_list(packages: str) -> Path:
    """The file with the list of jars, named by all packages, so that other versions have another list."""
    return ivy_folder() / f"{DELTA_JAR.replace(':', '_')}-{zlib.crc32(packages.encode()):08x}.jars"


def _remembered_jars(packages: str) -> list[str]:
    try:
        jars = _jar_list(packages).read_text().split()
    except OSError:
        return []
    return jars if all(Path(jar).is_file() for jar in jars) else []


def _remember_jars(spark: SparkSession) -> None:
    packages = str(spark.conf.get("spark.jars.packages", ""))
    if packages.partition(",")[0] != DELTA_JAR or _remembered_jars(packages):
        return
    jars = [jar.removeprefix("file://") for jar in str(spark.conf.get("spark.jars", "")).split(",")]
    _jar_list(packages).write_text("\n".join(jar for jar in jars if jar.startswith(str(ivy_folder()))))


# Spark's JVM, if this process starts it: the output passes through here, and it can be ended. Ivy's and the JVM's
# lines are held back in case the start fails. Lines after an interruption are only about that, and dropped.

MOST_LINES = 2000  # lines held back during a start; the newest count
SECONDS_TO_END = 5.0


class Jvm:
    """The JVM's process, and the thread that reads its output."""

    def __init__(self, command: list[str], say: Callable[[str], object], settings: dict[str, Any]) -> None:
        self.held_back: deque[str] | None = deque(maxlen=MOST_LINES)
        self.is_silent = False
        self._say_line = say
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._say(line.decode("utf-8", errors="replace").rstrip("\r\n"))

    def _say(self, line: str) -> None:
        if self.held_back is not None:
            self.held_back.append(line)
        elif not self.is_silent and SIGNALS.received is None:
            self._say_line(line)

    def started(self) -> None:
        """The start has succeeded: drops the lines held back and prints later ones."""
        self.held_back = None

    def failed(self) -> None:
        """The start has failed: prints the lines held back."""
        self._reader.join(SECONDS_TO_END)
        self._close_stdin()
        said, self.held_back = self.held_back or (), None
        for line in said:
            self._say(line)

    def stop(self) -> None:
        """Ends the JVM with its workers. It removes its temporary files if it ends within SECONDS_TO_END."""
        self.is_silent = True
        self._close_stdin()
        self.process.terminate()
        try:
            self.process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()

    def _close_stdin(self) -> None:
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def kill(self) -> None:
        self.process.kill()


_running: list[Jvm] = []
_is_stopping = threading.Event()


def stop_jvms() -> None:
    """Ends every JVM that this process has started, and silences libraries that would log the broken connections."""
    _is_stopping.set()
    logging.disable(logging.CRITICAL)
    for jvm in _running:
        jvm.stop()


def _kill() -> None:
    for jvm in _running:
        jvm.kill()


SIGNALS.at_end.append(_kill)

SECONDS_BETWEEN_TRIES = 0.5


def _cancel_jobs() -> None:
    """Cancels Spark's jobs until the signal has been answered, because PySpark waits in a `finally` for the end of the
    job whose rows it fetches. It repeats that, because a job may start just when the signal arrives."""
    while True:
        with SIGNALS.lock:
            context = SparkContext._active_spark_context
            if context is None or _is_stopping.is_set() or SIGNALS.received is None:
                return
            with suppress(Exception):
                context.cancelAllJobs()
        time.sleep(SECONDS_BETWEEN_TRIES)


SIGNALS.on_arrival.append(_cancel_jobs)


@contextmanager
def own_jvm(say: Callable[[str], object]) -> Iterator[None]:
    """In the block, a JVM that PySpark starts becomes a Jvm. `say` is called with each of its lines to be printed."""
    before = vars(java_gateway)["Popen"]
    started: list[Jvm] = []

    def start(command: list[str], **settings: Any) -> subprocess.Popen[bytes]:
        jvm = Jvm(command, say, settings)
        started.append(jvm)
        _running.append(jvm)
        return jvm.process

    vars(java_gateway)["Popen"] = start
    try:
        yield
    except Exception:
        for jvm in started:
            jvm.failed()
        raise
    finally:
        vars(java_gateway)["Popen"] = before
    for jvm in started:
        jvm.started()
