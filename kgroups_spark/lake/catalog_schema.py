"""A lake's tables as those of a schema in a catalog: `schema`, or `catalog.schema`.

Rows are read and written by the tables' names. Their logs are read where the catalog says that the tables lie, by Delta
Kernel as those of a path lake: which transaction came last, which files there are, whose claim is the newest. A Hive
metastore, Glue, or Unity Catalog's external tables allow that. In a table with the feature `catalogManaged` the log in
storage is not the whole truth: such tables are refused.

The schema must exist: the catalog's administrators decide about its users and its location.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.kernel import repetition_refused
from kgroups_spark.lake.store import Store
from kgroups_spark.tables.ddl import quoted, table_definition, text
from kgroups_spark.tables.schemas import Table


class CatalogSchema:
    """The location of a catalog lake; `uri` is the folder of the schema's tables.

    Raises UsageError where there is no such schema, KgroupsError where the catalog does not say where it lies.
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
            # Names of columns are all small letters.
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
        """Raises KgroupsError for a table that is managed by its catalog."""
        if name not in self.names():
            return False
        self._require_plain(name)
        return True

    def create(self, table: Table, properties: dict[str, str]) -> None:
        """Makes the table, empty; nothing if someone else has just made it."""
        create = f"CREATE TABLE IF NOT EXISTS {self.identifier(table.name)} {table_definition(table, properties)}"
        folder = f"{self.uri}/{table.name}"
        if self.store.table(folder).exists() and table.name not in self.names():
            # Delta writes the log first: whoever was killed between that and the catalog left a table nobody knows.
            create += f" LOCATION {text(folder)}"
        try:
            self.spark.sql(create)
        except PySparkException:
            if table.name not in self.names():
                raise
        self._require_plain(table.name)

    def drop(self, name: str) -> None:
        """Deletes the table, if it is there."""
        self.spark.sql(f"DROP TABLE IF EXISTS {self.identifier(name)}")

    def read(self, name: str, version: int | None = None) -> DataFrame:
        """A version of the table (default: the newest)."""
        reader = self.spark.read if version is None else self.spark.read.option("versionAsOf", version)
        return reader.table(self.identifier(name))

    def append(self, name: str, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Adds the rows by Spark's Delta writer with its options. Raises AlreadyWritten for a transaction that somebody
        else commits at the same time."""
        with repetition_refused():
            rows.writeTo(self.identifier(name)).options(**options).append()

    def replace(self, name: str, rows: DataFrame, options: Mapping[str, str], where: str | None = None) -> None:
        """Makes the rows the only ones of those that the condition holds for (None: of all)."""
        replaced = F.lit(True) if where is None else F.expr(where)
        with repetition_refused():
            rows.writeTo(self.identifier(name)).options(**options).overwrite(replaced)

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
        # Reported as a URI, unlike the places of tables.
        return unquote(str(folder)).rstrip("/")

    def _require_plain(self, name: str) -> None:
        if MANAGED_BY_CATALOG.intersection(self.store.table(self.path(name)).features()):
            raise KgroupsError(
                f"table {name} of schema {self.location} is managed by its catalog (feature catalogManaged), which "
                "keeps part of its log to itself: use a schema whose tables are not, or a folder"
            )


MANAGED_BY_CATALOG = {"catalogManaged", "catalogOwned-preview"}

# Spark's names of what is wrong with `schema`, or with the catalog in `catalog.schema`.
NO_SUCH_SCHEMA = {"SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND"}


def schema_words(location: str) -> list[str]:
    """`catalog.schema` as its words. Raises UsageError for anything but one or two of them."""
    words = location.split(".")
    if len(words) > 2 or not all(words):
        raise UsageError(
            f"--lake {location} is neither schema nor catalog.schema; for a folder of that name write ./{location}"
        )
    return words
