"""A lake's tables by Spark: in a schema of a catalog (`schema`, or `catalog.schema`), and frames with rows of files.

Rows are read and written by the tables' names. Delta Kernel reads their logs at the tables' locations in the catalog,
as for a path lake: the last transaction, the files, the newest claim. A Hive metastore, Glue, and Unity Catalog's
external tables allow that. The log in storage of a table with the feature `catalogManaged` is incomplete: such tables
are refused.

The schema must exist, because the catalog's administrators decide about its users and its location.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.store import Store
from kgroups_spark.tables.schemas import Table
from kgroups_spark.tables.spark_types import quoted, table_definition, text


class CatalogSchema:
    """The location of a catalog lake; `uri` is the folder of the schema's tables.

    Raises UsageError if there is no such schema, KgroupsError if the catalog does not have its location.
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
            # Column names are in lower case, so `Location` is not one.
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
        """A version of the table (default: the newest)."""
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
        if MANAGED_BY_CATALOG.intersection(self.store.table(self.path(name)).features()):
            raise KgroupsError(
                f"table {name} of schema {self.location} is managed by its catalog (feature catalogManaged), which "
                "keeps part of its log to itself: use a schema whose tables are not, or a folder"
            )


MANAGED_BY_CATALOG = {"catalogManaged", "catalogOwned-preview"}

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


# Frames with rows of files.


def parquet_of(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    """The rows of these files. Spark takes paths for globs by default, and a lake's folder may be named `{a}`."""
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("__globPaths__", False).parquet(*paths)


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
    """The same, with the nullability of the schema."""
    rows = parquet_of(spark, schema, paths)
    return rows.select(*(never_null(field) if not field.nullable else F.col(field.name) for field in schema))
