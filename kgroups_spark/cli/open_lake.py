"""The lake of a command line, opened by DuckDB or Spark, whose session is started only once there is work for it."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kgroups_spark.cli.form import lake_location
from kgroups_spark.cli.output import say
from kgroups_spark.errors import KgroupsError, UsageError, has_pyspark, may_have_catalog, require_pyspark
from kgroups_spark.sources.files import SCHEMES, require_bucket
from kgroups_spark.spark.java import NoJava
from kgroups_spark.sql.reader import LakeReader
from kgroups_spark.tables.schemas import is_path, require_nothing_else
from kgroups_spark.words import FromAsOf, suggested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kgroups_spark.lake.lake import Engine
    from kgroups_spark.sql.by_spark import SparkReader


def open_lake(arguments: argparse.Namespace) -> LakeReader:
    """The lake of --lake, opened by the engine of --engine; relative times of the options become times. Raises
    UsageError if there is none, before Spark starts."""
    location, engine = existing_lake(arguments), getattr(arguments, "engine", "auto")
    if engine == "duckdb" and not is_path(location):
        raise UsageError(
            f"--engine duckdb reads a lake in a folder, and {location} is a schema of a "
            "catalog, which Spark alone can ask: --engine spark, or leave it out"
        )
    reader: LakeReader | None = None
    if engine != "spark" and is_path(location):
        from kgroups_spark.sql.by_duckdb import duckdb_reader

        reader = duckdb_reader(location, must=engine == "duckdb" or not has_pyspark(), say=say)
    reader = reader or open_by_spark(location, arguments.command)
    for name, value in vars(arguments).items():
        if isinstance(value, FromAsOf):
            setattr(arguments, name, reader.as_of_ms + value)
    return reader


def open_by_spark(location: str, command: str) -> SparkReader:
    """The lake, read by Spark. Raises UsageError if there is none."""
    require_pyspark()
    spark = start_spark(command, location)
    from kgroups_spark.lake.lake import Lake
    from kgroups_spark.sql.by_spark import SparkReader

    return SparkReader(spark, Lake.open(spark, location))


def existing_lake(arguments: argparse.Namespace) -> str:
    """The location of --lake. Raises UsageError if there can be no lake."""
    location = lake_location(arguments)
    require_lake_path(location)
    require_lake(location)
    return location


def require_lake_path(location: str) -> None:
    """Raises UsageError for a file, and for a schema if Spark has no catalog that could have one."""
    require_bucket(location)
    if not is_path(location):
        require_pyspark()
        from kgroups_spark.lake.hadoop import schema_words

        schema_words(location)
        if not may_have_catalog():
            raise UsageError(
                f"there is no folder {location}: for a folder write --lake ./{location}; for a schema of a catalog set "
                "SPARK_CONF_DIR to a Spark configuration with a metastore"
            )
    elif Path(location).is_file():
        raise UsageError(f"--lake {location} is a file; name a folder")


def require_free(location: str) -> None:
    """Raises UsageError for a local folder with other content than a lake, which an audit would refuse, too."""
    folder = Path(location)
    if ":" not in location and folder.is_dir() and not (folder / "audits").is_dir():
        require_nothing_else(location, (each.name for each in folder.iterdir()), "a new folder or an empty one")


def require_lake(location: str) -> None:
    """Raises UsageError if a local path is not a lake. Only Spark can check remote paths and schemas."""
    if is_path(location) and ":" not in location and not (Path(location) / "audits").is_dir():
        found = "the folder has no table audits" if Path(location).is_dir() else "there is no such folder"
        raise UsageError(
            f"no lake at {location}: {found}; to create one: kgroups audit --lake {location} --segments DIR, "
            "to try one: kgroups demo"
        )


# File systems by the scheme of a URI: of Spark 4.2's jars (META-INF/services of hadoop-client-api 3.5.0), and of
# pyarrow.fs.FileSystem.from_uri (23.0), with Hadoop's names for them (sources/files.py).
OF_SPARK = (*SCHEMES, "file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "har", "http", "https", "ftp")
OF_PYARROW = (*SCHEMES, "file", "hdfs", "viewfs", "gs", "gcs", "abfs", "abfss", "mock")


def require_file_system(option: str, locations: Iterable[str], known: Iterable[str], advice: str = "") -> None:
    """Raises UsageError for a URI with another scheme, which would otherwise fail after Spark's slow start."""
    for location in locations:
        scheme, colon, _ = location.partition("://")
        if colon and scheme not in known:
            nearest = suggested(scheme, list(known))
            raise UsageError(f"{option} {location}: no file system is known for {scheme}://{nearest}{advice}")


def start_engine(engine: str, command: str, lake: str) -> Engine:
    """The engine of --engine. Raises UsageError for a lake that `local` cannot write, and under spark-submit."""
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
        advice = " (for others start by spark-submit --packages with the jar of Hadoop's connector)"
        require_file_system("--lake", [lake], OF_SPARK, advice)
        # Spark makes the folder of the catalog's tables, of which there are none, in the current one otherwise.
        settings["spark.sql.warehouse.dir"] = tempfile.gettempdir()
    return spark_session(f"kgroups {command}", settings, s3=is_s3(lake), progress=say)
