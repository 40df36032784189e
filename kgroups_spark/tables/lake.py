"""The lake: all tables in one place, made, opened, read.

Each table is a folder of the lake's path. A lake in a catalog (`catalog.schema`) is told apart here and not supported
yet: `identifier` is where its names would come from.

Whatever changes a table goes through `Lake.commit`, and through nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.tables.failures import told_in_one_line
from kgroups_spark.tables.kernel import Kernel, KernelTable, TableFile
from kgroups_spark.tables.parts_writer import lake_file_system
from kgroups_spark.tables.schemas import TABLES, Table, arrow_schema

# The layout of the tables: raised when they change in a way that older software would misread.
LAKE_VERSION = 1
LAKE_VERSION_PROPERTY = "kgroups.lakeVersion"

# A log of many small commits: Delta's default of 10 makes every tenth night slow.
CHECKPOINT_INTERVAL = 100

# Where tasks leave what is not yet in a table; Spark and Delta do not look into folders that begin with a low line.
WORK_FOLDER = "_work"

Answer = TypeVar("Answer")


class Lake:
    """The tables at one place. `location` is what the user typed, `uri` the same as Hadoop spells it."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        if not is_path(location):
            raise UsageError(
                f"lake {location!r} names a schema of a catalog, which cannot hold a lake yet; "
                f"for a folder of that name write ./{location}"
            )
        self.spark = spark
        self.location = location
        self.kernel = Kernel(spark)
        with told_in_one_line(f"lake {location}"):
            self.uri = self.kernel.qualified(location)

    @classmethod
    def open(cls, spark: SparkSession, location: str) -> Lake:
        """The lake that is there. Raises UsageError where there is none, KgroupsError if newer software made it."""
        lake = cls(spark, location)
        with told_in_one_line(f"the lake at {location} cannot be opened"):
            if not lake.exists():
                raise UsageError(f"no lake at {location}: it has no table audits; kgroups audit makes one")
            lake._require_known_version()
        return lake

    @classmethod
    def create(cls, spark: SparkSession, location: str) -> Lake:
        """The lake that is there, or a new one with all tables, empty; what an earlier attempt left undone is done.

        Raises UsageError for a folder that holds something else, KgroupsError as `open`.
        """
        lake = cls(spark, location)
        with told_in_one_line(f"no lake can be made at {location}"):
            if lake.exists():
                lake._require_known_version()
            else:
                lake._require_nothing_else_there()
            lake._create_missing_tables()
        return lake

    def exists(self) -> bool:
        with told_in_one_line(f"the lake at {self.location} cannot be opened"):
            return self.table("audits").exists()

    def table(self, name: str) -> KernelTable:
        """The table's log. Raises KeyError for a name that is no table's."""
        return self.kernel.table(f"{self.uri}/{TABLES[name].name}")

    def identifier(self, name: str) -> str:
        """The table's name in SQL."""
        return f"delta.`{self._path(name).replace('`', '``')}`"

    def read(self, name: str, version: int | None = None) -> DataFrame:
        """A version of the table (default: the newest)."""
        reader = self.spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(self._path(name))

    def read_files(self, name: str, version: int | None = None) -> DataFrame:
        """The same rows as `read`, with the same nullability, for a table of few files.

        Delta's own reader first rebuilds a table's state by Spark jobs, which costs more than the tables of now have to
        say; Kernel knows their files. Tables whose files are not the whole truth (deletion vectors, column mapping) are
        left to Delta.
        """
        log = self.table(name)
        if log.refusal() is not None:
            return self.read(name, version)
        paths = [f"{self._path(name)}/{unquote(file.path)}" for file in log.files(version)]
        schema = TABLES[name].schema
        if not paths:
            return self.spark.createDataFrame([], schema)
        rows = self.spark.read.schema(schema).parquet(*paths)
        return rows.select(*(_never_null(field) if not field.nullable else F.col(field.name) for field in schema))

    def rows(
        self,
        name: str,
        version: int | None = None,
        *,
        files: Iterable[TableFile] | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """The rows of a small table; where the driver can reach the files by pyarrow, without a Spark job.

        `where` and `columns` choose among them; `files` says where the wanted rows lie, so that others are not opened.
        """
        schema = arrow_schema(name)
        columns = schema.names if columns is None else columns
        if not self.files_in_reach:
            whole = self.read(name, version).select(*schema.names).toArrow().cast(schema)
            return (whole if where is None else whole.filter(where)).select(columns)
        file_system, folder = lake_file_system(self._path(name))
        files = self.table(name).files(version) if files is None else files
        paths = [f"{folder}/{unquote(file.path)}" for file in files]
        if not paths:
            return schema.empty_table().select(columns)
        spark_writes_int96 = pa.dataset.ParquetFileFormat(read_options={"coerce_int96_timestamp_unit": "us"})
        dataset = pa.dataset.dataset(paths, schema=schema, filesystem=file_system, format=spark_writes_int96)
        return dataset.to_table(columns=list(columns), filter=where)

    def commit(self, table: str, operation: str, write: Callable[[], Answer]) -> Answer:
        """What `write` answers: it changes the table in one Delta transaction. The one place where a lake changes.

        `operation` is create, append, replace or delete. Raises KgroupsError where the storage or Delta refuses.
        """
        with told_in_one_line(f"table {table} of the lake at {self.location} could not be written ({operation})"):
            return write()

    def _path(self, name: str) -> str:
        return f"{self.uri}/{TABLES[name].name}"

    @cached_property
    def files_in_reach(self) -> bool:
        """The driver can read the lake's files by pyarrow, too."""
        try:
            file_system, folder = lake_file_system(self.uri)
            found = file_system.get_file_info(f"{folder}/audits/_delta_log")
        except (OSError, pa.ArrowException):
            return False
        return bool(found.type == pa.fs.FileType.Directory)

    @cached_property
    def version(self) -> int:
        """Which layout the lake says it has."""
        return int(self.table("audits").properties().get(LAKE_VERSION_PROPERTY, 0))

    def _require_known_version(self) -> None:
        if self.version > LAKE_VERSION:
            raise KgroupsError(
                f"the lake at {self.location} has layout {self.version}; this version of kgroups-spark knows up to "
                f"{LAKE_VERSION}: use the version that made it, or a newer one"
            )

    def _require_nothing_else_there(self) -> None:
        strangers = sorted(set(self.kernel.names_in(self.uri)) - set(TABLES) - {WORK_FOLDER})
        if strangers:
            raise UsageError(
                f"{self.location} is no lake and not empty: it holds {', '.join(strangers[:3])}; "
                "name a new folder or an empty one"
            )

    def _create_missing_tables(self) -> None:
        there = set(self.kernel.names_in(self.uri)) if self.exists() else set()
        missing = [table for name, table in TABLES.items() if name not in there and name != "audits"]
        in_parallel([partial(self._create_table, table) for table in missing])
        # The ledger last: where it is, the lake is complete.
        if "audits" not in there:
            self._create_table(TABLES["audits"])

    def _create_table(self, table: Table) -> None:
        properties = {
            "delta.dataSkippingStatsColumns": ",".join(table.statistics),
            "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
            LAKE_VERSION_PROPERTY: str(LAKE_VERSION),
        }
        create = partial(self.table(table.name).create, table.schema.json(), table.comment, properties)
        self.commit(table.name, "create", create)


def _never_null(field: StructField) -> Column:
    """The column as one that holds no null, which Delta has made sure of and Spark's Parquet reader forgets."""
    if isinstance(field.dataType, StringType):
        zero = F.lit("")
    elif isinstance(field.dataType, ArrayType):
        zero = F.array()
    else:
        zero = F.lit(0)
    return F.coalesce(field.name, zero.cast(field.dataType)).alias(field.name, metadata=field.metadata)


def is_path(location: str) -> bool:
    """A path has a slash or a scheme, or is there; anything else is `catalog.schema`."""
    return "/" in location or location.startswith("file:") or Path(location).exists()


def in_parallel(calls: list[Callable[[], Any]], threads: int = 4) -> list[Any]:
    """What the calls answer, in order; small commits wait more than they work. Raises as the first one that failed."""
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(call) for call in calls]
        return [call.result() for call in running]
