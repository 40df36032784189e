"""Every table of the lake, by name: its meaning, its columns, its key, and the columns with file statistics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow as pa

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.tables.columns import TYPES, array, delta_schema, map_of, without_comments
from kgroups_spark.tables.definitions import DEFINITIONS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


Kind = Literal["history", "current", "ledger", "internal"]


@dataclass(frozen=True)
class Table:
    """One table. Audits append to history and ledger, and rewrite current; internal is not for users."""

    name: str
    kind: Kind
    columns: pa.Schema  # with comments
    key: tuple[str, ...]
    comment: str
    statistics: tuple[str, ...]

    @cached_property
    def schema(self) -> StructType:
        """The columns for Spark."""
        from kgroups_spark.tables.spark_types import spark_schema

        return spark_schema(self.columns)

    @property
    def schema_json(self) -> str:
        """The columns for Delta's log."""
        return json.dumps(delta_schema(self.columns), separators=(",", ":"), sort_keys=True)


GROUP = ("offsets_partition", "group_id")
SLOT = (*GROUP, "topic", "partition")
CHECKPOINTS = "checkpoints"
_PLACES = ("offsets_partition", "state_partition", "log_offset", "log_timestamp")
_OF_HISTORY: tuple[str, ...] = (*_PLACES, "group_id", "transactional_id")
# The tables that together are the log: each record that was read is in exactly one of them.
LOG_TABLES = ("offset_commits", "group_records", "transaction_markers", "quarantine")


_HEAD = re.compile(r"(?:struct|(\w+)) (\w+)(?: \((.*?)\): (.*))?")
_COLUMN = re.compile(r"(\w+) ([\w<>, ]+?)( NOT NULL)?: (.*)")
_INHERITED = re.compile(r"(?:columns|(.*)) of (\w+)(?: but (.*))?")
_NESTED = re.compile(r"(ARRAY|MAP)<(?:STRING, )?(.*)>")
# The lines of each table and struct; a line that is indented continues the one before.
_BLOCKS = [block.splitlines() for block in DEFINITIONS.strip().replace("\n  ", " ").split("\n\n")]
_LINES = {lines[0].split(" ")[1]: lines[1:] for lines in _BLOCKS}

T = TypeVar("T")


def inherited(line: str, columns_of: Callable[[str], Mapping[str, T]]) -> dict[str, T]:
    """The columns that a line takes from another table: `a, b of other`, `columns of other but a, b`. Raises ValueError
    for a line of another form, KeyError for an unknown column."""
    found = _INHERITED.fullmatch(line)
    if found is None:
        raise ValueError(f"no line of a definition has this form: {line}")
    named, other, left_out = found.groups()
    columns, without = columns_of(other), (left_out or "").split(", ")
    return {name: columns[name] for name in (named.split(", ") if named else columns) if name not in without}


@cache
def _columns(name: str) -> dict[str, pa.Field]:
    """The columns of a table, or the fields of a struct."""
    found: dict[str, pa.Field] = {}
    for line in _LINES[name]:
        if own := _COLUMN.fullmatch(line):
            column, data_type, is_required, comment = own.groups()
            found[column] = pa.field(column, _type(data_type), not is_required, {"comment": comment})
        else:
            columns = inherited(line.removeprefix("nullable "), _columns)
            is_nullable = line.startswith("nullable ")
            found |= {name: field.with_nullable(True) if is_nullable else field for name, field in columns.items()}
    return found


def _type(text: str) -> pa.DataType:
    if nested := _NESTED.fullmatch(text):
        return (array if nested[1] == "ARRAY" else map_of)(_type(nested[2]))
    return TYPES[text] if text in TYPES else pa.struct(_columns(text).values())


def _table(kind: Any, name: str, key_names: str, comment: str) -> Table:
    columns, key = pa.schema(_columns(name).values()), tuple(key_names.split(", "))
    # audit_id identifies the rows of an unfinished audit.
    statistics = key[:1] if kind == "current" else _OF_HISTORY if kind == "history" else ("offsets_partition",)
    if name == CHECKPOINTS:
        statistics += ("reason",)
    statistics = tuple(each for each in ("audit_id", *statistics) if each in columns.names)
    return Table(name, kind, columns, key, comment, statistics)


TABLES: dict[str, Table] = {
    name: _table(kind, name, key, comment)
    for kind, name, key, comment in (_HEAD.fullmatch(lines[0]).groups() for lines in _BLOCKS)  # type: ignore[union-attr]
    if kind
}
# An entry of a saved state that is one offset has these columns, others have a payload.
STATE_OFFSET = TABLES[CHECKPOINTS].columns.names[TABLES[CHECKPOINTS].columns.names.index("topic") :]


# The two logs as the lake holds them.
STATE_LOG_HISTORY = ("share_group_state_records", "transaction_state_records", "state_quarantine")
# The tables of __share_group_state and __transaction_state (audit/result.py).
STATE_LOG_TABLES = (
    *STATE_LOG_HISTORY,
    *("state_events", "share_partitions", "share_batches", "transactional_ids", "state_log_state"),
)


@cache
def arrow_schema(name: str) -> pa.Schema:
    """The table's columns for Arrow: the same names, order and nullability, times as timestamp('us', 'UTC')."""
    return without_comments(TABLES[name].columns)


# The layout of the tables: raised when they change in a way that older software would misread.
LAKE_VERSION = 1
LAKE_VERSION_PROPERTY = "kgroups.lakeVersion"

# The folder for task output that is not yet in a table. Spark and Delta ignore folders that begin with an underscore.
WORK_FOLDER = "_work"


def lake_version_in(properties: Mapping[str, str | None]) -> int:
    """The layout in a table's properties; 0: none, as for a foreign table `audits`."""
    said = properties.get(LAKE_VERSION_PROPERTY) or ""
    return int(said) if said.isdecimal() else 0


def require_known_version(location: str, version: int) -> None:
    """Raises UsageError for a location that is not a lake, KgroupsError for a lake of another version."""
    if version == 0:
        raise UsageError(
            f"{location} is not a lake: its table audits has no property {LAKE_VERSION_PROPERTY}, which kgroups audit "
            "sets; name another location"
        )
    if version != LAKE_VERSION:
        raise KgroupsError(
            f"the lake at {location} has layout {version}; this version of kgroups-spark knows {LAKE_VERSION}: "
            "use the version that wrote it"
        )


def require_nothing_else(location: str, names: Iterable[str], an_empty_one: str) -> None:
    """Raises UsageError for the location of a new lake that holds more than an earlier attempt left."""
    if strangers := sorted(set(names) - set(TABLES) - {WORK_FOLDER}):
        raise UsageError(
            f"{location} is neither a lake nor empty: it holds {', '.join(strangers[:3])}; name {an_empty_one}"
        )


def is_path(location: str) -> bool:
    """A path has a slash or a scheme, or exists; anything else is `catalog.schema`."""
    return "/" in location or ":" in location or Path(location).exists()
