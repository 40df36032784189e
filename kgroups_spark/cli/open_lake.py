"""Opening the lake of a command line, the first step of all commands that print rows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kgroups_spark.cli.options import lake_location
from kgroups_spark.cli.output import say
from kgroups_spark.cli.session import start_spark
from kgroups_spark.errors import UsageError, has_pyspark, may_have_catalog, require_pyspark
from kgroups_spark.sources.files import require_bucket
from kgroups_spark.sql.reader import LakeReader
from kgroups_spark.tables.schemas import is_path, require_nothing_else
from kgroups_spark.words import FromAsOf

if TYPE_CHECKING:
    from kgroups_spark.sql.by_spark import SparkReader


def open_lake(arguments: argparse.Namespace) -> LakeReader:
    """The lake of --lake, opened by the engine of --engine; relative times of the options become times. Raises
    UsageError if there is none, before Spark starts."""
    reader = _opened(arguments)
    for name, value in vars(arguments).items():
        if isinstance(value, FromAsOf):
            setattr(arguments, name, reader.as_of_ms + value)
    return reader


def _opened(arguments: argparse.Namespace) -> LakeReader:
    location, engine = existing_lake(arguments), getattr(arguments, "engine", "auto")
    if engine == "duckdb" and not is_path(location):
        raise UsageError(
            f"--engine duckdb reads a lake in a folder, and {location} is a schema of a "
            "catalog, which Spark alone can ask: --engine spark, or leave it out"
        )
    if engine != "spark" and is_path(location):
        from kgroups_spark.sql.by_duckdb import duckdb_reader

        reader = duckdb_reader(location, must=engine == "duckdb" or not has_pyspark(), say=say)
        if reader is not None:
            return reader
    return open_by_spark(location, arguments.command)


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
        from kgroups_spark.lake.kernel import schema_words

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
