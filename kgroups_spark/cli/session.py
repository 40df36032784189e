"""The Spark session of a command, started only once there is work for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kgroups_spark.cli.output import say
from kgroups_spark.errors import KgroupsError, UsageError, may_have_catalog, require_pyspark
from kgroups_spark.sources.files import SCHEMES as S3
from kgroups_spark.spark.java import NoJava
from kgroups_spark.tables.schemas import is_path
from kgroups_spark.words import suggested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kgroups_spark.lake.lake import Engine


# File systems that Spark's Hadoop knows by the scheme of a URI, and those for which it lacks a jar.
#
# Without a user's Spark configuration there are no others: an impossible location is refused before Spark's slow start.


# In the jars of Spark 4.2 (META-INF/services of hadoop-client-api 3.5.0).
OF_SPARK = ("file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "har", "http", "https", "ftp")
# Named in core-default.xml of Hadoop 3.5.0, or by their makers; the jars are not Spark's.
JARS = {
    "gs": "org.apache.hadoop:hadoop-gcp:3.5.0",
    "abfs": "org.apache.hadoop:hadoop-azure:3.5.0",
    "abfss": "org.apache.hadoop:hadoop-azure:3.5.0",
    "wasb": "org.apache.hadoop:hadoop-azure:3.5.0",
    "wasbs": "org.apache.hadoop:hadoop-azure:3.5.0",
    "oss": "org.apache.hadoop:hadoop-aliyun:3.5.0",
    "cosn": "org.apache.hadoop:hadoop-cos:3.5.0",
    "obs": "org.apache.hadoop:hadoop-huaweicloud:3.5.0",
    "adl": "org.apache.hadoop:hadoop-azure-datalake:3.5.0",
}


def require_file_system(location: str) -> None:
    """Raises UsageError for a lake's URI that Spark cannot open without a configuration."""
    scheme, colon, _ = location.partition("://")
    if not colon or scheme in OF_SPARK or scheme in S3:
        return
    if scheme in JARS:
        raise UsageError(
            f"--lake {location}: Spark brings no file system for {scheme}://; {JARS[scheme]} has one: start by "
            f"spark-submit --packages {JARS[scheme]}, or name it as spark.jars.packages in $SPARK_CONF_DIR"
        )
    known = (*S3, *OF_SPARK, *JARS)
    raise UsageError(f"--lake {location}: no file system is known for {scheme}://{suggested(scheme, known)}")


# pyarrow.fs.FileSystem.from_uri (23.0), and Hadoop's names that sources/files.py turns into those.
OF_PYARROW = ("file", "hdfs", "viewfs", "gs", "gcs", "abfs", "abfss", "wasbs", "mock")


def require_readable(folders: Iterable[str]) -> None:
    """Raises UsageError for a folder of segments with a scheme that pyarrow does not know."""
    for folder in folders:
        scheme, colon, _ = folder.partition("://")
        known = (*S3, *OF_PYARROW)
        if colon and scheme not in known:
            raise UsageError(f"--segments {folder}: no file system is known for {scheme}://{suggested(scheme, known)}")


def start_engine(engine: str, command: str, lake: str) -> Engine:
    """The engine of --engine for a lake. Raises UsageError for a lake that `local` cannot write, and under
    spark-submit."""
    if engine == "local":
        from kgroups_spark.lake.local import Local, require_local

        if "PYSPARK_GATEWAY_PORT" in os.environ:
            raise UsageError("--engine local is for kgroups itself: spark-submit has started Spark already")
        require_local(lake)
        return Local()
    try:
        return start_spark(command, lake)
    except KgroupsError as error:
        if not isinstance(error.__cause__, NoJava | ImportError) or not is_path(lake) or "://" in lake:
            raise
        raise KgroupsError(f"{error}. Or add --engine local, which needs no Java and no Spark") from error


def start_spark(command: str, lake: str = "") -> SparkSession:
    """The running session (spark-submit, a notebook), or else a local one that reaches the lake. Raises KgroupsError if
    Java or PySpark is missing, or Spark does not start."""
    require_pyspark()
    from pyspark.sql import SparkSession

    from kgroups_spark.sources.files import is_s3
    from kgroups_spark.spark.session import spark_session

    settings = {}
    if SparkSession.getActiveSession() is None and not may_have_catalog():  # nor file systems of its own
        require_file_system(lake)
        # Spark makes the folder of the catalog's tables, of which there are none, in the current one otherwise.
        settings["spark.sql.warehouse.dir"] = tempfile.gettempdir()
    return spark_session(f"kgroups {command}", settings, s3=is_s3(lake), progress=say)
