"""A lake on a path, read by DuckDB through deltalake (the extra `[read]` installs both), without Spark or Java."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from kgroups_spark.errors import KgroupsError, UsageError, how_to_install, may_have_catalog
from kgroups_spark.lake.last_finished import (
    IS_FINISHED,
    LEDGER_APP_ID,
    claim_lost,
    is_lost,
    ledger_end_empty,
    ledger_lost,
    newest_audit,
    since_last_finished,
    table_lost,
    version_gone,
    version_lost,
)
from kgroups_spark.lake.replaced import COLUMN, NOTHING, REPLACEABLE, Replaced
from kgroups_spark.sources.files import deltalake_options
from kgroups_spark.spark.interruption import run_interruptibly, uninterrupted
from kgroups_spark.sql.reader import NO_QUERY, PARAMETER, ROWS_AT_ONCE, LakeReader, SqlError
from kgroups_spark.sql.views import (
    DECIDED_BY,
    KNOWN_HISTORY,
    NAMES,
    comments_sql,
    known_history_sql,
    needed_for,
    view_sql,
)
from kgroups_spark.tables.columns import Condition, expression_of
from kgroups_spark.tables.schemas import TABLES, arrow_schema, lake_version_in, require_known_version

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


# Delta's reader version of tables whose rows are exactly their files: no deletion vectors, no column mapping.
PLAIN_READER = 1

# Lists columns with statistics. deltalake 1.6 takes a column without them for one without values.
STATISTICS = "delta.dataSkippingStatsColumns"

SETTINGS = "SET TimeZone = 'UTC'"
# DuckDB otherwise also takes Python's variables for tables. The last setting prevents SQL from changing these again.
NO_FILES = "SET python_enable_replacements = false; SET enable_external_access = false; SET lock_configuration = true"


class DuckDbLake:
    """A lake as its last finished audit left it when it was opened. The tables' files are listed at that time. A table
    becomes an Arrow dataset, and a view is made, on first use."""

    def __init__(
        self, location: str, storage_options: dict[str, str] | None = None, *, reaches_files: bool = False
    ) -> None:
        """`storage_options` are deltalake's, for object stores (None: as AWS's tools); `reaches_files`: SQL may also
        read and write files.

        Raises UsageError if there is no lake, KgroupsError if newer software made it, its ledger has lost the claim
        of an audit that wrote rows, or the ledger's newest file is empty, DeltaError if deltalake cannot read it.
        """
        _require_plain_path(location)
        self.location = location
        storage_options = storage_options or deltalake_options(location)
        self._reaches_files = reaches_files
        ledger = _ledger(location, storage_options)
        self.audit_id, recorded = _last_finished(ledger)
        others = {name: _table(location, name, storage_options) for name in TABLES if name != "audits"}
        there = {name: table for name, table in others.items() if table is not None}
        newest = {name: newest_audit(table.transaction_version) for name, table in there.items()}
        written_by = max(newest.values(), default=0)
        # An audit may have claimed its number since the ledger was opened.
        now = _table(location, "audits", storage_options) if written_by > self.audit_id else None
        if now is not None and claim_lost(written_by, now.transaction_version(LEDGER_APP_ID)):
            raise ledger_lost(location, written_by, self.audit_id)
        for name, table in there.items():
            _require_readable(table, name)
            if newest[name] > self.audit_id:
                newest[name] = _go_back_to(table, self.audit_id)
        self._tables = {**others, "audits": ledger}
        self._lost = {
            name for name, table in there.items() if is_lost(recorded.get(name), newest[name], table.file_uris)
        }
        self._datasets: dict[str, pa.dataset.Dataset] = {}
        self._made: set[str] = set()
        self._has_comments = False

    @cached_property
    def replaced(self) -> Replaced:
        """The rows of history that the last finished audit left out."""
        conditions = [Condition("audit_id", "==", self.audit_id), IS_FINISHED]
        reported = self.table("audits").to_table([COLUMN], filter=expression_of(conditions))[COLUMN]
        return Replaced.of(reported[0].as_py() if len(reported) else None)

    def table(self, name: str) -> pa.dataset.Dataset:
        """All of the table's rows, including replaced ones. Raises KgroupsError for a deleted table and for one whose
        log has lost its newest version, DeltaProtocolError for one that deltalake cannot return as files."""
        if name in self._lost:
            raise version_lost(self.location, name)
        if name not in self._datasets:
            table, schema = self._tables[name], arrow_schema(name)
            if table is None:
                raise table_lost(self.location, name)
            dataset = table.to_pyarrow_dataset(schema=schema)
            # Shared by all files of the dataset; deltalake (1.6) has no argument for it.
            dataset.format.default_fragment_scan_options = pa.dataset.ParquetFragmentScanOptions(
                pre_buffer=True, page_checksum_verification=True
            )
            self._datasets[name] = dataset
        return self._datasets[name]

    def rows(self, name: str, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = ()) -> pa.Table:
        """Rows of a table, without DuckDB. Files and row groups without a row that meets the conditions are not read,
        nor are other columns (`columns` None: all are read)."""
        left_out = self.replaced if name in REPLACEABLE else NOTHING
        return left_out.rows_left(name, self.table(name), columns, conditions)

    def query(self, query: str, parameters: dict[str, Any] | None = None) -> pa.Table:
        """The answer to a query; its parameters are written as $name. Raises duckdb.Error."""
        return self._answer(query, parameters).to_arrow_table()

    def batches(self, query: str, parameters: dict[str, Any] | None, rows: int) -> pa.RecordBatchReader:
        """The same as a stream, in batches of about `rows` rows. The next query ends it."""
        return self._answer(query, parameters).to_arrow_reader(rows)

    def _answer(self, query: str, parameters: dict[str, Any] | None) -> DuckDBPyRelation:
        import duckdb

        needed = needed_for(query)
        self.make(needed)
        if len(needed) == len(NAMES):
            # The query may list the comments, too.
            self.comment()
        try:
            return self.connection.sql(query, params=parameters or {})
        except duckdb.CatalogException:
            # Only DuckDB can identify the name, and suggest the nearest of those that exist.
            self.make(NAMES)
            return self.connection.sql(query, params=parameters or {})

    @cached_property
    def connection(self) -> DuckDBPyConnection:
        """The lake's own connection, created on first use. Times are TIMESTAMP WITH TIME ZONE, shown in UTC."""
        import duckdb

        connection = duckdb.connect()
        connection.execute(SETTINGS if self._reaches_files else f"{SETTINGS}; {NO_FILES}")
        return connection

    def make(self, names: list[str] | tuple[str, ...]) -> None:
        """Makes missing tables, views and functions, given in the order of NAMES."""
        for name in names:
            if name in self._made:
                continue
            if name in TABLES:
                self._make_table(name)
            else:
                text = view_sql(name, "duckdb", self.audit_id)
                if DECIDED_BY in text:
                    decided_by = pc.max(self.rows("previous_offset_expiry", ["decided_by"])["decided_by"]).as_py()
                    text = text.replace(DECIDED_BY, "NULL" if decided_by is None else str(decided_by))
                self.connection.execute(text)
            if name == KNOWN_HISTORY:
                [row] = self.connection.sql(f"FROM {name}").to_arrow_table().to_pylist()
                self.connection.execute(known_history_sql(row, "duckdb"))
            self._made.add(name)

    def comment(self) -> None:
        """Adds the comments of all views and functions, which have been made."""
        if not self._has_comments:
            self.connection.execute(comments_sql())
            self._has_comments = True

    def _make_table(self, name: str) -> None:
        if name not in REPLACEABLE or not self.replaced:
            self.connection.register(name, self.table(name))
            return
        self.connection.register(f"all_{name}", self.table(name))
        columns = ", ".join(f"{sql} AS {column}" for column, sql in self.replaced.columns(name).items())
        changed = f" REPLACE ({columns})" if columns else ""
        left = f"SELECT *{changed} FROM all_{name} WHERE NOT ({self.replaced.condition(name)})"
        self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {left}")


def duckdb_views(location: str, storage_options: dict[str, str] | None = None) -> DuckDBPyConnection:
    """A new connection with every table, view and function, as of the last finished audit; times in UTC, with time
    zone. `storage_options` are deltalake's, for object stores."""
    lake = DuckDbLake(location, storage_options, reaches_files=True)
    lake.make(NAMES)
    lake.comment()
    return lake.connection


def _table(location: str, name: str, storage_options: dict[str, str] | None) -> DeltaTable | None:
    """The table's newest version; None: there is no such table. Raises DeltaError, which names the table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return DeltaTable(f"{location.rstrip('/')}/{name}", storage_options=storage_options)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise type(error)(f"table {name}: {error}") from error


def _ledger(location: str, storage_options: dict[str, str] | None) -> DeltaTable:
    """The newest version of the lake's ledger. Raises as DuckDbLake does."""
    ledger = _table(location, "audits", storage_options)
    if ledger is None:
        raise UsageError(f"no lake at {location}: it has no table audits; kgroups audit creates one")
    require_known_version(location, lake_version_in(ledger.metadata().configuration))
    _require_readable(ledger, "audits")
    # In an object store a file is there as a whole or not at all.
    newest_file = Path(location, "audits", "_delta_log", f"{ledger.version():020d}.json")
    if newest_file.is_file() and not newest_file.stat().st_size:
        raise ledger_end_empty(location, ledger.version())
    return ledger


def _last_finished(ledger: DeltaTable) -> tuple[int, dict[str, int]]:
    """The last finished audit (0: none) and the newest one in each table, from the ledger's newest files."""
    recorded: dict[int, pa.Scalar] = {}
    files = pa.table(ledger.get_add_actions(flatten=True)).to_pydict()
    newest = dict(zip(files["path"], files.get("max.audit_id", ()), strict=False))

    def newest_audit(file: pa.dataset.Fragment) -> float:
        number = newest.get(file.path)
        return math.inf if number is None else float(number)

    def finished_in(file: pa.dataset.Fragment) -> list[int]:
        rows = file.to_table(columns=["audit_id", "newest_audits"], filter=expression_of([IS_FINISHED]))
        numbers: list[int] = rows["audit_id"].to_pylist()
        recorded.update(zip(numbers, rows["newest_audits"], strict=True))
        return numbers

    fragments = ledger.to_pyarrow_dataset(schema=arrow_schema("audits")).get_fragments()
    last, _ = since_last_finished(fragments, newest_audit, finished_in)
    return last, dict(recorded[last].as_py() or ()) if last else {}


def _require_plain_path(location: str) -> None:
    """Raises DeltaError for a folder that deltalake (1.6) does not find or confuses with another: in a folder's name it
    reads %20 as a blank, and a backslash as a slash."""
    from deltalake.exceptions import DeltaError

    if ":" in location:
        return
    for path in (str(Path(location).absolute()), str(Path(location).resolve())):
        if re.search(r"%[0-9A-Fa-f]{2}", path) or (os.sep == "/" and "\\" in path):
            raise DeltaError(f"deltalake does not find folders with a backslash, %20 or the like in their path: {path}")


def _require_readable(table: DeltaTable, name: str) -> None:
    """Raises DeltaProtocolError for a table whose files deltalake would not read correctly on their own."""
    from deltalake.exceptions import DeltaProtocolError

    protocol = table.protocol()
    if protocol.min_reader_version > PLAIN_READER:
        features = ", ".join(sorted(protocol.reader_features or [])) or f"reader version {protocol.min_reader_version}"
        raise DeltaProtocolError(f"table {name} is more than its files ({features})")
    if STATISTICS not in table.metadata().configuration:
        raise DeltaProtocolError(f"table {name} has lost its property {STATISTICS}")


def _go_back_to(table: DeltaTable, audit_id: int) -> int:
    """Loads the newest version to which no later audit has committed, as LakeAsOfAudit does with Spark; returns the
    number of the newest audit in it (0: none). Raises KgroupsError if the table's log no longer has it."""
    from deltalake.exceptions import DeltaError

    while (newest := newest_audit(table.transaction_version)) > audit_id:
        try:
            table.load_as_version(table.version() - 1)
        except DeltaError as error:
            raise version_gone(table.table_uri, audit_id) from error
    return newest


PACKAGES = ("deltalake",)


class DuckDbReader(LakeReader):
    """A reader that uses DuckDB, without Spark."""

    engine = "duckdb"

    def __init__(self, lake: DuckDbLake) -> None:
        self.lake = lake
        self.location = lake.location

    @property
    def audit_id(self) -> int:
        return self.lake.audit_id

    def table_rows(
        self, table: str, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = ()
    ) -> pa.Table:
        with _delta_refusal(self.location):
            return self.lake.rows(table, columns, conditions)

    def arrow(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        with _refusals(self.location):
            typed = self._as_typed(query, parameters)
            return run_interruptibly(lambda: self.lake.query(*typed), self.lake.connection.interrupt)

    def batches(self, query: str, parameters: Mapping[str, Any] | None = None) -> Iterator[pa.RecordBatch]:
        with _refusals(self.location):
            typed, interrupt = self._as_typed(query, parameters), self.lake.connection.interrupt
            answer = run_interruptibly(lambda: self.lake.batches(*typed, ROWS_AT_ONCE), interrupt)
            while (batch := run_interruptibly(lambda: next(answer, None), interrupt)) is not None:
                yield batch

    def _as_typed(self, query: str, parameters: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
        """The query and its parameters for DuckDB. Raises SqlError unless the text is one query or EXPLAIN of one:
        EXPLAIN ANALYZE would run any statement. The connection restricts files (NO_FILES)."""
        import duckdb

        text, used = _with_dollars(query, parameters or {})
        kinds = self._kinds(text)
        if kinds == [duckdb.StatementType.EXPLAIN]:
            kinds = self._kinds(_EXPLAIN.sub("", text, count=1))
        if kinds != [duckdb.StatementType.SELECT]:
            raise SqlError(NO_QUERY)
        return text, used

    def _kinds(self, text: str) -> list[Any]:
        try:
            return [statement.type for statement in self.lake.connection.extract_statements(text)]
        except ValueError:
            return []  # a kind without a name in Python, as UPDATE EXTENSIONS


@contextmanager
def _refusals(location: str) -> Iterator[None]:
    """Within the block, turns errors of DuckDB and deltalake into SqlError or KgroupsError."""
    duckdb = uninterrupted(lambda: import_module("duckdb"))

    with _delta_refusal(location):
        try:
            yield
        except duckdb.Error as error:
            if read := _READING.search(str(error)):
                raise KgroupsError(_unreadable(location, f"table {read[1]}: {read[2]}")) from error
            # If one of our functions raised it, the message is ours.
            lines = str(error).removeprefix("Invalid Input Error: ").expandtabs(4).split("\n")
            raise SqlError(*lines, is_of_name=lines[0].startswith("Catalog Error: ")) from error


def duckdb_reader(location: str, *, must: bool, say: Callable[[str], object] = lambda _: None) -> DuckDbReader | None:
    """The lake, or None (with `must`: KgroupsError) if DuckDB cannot read it; `say` gets a reason in the lake."""
    reason = _why_not(location, must)
    if reason is None:
        from deltalake.exceptions import DeltaError

        try:
            # deltalake does not know Hadoop's file:/x.
            return DuckDbReader(DuckDbLake(re.sub("^file:/+", "/", location)))
        except pa.ArrowInvalid as error:
            raise KgroupsError(_unreadable(location, error)) from error
        except (DeltaError, OSError) as error:
            reason = f"the reader of Delta says: {_in_one_line(error)}"
            if not must:
                say(f"DuckDB cannot read the lake ({reason}), so Spark reads it")
    if must:
        raise KgroupsError(f"the lake at {location} cannot be read by DuckDB: {reason}")
    return None


def _why_not(location: str, must: bool) -> str | None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed ({how_to_install('read')})"
    # Only Hadoop's settings may have a store's credentials. Our own session has those of AWS's tools, as deltalake.
    if not must and ":" in location and not location.startswith("file:") and may_have_catalog():
        return "it lies in an object store"
    return None


@contextmanager
def _delta_refusal(location: str) -> Iterator[None]:
    """Within the block, raises KgroupsError for a lake that deltalake cannot read, or that lacks a file."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except DeltaError as error:
        raise KgroupsError(
            f"the lake at {location} cannot be read without Spark: {_in_one_line(error)}; --engine spark reads it"
        ) from error
    except (OSError, pa.ArrowInvalid) as error:  # ArrowInvalid: a file that is no Parquet any more
        raise KgroupsError(_unreadable(location, error)) from error


# DuckDB's error for a failure of the Arrow dataset of a table, which Python's own error follows once more.
_READING = re.compile(r"reading the stream registered as '(\w+)' failed: (.+?)(?:\. Detail: |\Z)", re.DOTALL)


def _unreadable(location: str, reason: object) -> str:
    said = _in_one_line(reason)
    hint = "; if maintenance has deleted files since the lake was opened, open it again" if _GONE.search(said) else ""
    return f"the lake at {location} cannot be read: {said}{hint}"


_GONE = re.compile(r"Object at .* not found|No such file")


def _in_one_line(said: object) -> str:
    """The text of an error without the colours, the lines and the stack of deltalake's."""
    text, *_ = re.split(r"\n\s*0: ", re.sub(r"\x1b\[[0-9;]*m", "", str(said)))
    return " ".join(text.split())


_BLANK = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
# EXPLAIN with its options, which are words in parentheses.
_EXPLAIN = re.compile(rf"^{_BLANK}*EXPLAIN\b(?:{_BLANK}*(?:ANALYZE\b|\([\s\w,]*\)))*", re.IGNORECASE | re.DOTALL)


def _with_dollars(query: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The query with :name as DuckDB's $name, and only the parameters that it uses, because DuckDB refuses others."""
    used: dict[str, Any] = {}

    def dollar(found: re.Match[str]) -> str:
        name = found[1]
        if name is None or name not in parameters:
            return found[0]
        used[name] = parameters[name]
        return f"${name}"

    return PARAMETER[DuckDbReader.engine].sub(dollar, query), used
