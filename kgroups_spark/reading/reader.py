"""A lake that is open for reading: the interface for all commands that print rows.

DuckDB reads a lake in a folder, without Spark: an answer takes about a second. Spark reads a lake in a catalog, or one
that DuckDB's reader of Delta does not support; that takes about ten seconds. The rows are the same.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.last_finished import IS_FINISHED
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.times import format_utc, to_epoch_ms

Row = dict[str, Any]
Rows = list[Row]

# The number of rows of a large answer that are Python objects at once.
ROWS_AT_ONCE = 16_384


class SqlError(KgroupsError):
    """A query that the engine refused, with its message but not its stack trace. `is_of_name`: it does not know a name
    in it."""

    def __init__(self, *lines: str, is_of_name: bool = False) -> None:
        super().__init__(*lines)
        self.is_of_name = is_of_name


NO_QUERY = (
    "this is not one query: only SELECT, WITH, VALUES, DESCRIBE, SHOW and EXPLAIN run, and nothing here changes a lake"
)


# In each dialect a text, a quoted name, a comment, a cast, or a parameter. Only a parameter has a capturing group.
# DuckDB's e'...' has escapes, and $$...$$ is a text, too.
_NO_TEXT = r"--[^\n]*|/\*.*?\*/|::|:([A-Za-z_]\w*)"
PARAMETER = {
    "duckdb": re.compile(
        rf"""\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\$.*?\$\$|{_NO_TEXT}""", re.DOTALL
    ),
    "spark": re.compile(rf"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|{_NO_TEXT}""", re.DOTALL),
}


def parameters_in(query: str, engine: Literal["duckdb", "spark"]) -> list[str]:
    """The names that are in the query as :name, each once."""
    return list(dict.fromkeys(filter(None, PARAMETER[engine].findall(query))))


class LakeReader(ABC):
    """The tables, views and functions as of the last finished audit, and that audit's row of the ledger.

    Rows are dicts: times as aware UTC datetimes, structs and maps as dicts, lists as lists, whole numbers as int; the
    same by both engines.
    """

    engine: Literal["duckdb", "spark"]
    location: str

    @abstractmethod
    def table_rows(
        self, table: str, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = ()
    ) -> pa.Table:
        """These columns (None: all) of the rows of a table that meet all conditions, in no order. Files and row groups
        without such a row are not read."""

    def rows(self, table_or_view: str) -> Rows:
        """All rows of a small table or view, in no order."""
        if table_or_view in TABLES:
            return to_rows(self.table_rows(table_or_view))
        return self.sql(f"SELECT * FROM {table_or_view}")

    @property
    @abstractmethod
    def audit_id(self) -> int:
        """The number of the last finished audit; 0: none has."""

    @abstractmethod
    def arrow(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """A query's answer as Arrow, otherwise as `sql`. Raises SqlError, also if the text is not a query."""

    def batches(self, query: str, parameters: Mapping[str, Any] | None = None) -> Iterator[pa.RecordBatch]:
        """A query's answer batch by batch, for answers that are too large for Python objects; otherwise as `arrow`. The
        reader accepts no other query before the last batch. The first one is empty: it has the names."""
        found = self.arrow(query, parameters)
        yield from (pa.RecordBatch.from_pylist([], found.schema), *found.to_batches(max_chunksize=ROWS_AT_ONCE))

    def stream(self, query: str, parameters: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """The rows of `batches`, some at a time."""
        for batch in self.batches(query, parameters):
            yield from to_rows(pa.Table.from_batches([batch]))

    def answer(self, query: str, parameters: Mapping[str, Any] | None = None) -> tuple[list[str], Iterator[Row]]:
        """The names of the answer's columns, and its rows as in `stream`."""
        batches = self.batches(query, parameters)
        first = next(batches)
        return first.schema.names, (
            row for batch in chain([first], batches) for row in to_rows(pa.Table.from_batches([batch]))
        )

    def ask(self, query: str, parameters: Mapping[str, Any], *, times_as_text: bool = False) -> Iterator[Row]:
        """The rows of a query of ours, in DuckDB's dialect, some at a time."""
        for batch in self.batches(self.translated(query), parameters):
            yield from to_rows(pa.Table.from_batches([batch]), times_as_text=times_as_text)

    def translated(self, query: str) -> str:
        """A query in DuckDB's dialect, for this engine."""
        return query

    def sql(self, query: str, **parameters: Any) -> Rows:
        """A query's answer, over tables, views and functions.

        Parameters appear in it as :name; they are str, int, bool, None, datetime with a zone, or a list of str. The
        text must be valid in both dialects. Raises SqlError.
        """
        return to_rows(self.arrow(query, parameters))

    @cached_property
    def last_audit(self) -> dict[str, Any]:
        """The ledger's row of the last finished audit. Raises KgroupsError if there is none."""
        rows = self.ledger_rows([Condition("audit_id", "==", self.audit_id), IS_FINISHED])
        if not rows:
            raise KgroupsError(f"the lake at {self.location} has no finished audit: run kgroups audit first")
        return rows[0]

    def ledger_rows(self, conditions: Sequence[Condition], columns: Sequence[str] | None = None) -> Rows:
        """Rows of the ledger, by number. All audits may have any number of rows: callers should ask for few rows, or
        for few columns."""
        return to_rows(self.table_rows("audits", columns, conditions).sort_by("audit_id"))

    def require_audit(self) -> None:
        """Raises KgroupsError, before anything is printed, if no audit has finished."""
        _ = self.last_audit

    @property
    def as_of_ms(self) -> int:
        """`as_of` of the last audit, at which it decided expiry, in epoch ms."""
        return to_epoch_ms(self.last_audit["as_of"])

    def known_as_of(self) -> str:
        """The audit of the rows and its as_of, for a heading."""
        audit = self.last_audit
        return f"audit {audit['audit_id']}, as of {format_utc(audit['as_of'])}"


def to_rows(table: pa.Table, *, times_as_text: bool = False) -> Rows:
    """The rows in order: times as UTC datetimes, or as text of `format_time`, which is cheaper here than either step
    later; structs and maps as dicts, whole numbers as int."""
    names = table.schema.names
    columns = (_values(column, times_as_text) for column in table.columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_rows(table: pa.Table) -> Rows:
    """The rows of any answer, as in `to_rows`. Raises KgroupsError for a value without a Python type: a time outside
    the years 1 to 9999, a map with lists as keys."""
    try:
        return to_rows(table)
    except (OverflowError, TypeError, ValueError, pa.ArrowException) as error:
        name = next((name for name in table.schema.names if _has_no_values_for_python(table.select([name]))), "?")
        raise KgroupsError(
            f'column "{name}" has a value that cannot be shown, such as a time outside the years 1 to 9999; '
            "CAST(... AS VARCHAR) shows it"
        ) from error


def _has_no_values_for_python(column: pa.Table) -> bool:
    try:
        to_rows(column)
    except (OverflowError, TypeError, ValueError, pa.ArrowException):
        return True
    return False


def _values(column: pa.ChunkedArray, times_as_text: bool) -> list[Any]:
    """A column's values, as in `to_rows`. pyarrow converts them one by one, which takes several times as long."""
    if column.null_count == len(column):
        return [None] * len(column)
    if column.type == pa.timestamp("us", "UTC"):
        return _time_texts(column) if times_as_text else _times(column)
    if pa.types.is_string(column.type) or (pa.types.is_integer(column.type) and not column.null_count):
        return list(column.to_numpy().tolist())
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    if pa.types.is_interval(column.type):
        return [_without_months(value) for value in values]
    if pa.types.is_decimal(column.type) and column.type.scale == 0:  # DuckDB's sums of whole numbers
        return [None if value is None else int(value) for value in values]
    return values


def _without_months(value: pa.MonthDayNano | None) -> pa.MonthDayNano | timedelta | None:
    """DuckDB's interval as a timedelta, as Spark has it, if it is one. A difference of times is always one."""
    if value is None or value.months:
        return value
    return timedelta(days=value.days, microseconds=value.nanoseconds // 1000)


def _times(column: pa.ChunkedArray) -> list[datetime | None]:
    """The column's times as UTC datetimes. Raises pyarrow's error for a time outside the range of datetime."""
    times = column.to_numpy().tolist()
    if int in set(map(type, times)):
        return list(column.to_pylist())
    return [None if at is None else at.replace(tzinfo=UTC) for at in times]


def _time_texts(column: pa.ChunkedArray) -> list[str | None]:
    texts = np.datetime_as_string(column.to_numpy(), "ms", timezone="UTC").tolist()
    return [None if text == "NaT" else text for text in texts]
