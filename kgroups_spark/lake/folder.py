"""A lake's tables as folders of one path."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from kgroups_spark.lake.store import Store
from kgroups_spark.tables.schemas import Table


class Folder:
    """The place of a path lake; `uri` is the path as Hadoop spells it. catalog_schema.py has the other kind of
    place."""

    def __init__(self, spark: SparkSession, store: Store, location: str) -> None:
        self.spark = spark
        self.store = store
        self.uri = store.qualified(location)

    def path(self, name: str) -> str:
        """The table's path, whether the table exists or not."""
        return f"{self.uri}/{name}"

    def identifier(self, name: str) -> str:
        """The table's name in SQL."""
        return f"delta.`{self.path(name).replace('`', '``')}`"

    def names(self) -> list[str]:
        """The names of the folder's entries, tables or not; empty if there is no folder."""
        return self.store.names_in(self.uri)

    def has(self, name: str) -> bool:
        return self.store.table(self.path(name)).exists()

    def create(self, table: Table, properties: dict[str, str]) -> None:
        """Creates the table, empty; does nothing if another process has just created it."""
        self.store.table(self.path(table.name)).create(table.schema.json(), table.comment, properties)

    def read(self, name: str, version: int | None = None) -> DataFrame:
        """A version of the table (default: the newest)."""
        reader = self.spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(self.path(name))
