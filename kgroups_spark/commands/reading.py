"""A lake that is there, opened for reading: what all commands that print rows begin with."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgroups_spark.commands.options import lake_location
from kgroups_spark.commands.spark import may_have_catalog, require_pyspark, start_spark
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.times import format_time_for_people, to_epoch_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kgroups_spark.tables.as_of_audit import LakeAsOfAudit
    from kgroups_spark.tables.lake import Lake


@dataclass(frozen=True)
class LakeReader:
    """The tables as of the last finished audit, and that audit's row of the ledger."""

    spark: SparkSession
    lake: Lake

    def table(self, name: str) -> DataFrame:
        """A table as the last finished audit left it, or the ledger."""
        return self._tables.read(name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a small one."""
        # Without a Spark job where pyarrow reaches the lake: they take a second each, however small the table.
        rows: list[dict[str, Any]] = self._tables.rows(name).to_pylist(maps_as_pydicts="strict")
        return rows

    @cached_property
    def _tables(self) -> LakeAsOfAudit:
        from kgroups_spark.tables.as_of_audit import LakeAsOfAudit

        return LakeAsOfAudit.last_finished(self.lake)

    @cached_property
    def last_audit(self) -> dict[str, Any]:
        """The ledger's row of the last finished audit. Raises KgroupsError if there is none."""
        its = (self._tables.audit_id, "finished")
        for row in self.rows("audits"):
            if (row["audit_id"], row["status"]) == its:
                return row
        raise KgroupsError(f"the lake at {self.lake.location} has no finished audit: run kgroups audit first")

    @property
    def as_of_ms(self) -> int:
        """The time at which the last audit judged expiry."""
        return to_epoch_ms(self.last_audit["as_of"])

    def known_as_of(self) -> str:
        """For a heading: which audit the rows are from."""
        audit = self.last_audit
        return f"audit {audit['audit_id']}, as of {format_time_for_people(audit['as_of'])} UTC"


def open_lake(arguments: argparse.Namespace) -> LakeReader:
    """The lake that --lake names. Raises UsageError where there is none, before Spark is started."""
    location = lake_location(arguments)
    require_lake_path(location)
    require_lake(location, arguments.command)
    spark = start_spark(arguments.command, location)
    from kgroups_spark.tables.lake import Lake

    return LakeReader(spark, Lake.open(spark, location))


def require_lake_path(location: str) -> None:
    """Raises UsageError for a file, and for a schema where Spark has no catalog that could hold one."""
    require_pyspark()
    from kgroups_spark.tables.catalog_schema import schema_words
    from kgroups_spark.tables.lake import is_path

    if not is_path(location):
        schema_words(location)
        if not may_have_catalog():
            raise UsageError(
                f"kgroups: --lake {location} names a schema of a catalog, and Spark starts here without one that lasts "
                f"(SPARK_CONF_DIR names none); for a folder of that name write ./{location}"
            )
    elif Path(location).is_file():
        raise UsageError(f"kgroups: --lake {location} is a file; name a folder")


def require_lake(location: str, command: str) -> None:
    """Raises UsageError if a local path cannot be a lake; of remote ones and schemas only Spark can tell."""
    from kgroups_spark.tables.lake import is_path

    if is_path(location) and ":" not in location and not (Path(location) / "audits").is_dir():
        found = "there is a folder without tables of an audit" if Path(location).is_dir() else "there is nothing"
        raise UsageError(
            f"kgroups {command}: no lake at {location}: {found}; "
            f"kgroups audit --lake {location} --segments DIR makes one, kgroups demo makes one to look at"
        )


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a small frame in order: times as UTC datetimes, structs and maps as dicts."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist(maps_as_pydicts="strict")
    return rows
