"""The lake: all tables in one place, created, opened and read. A place is a path, in which each table is a folder
(Folder), or a schema of a catalog (CatalogSchema). Every change goes through `Lake.commit`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from kgroups_spark.errors import KgroupsError, UsageError, reason_of, reported_in_one_line
from kgroups_spark.lake.last_finished import FINISHED, IS_FINISHED, UPKEEP_APP_ID, since_last_finished
from kgroups_spark.lake.local import Local, require_local
from kgroups_spark.lake.parts import Part, PartWriter, dataset_of
from kgroups_spark.lake.replaced import COLUMN, NOTHING, REPLACEABLE, Replaced
from kgroups_spark.lake.store import AlreadyWritten, ChangedMeanwhile, Store, TableFile, TableLog
from kgroups_spark.sources.files import StandIn, file_system, stand_in_for
from kgroups_spark.spark.tasks import Runner
from kgroups_spark.tables.columns import Condition, all_may_hold
from kgroups_spark.tables.schemas import (
    LAKE_VERSION,
    LAKE_VERSION_PROPERTY,
    TABLES,
    Table,
    arrow_schema,
    is_path,
    lake_version_in,
    require_known_version,
    require_nothing_else,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kgroups_spark.lake.hadoop import CatalogSchema


class Folder:
    """The place of a path lake; `uri` is the path as Hadoop spells it. The other kind is CatalogSchema."""

    def __init__(self, spark: Engine, store: Store, location: str) -> None:
        self.spark: Any = spark
        self.uri = store.qualified(location)
        self.store = store.at(self.uri)

    def path(self, name: str) -> str:
        """The table's path, whether the table exists or not."""
        return f"{self.uri}/{name}"

    def names(self) -> list[str]:
        """The names of the folder's entries, tables or not; empty if there is no folder."""
        return self.store.names_in(self.uri)

    def has(self, name: str) -> bool:
        return self.store.table(self.path(name)).exists()

    def create(self, table: Table, properties: dict[str, str]) -> None:
        """Creates the table, empty; does nothing if another process has just created it."""
        self.store.table(self.path(table.name)).create(table.schema_json, table.comment, properties)

    def read(self, name: str, version: int | None = None) -> DataFrame:
        reader = self.spark.read.format("delta")
        rows: DataFrame = (reader if version is None else reader.option("versionAsOf", version)).load(self.path(name))
        return rows


# A log of many small commits: Delta's default of 10 makes every tenth night slow.
CHECKPOINT_INTERVAL = 100

Answer = TypeVar("Answer")
Engine: TypeAlias = "SparkSession | Local"


class Lake:
    """The tables at one place. `location` is the user's text for it; `uri` is their folder as Hadoop spells it."""

    def __init__(self, spark: Engine, location: str) -> None:
        self.spark: Any = spark
        self.location = location
        self.runner: Runner
        self.place: Folder | CatalogSchema
        with reported_in_one_line(f"lake {location}"):
            if isinstance(spark, Local):
                require_local(location)
                self.runner, self.place = spark.runner, Folder(spark, spark.store, location)
            else:
                from kgroups_spark.lake.hadoop import CatalogSchema, HadoopStore
                from kgroups_spark.spark.runner import SparkRunner

                kind = Folder if is_path(location) else CatalogSchema
                self.runner, self.place = SparkRunner(spark), kind(spark, HadoopStore(spark), location)
        self.store = self.place.store
        self.uri = self.place.uri
        # Finished audits in files of the ledger that were opened; a file never changes.
        self._finished_in: dict[str, list[int]] = {}
        # Rows of these files from that audit on, the last finished one when the ledger was last read.
        self._ledgers_end: dict[tuple[str, int], pa.Table] = {}

    @property
    def is_in_catalog(self) -> bool:
        return not isinstance(self.place, Folder)

    @classmethod
    def open(cls, spark: Engine, location: str) -> Lake:
        """The existing lake. Raises UsageError if there is none, KgroupsError if newer software wrote it."""
        lake = cls(spark, location)
        with reported_in_one_line(f"the lake at {location} cannot be opened"):
            if not lake.exists():
                raise UsageError(f"no lake at {location}: it has no table audits; kgroups audit creates one")
            require_known_version(location, lake.version)
        return lake

    @classmethod
    def create(cls, spark: Engine, location: str) -> Lake:
        """The existing lake, or a new one with all tables, empty; completes an unfinished creation. Raises UsageError
        for a place with something else, or a lake without its ledger, KgroupsError as `open`."""
        lake = cls(spark, location)
        with reported_in_one_line(f"no lake can be created at {location}"):
            if lake.exists():
                require_known_version(location, lake.version)
            else:
                lake._require_nothing_else_there()
                in_parallel([partial(lake.create_table, table) for name, table in TABLES.items() if name != "audits"])
                # The ledger comes last: if it exists, the lake is complete.
                lake.create_table(TABLES["audits"])
        return lake

    def exists(self) -> bool:
        with reported_in_one_line(f"the lake at {self.location} cannot be opened"):
            return self.place.has("audits")

    def table(self, name: str) -> TableLog:
        """The table's log. Raises KeyError if no table has that name."""
        return self.store.table(self._path(name))

    def read(self, name: str, version: int | None = None, replaced: Replaced | None = None) -> DataFrame:
        """A version of the table (None: the newest), without the rows of `replaced` (None: those the lake now has)."""
        rows = self.place.read(name, version)
        return (self.replaced if replaced is None else replaced).left_out(name, rows) if name in REPLACEABLE else rows

    @cached_property
    def replaced(self) -> Replaced:
        """Rows of history that readers do not get, by the last finished audit; one that finds more sets this."""
        rows = self.ledgers_end(columns=["audit_id", "status", COLUMN]).to_pylist()
        last = max((row for row in rows if row["status"] == FINISHED), key=itemgetter("audit_id"), default=None)
        return Replaced.of(last and last[COLUMN])

    def read_files(self, name: str, version: int | None = None) -> DataFrame:
        """All rows as `read`, for a table of few files, which we list: Delta's reader first computes a table's state
        with Spark jobs. It still reads tables with deletion vectors or column mapping, whose files alone are not the
        rows, and those of a catalog, which decides who may read them."""
        from kgroups_spark.lake.hadoop import rows_of_files

        log = self.table(name)
        if self.is_in_catalog or log.refusal() is not None:
            return self.read(name, version, NOTHING)
        paths = [f"{self._path(name)}/{unquote(file.path)}" for file in log.files(version)]
        return rows_of_files(self.spark, TABLES[name].schema, paths)

    def rows(
        self,
        name: str,
        version: int | None = None,
        *,
        files: Iterable[TableFile] | None = None,
        columns: Sequence[str] | None = None,
        conditions: Sequence[Condition] = (),
        replaced: Replaced | None = None,
    ) -> pa.Table:
        """Rows of a table, without a Spark job; for small results. `columns` (None: all), `conditions`: files are
        skipped by their statistics. `files`: those with the wanted rows (None: all). `replaced` as in `read`."""
        columns = arrow_schema(name).names if columns is None else columns
        files = self.table(name).files(version) if files is None else files
        files = [file for file in files if all_may_hold(conditions, file.bound)]
        left_out = (self.replaced if replaced is None else replaced) if name in REPLACEABLE else NOTHING
        if not left_out.touches(name):  # which takes values from rows
            # To compare all rows costs several times their reading.
            conditions = [
                c for c in conditions if c.value is None or any(f.value_of(c.column) != c.value for f in files)
            ]
        with self._damage_reported(name):
            return left_out.rows_left(name, self.dataset(name, [each.path for each in files]), columns, conditions)

    def dataset(self, name: str, paths: Sequence[str]) -> pa.dataset.Dataset:
        """The rows of files of a table; `paths` as in its log."""
        if self.stand_in is not None:
            for uri in (f"{self._path(name)}/{unquote(path)}" for path in paths):
                if not Path(here := self.stand_in.path(uri)).exists():
                    self.store.fetch(uri, here)
        return dataset_of(name, self._path(name), paths)

    def write(self, name: str, rows: Iterable[pa.Table | pa.RecordBatch], audit_id: int) -> list[Part]:
        """A part with rows of the driver; none if there are no rows."""
        part = PartWriter(name, self.uri, audit_id).write(rows)
        if part and self.stand_in is not None:
            uri = f"{self._path(name)}/{part.path}"
            self.store.put(self.stand_in.path(uri), uri)
        return [part] if part else []

    def ledgers_end(self, version: int | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The ledger's rows of the last finished audit and of later ones; all rows if none has finished. With all
        columns (None) a file is read once, because an audit asks before and after each of its own rows."""
        last, files = since_last_finished(self.table("audits").files(version), _newest_audit, self._finished)
        since = [Condition("audit_id", ">=", last)]
        if columns is not None or not files:
            return self.rows("audits", files=files, columns=columns, conditions=since)
        known, found = self._ledgers_end, dict[tuple[str, int], pa.Table]()
        for place, file in (((file.path, last), file) for file in files):
            found[place] = known[place] if place in known else self.rows("audits", files=[file], conditions=since)
        self._ledgers_end = found
        return pa.concat_tables(found.values())

    def _finished(self, file: TableFile) -> list[int]:
        if file.path not in self._finished_in:
            ends = self.rows("audits", files=[file], columns=["audit_id"], conditions=[IS_FINISHED])
            self._finished_in[file.path] = ends["audit_id"].to_pylist()
        return self._finished_in[file.path]

    @contextmanager
    def _damage_reported(self, name: str) -> Iterator[None]:
        """Within the block, raises KgroupsError for a missing or damaged file of the table, with a cure."""
        try:
            yield
        except (OSError, pa.ArrowInvalid) as error:
            # pyarrow's error for a missing file has nothing but its path.
            reason = f"there is no file {error}" if isinstance(error, FileNotFoundError) else reason_of(error)
            cure = "delete its folder" if not self.is_in_catalog else "drop the table"
            cure = f"{cure}: the next audit makes it again" if TABLES[name].kind == "current" else "restore it"
            raise KgroupsError(
                f"table {name} of the lake at {self.location} cannot be read: {reason}; if it stays so, {cure}"
            ) from error

    def commit(self, table: str, operation: str, write: Callable[[], Answer]) -> Answer:
        """The answer of `write`, which makes a change of the lake in one Delta transaction. `operation`: create,
        append, replace, delete, drop, alter or shut out. Raises KgroupsError if storage or Delta refuses it."""
        with reported_in_one_line(f"table {table} of the lake at {self.location} could not be written ({operation})"):
            return write()

    def _path(self, name: str) -> str:
        return self.place.path(TABLES[name].name)

    @cached_property
    def stand_in(self) -> StandIn | None:
        """The folder for copies of the lake's files, if the driver cannot open them by pyarrow."""
        with suppress(OSError, pa.ArrowException):
            storage, folder = file_system(self.uri)
            if storage.get_file_info(f"{folder}/audits/_delta_log").type == pa.fs.FileType.Directory:
                return None
        return stand_in_for(self.uri)

    def carry(self) -> None:
        """Lets Hadoop and Spark carry files to and from tasks, which do not reach them by pyarrow."""
        from kgroups_spark.lake.hadoop import CarryingRunner

        self.stand_in = stand_in_for(self.uri)
        self.runner = CarryingRunner(self.spark, self.stand_in, self.store)

    @cached_property
    def properties(self) -> dict[str, str]:
        return self.table("audits").snapshot().properties

    @property
    def version(self) -> int:
        """The lake's layout; 0: its table `audits` has none, because other software created it."""
        return lake_version_in(self.properties)

    def _require_nothing_else_there(self) -> None:
        an_empty_one = "an empty schema" if self.is_in_catalog else "a new folder or an empty one"
        names = self.place.names()
        require_nothing_else(self.location, names, an_empty_one)
        # An unfinished creation leaves empty tables. The rows of a lake without ledger would count again. With a ledger
        # by now, another process has created the lake meanwhile.
        has_rows = any(self.place.has(name) and self.table(name).files() for name in TABLES if name in names)
        if has_rows and not self.exists():
            raise UsageError(
                f"the lake at {self.location} has lost its table audits, which cannot be rebuilt: restore it, or name "
                f"{an_empty_one}"
            )

    def create_table(self, table: Table) -> None:
        """Creates the table, empty; does nothing if it exists."""
        self.commit(table.name, "create", partial(self.place.create, table, table_properties(table)))


def _newest_audit(file: TableFile) -> float:
    """The greatest number of an audit in the file, by its statistics; inf: unknown."""
    newest = file.bound("maxValues", "audit_id")
    return math.inf if newest is None else float(newest)


def table_properties(table: Table) -> dict[str, str]:
    return {
        "delta.dataSkippingStatsColumns": ",".join(table.statistics),
        "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
        # Delta must not delete versions that readers go back to (as_of_audit.py).
        "delta.enableExpiredLogCleanup": "false",
        LAKE_VERSION_PROPERTY: str(LAKE_VERSION),
    }


def in_parallel(calls: list[Callable[[], Any]]) -> list[Any]:
    """The answers in order; threads, because small commits mostly wait. Raises the first error in that order."""
    from concurrent.futures import ThreadPoolExecutor  # an audit that has nothing to create or clear up needs none

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(call) for call in calls]
        return [call.result() for call in running]


# Changes of an audit to rows of others: deletions, rewritten files.
#
# Rows that an audit adds have their own transactions (writer.py). Every other change becomes a Delta transaction of its
# audit here. So Delta itself refuses the commit of an audit that stalled in it while another one took over. The next
# audit shuts the earlier one out of every table before it reads any of them (claim.py).
#
#     audit 3, which deletes   look at the claim ............ stalled ............ commit 3,1: refused
#     audit 4, which took over                  shut out (4,0)  delete (4,1)  append  finish

Transaction = tuple[str, int]

ATTEMPTS = 5

# A transaction version has an audit's number, and in the low bits the number of its change of the table.
CHANGE_BITS = 20


def first_change_of(audit_id: int) -> int:
    """The transaction version from which on a table accepts only changes of this audit and of later ones."""
    return audit_id << CHANGE_BITS


class Fence(NamedTuple):
    """Commits the changes of one audit. `check_claim` is called before each of them and raises if the claim is lost."""

    lake: Lake
    audit_id: int
    check_claim: Callable[[], None]

    def commit(self, name: str, operation: str, write: Callable[[Transaction], Answer]) -> Answer:
        """The answer of `write`, which commits the given transaction, perhaps again (OPTIMIZE may interfere). Raises
        the error of `check_claim` if the claim is lost, even if only the refused commit shows it."""
        with named_if_lost(self.check_claim):
            attempt = partial(self._attempt, self.lake.table(name), write)
            return self.lake.commit(name, operation, partial(until_nobody_interferes, attempt))

    def _attempt(self, log: TableLog, write: Callable[[Transaction], Answer]) -> Answer:
        newest = log.snapshot().last_transaction(UPKEEP_APP_ID) or 0
        if newest >= first_change_of(self.audit_id + 1):
            raise AlreadyWritten(f"audit {newest >> CHANGE_BITS} has changed {log.path}")
        return write((UPKEEP_APP_ID, max(newest + 1, first_change_of(self.audit_id))))


@contextmanager
def named_if_lost(check_claim: Callable[[], None]) -> Iterator[None]:
    """Checks the claim before a commit, and if it fails again: then a lost claim is the error to raise."""
    check_claim()
    try:
        yield
    except Exception:
        check_claim()
        raise


def until_nobody_interferes(write: Callable[[], Answer]) -> Answer:
    """The answer of `write`, repeated if another process (OPTIMIZE, say) commits to the table meanwhile."""
    for _ in range(ATTEMPTS - 1):
        try:
            return write()
        except ChangedMeanwhile:
            continue
    return write()
