"""A lake read by DuckDB, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgroups_spark.errors import KgroupsError
from kgroups_spark.extras import how_to_install, may_have_catalog
from kgroups_spark.interruption import run_interruptibly
from kgroups_spark.reading.reader import NO_QUERY, PARAMETER, ROWS_AT_ONCE, LakeReader, SqlError
from kgroups_spark.tables.conditions import Condition

if TYPE_CHECKING:
    from kgroups_spark.views.duckdb_views import DuckDbLake

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
            yield pa.RecordBatch.from_pylist([], answer.schema)
            while (batch := run_interruptibly(lambda: next(answer, None), interrupt)) is not None:
                yield batch

    def _as_typed(self, query: str, parameters: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
        """The query and its parameters for DuckDB. Raises SqlError if the text is not a query."""
        text, used = _with_dollars(query, parameters or {})
        self._require_query(text)
        return text, used

    def _require_query(self, text: str) -> None:
        """Raises SqlError unless the text is one query or EXPLAIN of one: EXPLAIN ANALYZE would run any statement. The
        connection restricts the files that a query may reach (duckdb_views.NO_FILES)."""
        import duckdb

        kinds = self._kinds(text)
        if kinds == [duckdb.StatementType.EXPLAIN]:
            kinds = self._kinds(_EXPLAIN.sub("", text, count=1))
        if kinds != [duckdb.StatementType.SELECT]:
            raise SqlError(NO_QUERY)

    def _kinds(self, text: str) -> list[Any]:
        try:
            return [statement.type for statement in self.lake.connection.extract_statements(text)]
        except ValueError:
            return []  # a kind without a name in Python, as UPDATE EXTENSIONS


@contextmanager
def _refusals(location: str) -> Iterator[None]:
    """Within the block, turns errors of DuckDB and deltalake into SqlError or KgroupsError."""
    import duckdb

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
    """The lake, or None if DuckDB cannot read it; `say` gets the reason if it is in the lake. With `must`, raises
    KgroupsError with the reason instead."""
    reason = _why_not(location, must)
    if reason is None:
        from deltalake.exceptions import DeltaError

        from kgroups_spark.views.duckdb_views import DuckDbLake

        try:
            with _damage(location):
                # deltalake does not know Hadoop's file:/x.
                return DuckDbReader(DuckDbLake(re.sub("^file:/+", "/", location)))
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
    # Only Hadoop's settings may have the endpoint and the credentials of an object store. Our own session has those of
    # AWS's tools, as deltalake has.
    if not must and ":" in location and not location.startswith("file:") and may_have_catalog():
        return "it lies in an object store"
    return None


@contextmanager
def _delta_refusal(location: str) -> Iterator[None]:
    """Within the block, raises KgroupsError for a lake that deltalake cannot read, or that lacks a file."""
    from deltalake.exceptions import DeltaError

    try:
        with _damage(location):
            yield
    except DeltaError as error:
        raise KgroupsError(
            f"the lake at {location} cannot be read without Spark: {_in_one_line(error)}; --engine spark reads it"
        ) from error
    except OSError as error:
        raise KgroupsError(_unreadable(location, error)) from error


@contextmanager
def _damage(location: str) -> Iterator[None]:
    """Within the block, raises KgroupsError for a file that is no Parquet any more, which no engine can read."""
    try:
        yield
    except pa.ArrowInvalid as error:
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
