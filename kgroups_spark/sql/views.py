"""Views and functions over the tables of a lake, as SQL in DuckDB's dialect. Each has a file in `sql/definitions/`,
whose head describes it and its columns. Spark's SQL is translated from it when a session needs it (spark_sql.py).
Views of record types have no files: their SQL is generated from Kafka's message definitions.

    register_views(spark, lake)     temporary views of a Spark session
    duckdb_views("./lake")          a DuckDB connection, over deltalake; no Spark, no JVM

Both first make a view of every table, as the last finished audit left it: a reader never sees half an audit, and the
answers stay the same until the views are registered again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple

from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS, OFFSET_COMMIT_TYPES, RecordType
from kgroups_spark.messages.group_metadata import PROTOCOLS
from kgroups_spark.messages.schema import Field
from kgroups_spark.messages.schema import definition as message_definition
from kgroups_spark.package_data import package_text
from kgroups_spark.tables.columns import comment_of, type_name
from kgroups_spark.tables.schemas import TABLES, inherited
from kgroups_spark.words import LAST_MS

# The definition of a view or function: the head of its SQL file, and the query below it.
#
#     -- The rows of the view.
#     --
#     -- argument ts TIMESTAMP: a function's argument, with its type; ts TIMESTAMP = NULL: one that may be left out
#     -- returns INT
#     -- offsets_partition, group_id of committed_offsets
#     -- columns of group_versions but is_removed
#     -- state: the meaning of this column
#     -- known STRING: the meaning of this column
#
#     SELECT ...
#
# Columns are in their order; other columns of the query are left out. Columns of another table, view or function have
# the type and the comment that they have there. One that is named again keeps its position and gets another comment. A
# function that `returns` no type is a table function, each of whose columns has a type.


class Column(NamedTuple):
    """A column or argument. `type`: Spark's name; None: the query's. `default`: SQL, it may be left out."""

    comment: str
    type: str | None = None
    default: str | None = None


Columns = Mapping[str, Column]


class Definition(NamedTuple):
    """A view, or a function of `arguments` (None: a view); with `returns` it is scalar. `query` is DuckDB's SQL."""

    comment: str
    columns: Columns
    query: str
    arguments: Columns | None = None
    returns: str | None = None


_OWN = re.compile(r"(argument )?(\w+)(?: ([A-Z][A-Z ]*?))?(?: = (.*?))?: (.*)")
_RETURNS = re.compile(r"returns (\w+)")


def parsed(text: str, columns_of: Callable[[str], Columns], *, is_function: bool) -> Definition:
    """The definition in a file. `columns_of`: the columns of another table, view or function. Raises ValueError for a
    line of the head in none of these forms, KeyError for an unknown column."""
    head, query = text.split("\n\n", 1)
    lines = [line.removeprefix("--").strip() for line in head.splitlines()]
    arguments: dict[str, Column] = {}
    columns: dict[str, Column] = {}
    returns = None
    for line in lines[2:]:
        if own := _OWN.fullmatch(line):
            argument, name, data_type, default, comment = own.groups()
            named = arguments if argument else columns
            known = named[name].type if name in named else None
            named[name] = Column(comment, data_type or known, default)
        elif found := _RETURNS.fullmatch(line):
            returns = found[1]
        else:
            columns |= inherited(line, columns_of)
    return Definition(lines[0], columns, query.strip(), arguments if is_function else None, returns)


NULL = "NULL"


def literal(text: str) -> str:
    """A text as a literal in SQL. It must have no backslash, which Spark would take for an escape; none of ours has."""
    return "'" + text.replace("'", "''") + "'"


def signature(definition: Definition) -> str:
    """A function's arguments, as SQL of DuckDB."""
    arguments = (definition.arguments or {}).items()
    return ", ".join(f"{name} := NULL" if argument.default == NULL else name for name, argument in arguments)


def _rows(columns: Columns, query: str) -> str:
    """The query of a view or table function, with the columns of its head alone, in their order."""
    names = ", ".join(f'"{name}"' for name in columns)
    return f"SELECT {names}\nFROM (\n{query}\n)"


def duckdb_statement(name: str, definition: Definition) -> str:
    """The statement that creates the view or function in DuckDB, without its comments."""
    if definition.arguments is None:
        return f"CREATE OR REPLACE VIEW {name} AS\n{_rows(definition.columns, definition.query)};"
    head = f"CREATE OR REPLACE MACRO {name}"
    if definition.returns is None:
        return f"{head}({signature(definition)}) AS TABLE\n{_rows(definition.columns, definition.query)};"
    forms = ",\n".join(f"({signature(form)}) AS (\n{form.query}\n)" for form in _forms(definition))
    return f"{head}\n{forms};"


def duckdb_comments(name: str, definition: Definition) -> str:
    """The statements that comment the view or function in DuckDB, and the view's columns."""
    comment = literal(definition_comment(definition))
    if definition.arguments is not None:
        kind = "MACRO TABLE" if definition.returns is None else "MACRO"
        return f"COMMENT ON {kind} {name} IS {comment};"
    of_columns = (
        f'COMMENT ON COLUMN {name}."{column}" IS {literal(reported.comment)};'
        for column, reported in definition.columns.items()
    )
    return "\n".join((f"COMMENT ON VIEW {name} IS {comment};", *of_columns))


def _forms(definition: Definition) -> Iterator[Definition]:
    """The macro with all arguments, and the macro without the last one if that has a default. If the first form had the
    default, DuckDB 2.0 would take columns of the default's tables for the arguments."""
    yield definition
    arguments = dict(definition.arguments or {})
    if arguments:
        name, argument = arguments.popitem()
        if argument.default is not None:
            yield definition._replace(arguments=arguments, query=_put(argument.default, name, definition.query))


def _put(expression: str, name: str, query: str) -> str:
    """The query with the expression in place of each occurrence of the name."""
    return re.sub(rf"\b{name}\b", expression, query)


def definition_comment(definition: Definition) -> str:
    """The comment, with those of the arguments, because DuckDB has no comments on a macro's arguments."""
    arguments = (definition.arguments or {}).items()
    return definition.comment + "".join(f". {name}: {argument.comment}" for name, argument in arguments)


def spark_statement(name: str, definition: Definition) -> str:
    """The statement that creates the view or function in a session of Spark 4."""
    # Imported here, because it imports sqlglot, which DuckDB does not need.
    from kgroups_spark.sql.spark_sql import spark_sql

    reported, query = f"COMMENT {literal(definition.comment)}", _with_defaults(definition)
    query = spark_sql(_rows(definition.columns, query) if definition.returns is None else query)
    if definition.arguments is None:
        # A view's columns have the types of its query.
        columns = {column: its._replace(type=None) for column, its in definition.columns.items()}
        return f"CREATE OR REPLACE TEMPORARY VIEW {name} {_spark_columns(columns)}\n{reported}\nAS\n{query}"
    head = f"CREATE OR REPLACE TEMPORARY FUNCTION {name}{_spark_columns(definition.arguments)}"
    if definition.returns is not None:
        return f"{head}\nRETURNS {definition.returns}\n{reported}\nRETURN (\n{query}\n)"
    return f"{head}\nRETURNS TABLE {_spark_columns(definition.columns)}\n{reported}\nRETURN\n{query}"


def _with_defaults(definition: Definition) -> str:
    """The query with the defaults of omitted arguments: in Spark a default has to be a constant, so it is null."""
    query = definition.query
    for name, argument in (definition.arguments or {}).items():
        if argument.default not in (None, NULL):
            query = _put(f"coalesce({name}, {argument.default})", name, query)
    return query


def _spark_columns(columns: Columns) -> str:
    lines = []
    for name, column in columns.items():
        words = [f"  `{name}`", column.type, "DEFAULT NULL" if column.default else None]
        lines.append(" ".join((*filter(None, words), "COMMENT", literal(column.comment))))
    return "(\n" + ",\n".join(lines) + "\n)"


# Fields whose bytes are a message of clients' protocols, by record type (messages/group_metadata.py): the field with
# the protocol type (None: always the first protocol), and the message of each protocol.
BLOBS: dict[tuple[int, tuple[str, ...]], tuple[str | None, dict[str, str]]] = {
    (2, ("members", "subscription")): ("protocolType", {name: both[0] for name, both in PROTOCOLS.items()}),
    (2, ("members", "assignment")): ("protocolType", {name: both[1] for name, both in PROTOCOLS.items()}),
    (5, ("classicMemberMetadata", "supportedProtocols", "metadata")): (None, {"consumer": PROTOCOLS["consumer"][0]}),
}


class JsonField(NamedTuple):
    """A field of the JSON. `type`: one of definition.SCALARS, "time" (ms since 1970), or "struct" with `fields`."""

    key: str
    type: str
    is_array: bool = False
    fields: tuple[JsonField, ...] = ()
    may_be_null: bool = False
    # First version of the message that has it; None: all have.
    since: int | None = None
    # The layouts that have it; None: all.
    layouts: tuple[str, ...] | None = None
    # For a parsed blob: the field with the protocol type, and the fields of each protocol's message.
    protocol_key: str | None = None
    protocols: tuple[tuple[str, tuple[JsonField, ...]], ...] = ()

    @property
    def has_blobs(self) -> bool:
        return bool(self.protocols) or any(field.has_blobs for field in self.fields)


def value_fields(kind: RecordType) -> tuple[JsonField, ...]:
    """The fields of a record type's value in any layout, the released one's first. Raises ValueError if one has two
    types."""
    names = tuple(message.layout for message in kind.layouts)
    found: dict[str, JsonField] = {}
    for message in kind.layouts:
        for field in _fields(message.fields, message.versions, kind.number if not message.layout else None):
            known = found.get(field.key)
            layouts = (*((known.layouts or ()) if known else ()), message.layout)
            found[field.key] = _merged(known or field, field)._replace(layouts=layouts)
    return tuple(f._replace(layouts=None) if f.layouts == names else f for f in found.values())


def _fields(
    fields: Sequence[Field], versions: range, number: int | None, path: tuple[str, ...] = ()
) -> list[JsonField]:
    """Fields of a message or struct that exists in `versions`. `number`: record type; None: blobs stay bytes."""
    found = []
    for field in fields:
        here = (*path, field.name)
        if field.versions.stop < versions.stop:
            raise ValueError(f"{field.name} is gone from version {field.versions.stop} on: no such field was known")
        if number is not None and (number, here) in BLOBS:
            found += _blob(field.name, *BLOBS[number, here])
            continue
        since = field.versions.start if field.versions.start > versions.start else None
        own = range(max(field.versions.start, versions.start), versions.stop)
        found.append(
            JsonField(
                field.name,
                _type(field),
                field.is_array,
                tuple(_fields(field.fields, own, number, here)),
                may_be_null=bool(field.nullable),
                since=since,
            )
        )
    return found


def _type(field: Field) -> str:
    if field.fields:
        return "struct"
    is_time = field.element == "int64" and field.name.lower().endswith("timestamp")
    return "time" if is_time else field.element


def _blob(key: str, protocol_key: str | None, messages: dict[str, str]) -> list[JsonField]:
    """The field of the parsed blob, with the fields of all protocols, and the field of the blob as bytes."""
    # Before the message is its version, which may be above the known ones.
    version = JsonField("version", "int16")
    known = {protocol: message_definition(name) for protocol, name in messages.items()}
    protocols = tuple((name, (version, *_fields(of.fields, of.versions, None))) for name, of in known.items())
    every = _united(field for _, fields in protocols for field in fields)
    read = JsonField(key, "struct", fields=every, protocol_key=protocol_key, protocols=protocols)
    return [read, JsonField(f"{key}Raw", "bytes")]


def _united(fields: Iterable[JsonField]) -> tuple[JsonField, ...]:
    """The fields without repetition; fields with the same key are merged."""
    found: dict[str, JsonField] = {}
    for field in fields:
        found[field.key] = _merged(found.get(field.key, field), field)
    return tuple(found.values())


def _merged(one: JsonField, other: JsonField) -> JsonField:
    """A field of two layouts, or of two protocols. Raises ValueError if their types differ."""
    if (one.type, one.is_array) != (other.type, other.is_array):
        raise ValueError(f"{one.key} is {one.type} in one layout and {other.type} in another")
    return one._replace(fields=_united((*one.fields, *other.fields)))


# A view with typed columns for every record type from 2 to 23. Its SQL is generated from Kafka's message definitions.
#
# A view has the name of its record type, in snake_case, with `_records`: consumer_group_member_metadata_records. A row
# is a row of `group_records`, tombstones included. Columns are the fields of key and value, named and nested as in
# Kafka's message files, in snake_case, with the contents of the record:
#
# - numbers are unchanged, int64 exact, including Kafka's -1 for none; bytes are BINARY, uuids Kafka's text;
# - an int64 that is a time is TIMESTAMP, null at or before 1970 (none) and outside TIMESTAMP's range;
# - null: a tombstone, a version or layout without the field, or a field that the message file allows to be null;
# - if the type had another layout in an early-access release under the same version (T58), the view has the fields of
#   both, and `layout` is the one that the decoder found;
# - client protocol data inside a field is a struct for each protocol, under the field's name for that of consumers. It
#   is bytes, in the column with `_raw`, if the protocol is another one or the bytes cannot be read.
#
# A condition on a column that is passed through (offsets_partition, log_offset, group_id, ...) reaches the files, as in
# `group_records`.


RELEASED = "released"

# DuckDB's types for fields of the JSON; others are VARCHAR.
TYPES = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "uint16": "INTEGER",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "time": "BIGINT",
}


def snake_case(name: str) -> str:
    """`subscribedTopicNames` as subscribed_topic_names."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# By view name, in the order of the record types' numbers.
RECORD_VIEWS: dict[str, RecordType] = {
    f"{snake_case(kind.name)}_records": kind
    for number, kind in CONSUMER_OFFSETS.items()
    if number not in OFFSET_COMMIT_TYPES
}

BLOBS_ARE = (
    "its client protocol data is a struct for each protocol (the field's name alone: consumers'), or bytes, in the "
    "column with _raw, if the protocol is another one or they cannot be read"
)


class _Selected(NamedTuple):
    """A column of a view."""

    name: str
    expression: str
    comment: str


class _RecordView:
    """The parts of one view's SQL."""

    def __init__(self, name: str, kind: RecordType) -> None:
        self.name = name
        self.kind = kind
        self.fields = value_fields(kind)
        self.has_layouts = len(kind.layouts) > 1

    def definition(self) -> Definition:
        columns = [*_PLACE, *self._key(), *self._value(), *_PRODUCER]
        comments = {column.name: Column(column.comment) for column in columns}
        if len(comments) < len(columns):
            raise ValueError(f"{self.name} would have two columns of one name: {[column.name for column in columns]}")
        comment = f"{self.kind.name}: records of type {self.kind.number} and their tombstones, from group_records"
        selected = ",\n".join(f"  {column.expression} AS {_quoted(column.name)}" for column in columns)
        return Definition(comment, comments, f"SELECT\n{selected}\nFROM (\n{self._source()}\n)")

    def _source(self) -> str:
        """The rows of group_records with the value's fields in `v`."""
        read = f"from_json(value, {literal(json.dumps(_structure(self.fields)))})"
        source = f"  SELECT *, {read} AS v\n  FROM group_records\n  WHERE record_type = {self.kind.number}"
        return f"  SELECT *, {self._layout()} AS layout\n  FROM (\n{source}\n  )" if self.has_layouts else source

    def _layout(self) -> str:
        """The layout of a record, by the rule of layout_of in messages/coordinator_records.py."""
        # Imported here: the decoder's imports take a third of a second, and few queries need such a view.
        from kgroups_spark.messages.coordinator_records import EARLY_ACCESS

        cases = []
        for layout, keys, missing in EARLY_ACCESS[self.kind.number]:
            conditions = [f"json_keys(value) = [{', '.join(map(literal, (*keys, *missing)))}]"]
            for key, absent in missing.items():
                at = _at("v", key)
                conditions.append(f"{at} IS NULL" if absent is None else f"array_length({at}) = 0")
            cases.append(f"WHEN {' AND '.join(conditions)} THEN {literal(layout)}")
        return f"CASE {' '.join(cases)} WHEN value IS NOT NULL THEN {literal(RELEASED)} END"

    def _key(self) -> list[_Selected]:
        columns = []
        for field in self.kind.key.fields:
            name = "group_id" if field.name == "group" else snake_case(field.name)
            columns.append(_Selected(name, name, f"Field {field.name} of {self.kind.key.name}"))
        columns.append(_Selected("value_version", "value_version", "Version of the value; null: tombstone"))
        columns.append(_Selected("is_tombstone", "value_version IS NULL", "The record removes the entry of its key"))
        if self.has_layouts:
            layouts = ", ".join((RELEASED, *(message.layout for message in self.kind.layouts[1:])))
            reported = f"Layout of the value, of releases or of an early-access release: {layouts}; null: tombstone"
            columns.append(_Selected("layout", "layout", reported))
        return columns

    def _value(self) -> list[_Selected]:
        return [
            _Selected(snake_case(field.key), self._expression(field, "v", "value_version"), self._comment(field))
            for field in self.fields
        ]

    def _comment(self, field: JsonField) -> str:
        null = ["tombstone"]
        if field.since is not None:
            null.append(f"a version below {field.since}")
        if field.layouts is not None:
            null.append(f"another layout than {' and '.join(layout or RELEASED for layout in field.layouts)}")
        if field.type == "time":
            null.append("none, or outside the range of TIMESTAMP")
        elif field.may_be_null:
            null.append("none")
        blobs = f"; {BLOBS_ARE}" if field.has_blobs else ""
        return f"Field {field.key} of {self.kind.layouts[0].name}{blobs}; null: {', '.join(null)}"

    def _expression(self, field: JsonField, parent: str, version: str) -> str:
        """The field of `parent`; `version` is that of the message it belongs to."""
        at = _at(parent, field.key)
        if field.is_array and field.type in ("struct", "bytes", "time"):
            variable = f"each_{snake_case(field.key)}"
            expression = f"list_transform({at}, lambda {variable}: {self._one(field, variable, version)})"
        elif field.type == "struct":
            expression = f"CASE WHEN {at} IS NOT NULL THEN {self._one(field, at, version)} END"
        else:
            expression = self._one(field, at, version)
        conditions = [] if field.since is None else [f"{version} >= {field.since}"]
        if field.layouts is not None and field.is_array:
            # Other fields that a layout lacks are null in the JSON, or absent.
            layouts = ", ".join(literal(layout or RELEASED) for layout in field.layouts)
            conditions.append(f"layout IN ({layouts})")
        return f"CASE WHEN {' AND '.join(conditions)} THEN {expression} END" if conditions else expression

    def _one(self, field: JsonField, at: str, version: str) -> str:
        """One value of the field, or one element of its array."""
        if field.type == "struct":
            return _struct(self._members(field.fields, at, version))
        if field.type == "bytes":
            return f"from_base64({at})"
        if field.type == "time":
            return f"make_timestamptz(1000 * CASE WHEN {at} BETWEEN 1 AND {LAST_MS} THEN {at} END)"
        return at

    def _members(self, fields: Sequence[JsonField], parent: str, version: str) -> list[tuple[str, str]]:
        members: list[tuple[str, str]] = []
        for field in fields:
            if field.protocols:
                members += self._blobs(field, parent)
            else:
                members.append((snake_case(field.key), self._expression(field, parent, version)))
        return members

    def _blobs(self, field: JsonField, parent: str) -> list[tuple[str, str]]:
        """A struct for each protocol. The one of the record's protocol type has the contents, the others are null."""
        at, name = _at(parent, field.key), snake_case(field.key)
        blobs: list[tuple[str, str]] = []
        for protocol, members in field.protocols:
            condition = f"{at} IS NOT NULL"
            if field.protocol_key is not None:
                condition += f" AND {_at('v', field.protocol_key)} = {literal(protocol)}"
            struct = _struct(self._members(members, at, _at(at, "version")))
            blobs.append((f"{protocol}_{name}" if blobs else name, f"CASE WHEN {condition} THEN {struct} END"))
        return blobs


def _quoted(name: str) -> str:
    return f'"{name}"'


def _at(parent: str, key: str) -> str:
    return f"{parent}.{_quoted(key)}"


def _struct(members: Iterable[tuple[str, str]]) -> str:
    return f"struct_pack({', '.join(f'{_quoted(name)} := {value}' for name, value in members)})"


def _structure(fields: Iterable[JsonField]) -> dict[str, Any]:
    """The structure of these fields for DuckDB's from_json."""
    reported: dict[str, Any] = {}
    for field in fields:
        element = _structure(field.fields) if field.fields else TYPES.get(field.type, "VARCHAR")
        reported[field.key] = [element] if field.is_array else element
    return reported


def _as_they_are(*names: str) -> list[_Selected]:
    columns = TABLES["group_records"].columns
    return [_Selected(name, name, comment_of(columns.field(name))) for name in names]


_PLACE = _as_they_are("audit_id", "offsets_partition", "log_offset", "log_timestamp")
_PRODUCER = _as_they_are("producer_id", "is_transactional")


Dialect = Literal["spark", "duckdb"]

# In the order of creation: a view may read those before it.
_VIEWS = """
    last_audit findings_audit current_findings audit_partitions replaced_ranges log_totals coverage log_times
    known_histories known_history expiry_outcomes lag share_lag effective_commits partition_owners offset_history
    transactional_producers transactions group_settings all_events group_history group_member_history group_topics
    topic_health rebalances handovers waiting_partitions migration eos_style transaction_limits unstable_periods
    topic_ids stale_offsets lag_history unused_groups topics_no_longer_consumed lost_while_active dead_letters
    redeliveries share_windows member_timeouts broker_load
"""
VIEWS = (*_VIEWS.split(), *RECORD_VIEWS)

# In the same order. Table functions except the three about a group's partition, and known_as_of.
_FUNCTIONS = """
    java_hash offsets_partition_count offsets_partition_of ends_as_of log_ends_as_of known_as_of groups_as_of
    group_members_as_of committed_offsets_as_of pending_offsets_as_of state_log_ends_as_of state_known_as_of
    share_records_as_of share_partitions_as_of share_batches_as_of transactional_ids_as_of expiring
"""
FUNCTIONS = tuple(_FUNCTIONS.split())


# Neither engine pushes this subquery down to the ledger's files, so it would read them all; a number is pushed down.
LAST_FINISHED = "(SELECT max(audit_id) FROM audits WHERE status = 'finished')"


# The same for the audit whose decisions expiry_outcomes shows.
DECIDED_BY = "(SELECT max(decided_by) FROM previous_offset_expiry)"


@cache
def definition(name: str) -> Definition:
    """The view or function of that name. Raises FileNotFoundError for any other."""
    if name in RECORD_VIEWS:
        return _RecordView(name, RECORD_VIEWS[name]).definition()
    found = parsed(_text(name), columns_of, is_function=name in FUNCTIONS)
    return found._replace(query=_STEP.sub(lambda step: "(" + _text(step[0]).split("\n\n", 1)[1] + ")", found.query))


# First steps that several queries have are files of their own, whose heads have no columns.
_STEP = re.compile(r"(?<=\b(?:FROM|JOIN) )_\w+")


def _text(name: str) -> str:
    return package_text(f"sql/definitions/{name}.sql")


def columns_of(name: str) -> Columns:
    """The columns of the table, view or function of that name. Raises FileNotFoundError for any other."""
    if name in TABLES:
        return {field.name: Column(comment_of(field), type_name(field.type)) for field in TABLES[name].columns}
    return definition(name).columns


def view_sql(name: str, dialect: Dialect, audit_id: int | None = None) -> str:
    """The statement that makes the view or function, in DuckDB without its comments. Raises FileNotFoundError for an
    unknown name. `audit_id`: the lake's last finished audit; queries need not search the whole ledger for it."""
    query = definition(name).query
    # Functions name the schema: in DuckDB a caller's WITH could hide the table.
    for form in (LAST_FINISHED, LAST_FINISHED.replace("FROM ", "FROM main.")) if audit_id is not None else ():
        query = query.replace(form, str(audit_id))
    return statement(name, query, dialect)


def statement(name: str, query: str, dialect: Dialect) -> str:
    """The statement that makes the view or function from this query, in DuckDB's dialect, instead of its own."""
    defined = definition(name)._replace(query=query)
    return duckdb_statement(name, defined) if dialect == "duckdb" else spark_statement(name, defined)


# Functions as of a moment read this view again and again.
KNOWN_HISTORY = "known_history"


def known_history_sql(row: Mapping[str, datetime | None], dialect: Dialect) -> str:
    """The statement that makes the view known_history with this row, its own, as a constant."""
    moments = {name: NULL if at is None else literal(at.isoformat(sep=" ")) for name, at in row.items()}
    columns = ", ".join(f"CAST({moment} AS TIMESTAMPTZ) AS {name}" for name, moment in moments.items())
    return statement(KNOWN_HISTORY, f"SELECT {columns}", dialect)


def comments_sql() -> str:
    """The statements that comment all views and functions in DuckDB; they take as long as making them."""
    return "\n".join(duckdb_comments(name, definition(name)) for name in (*VIEWS, *FUNCTIONS))


class Description(NamedTuple):
    """Columns with comments; none of a scalar function. `arguments`: a function's, as SQL of DuckDB."""

    comment: str
    columns: dict[str, str]
    arguments: str | None = None


def described(name: str) -> Description:
    """The table, view or function of that name. Raises KeyError for any other name."""
    if name in FUNCTIONS:
        return Description(definition_comment(definition(name)), {}, signature(definition(name)))
    columns = (
        {column: reported.comment for column, reported in columns_of(name).items()} if name in (*TABLES, *VIEWS) else {}
    )
    return Description(TABLES[name].comment if name not in VIEWS else definition(name).comment, columns)


# In the order of creation.
NAMES = (*TABLES, *VIEWS, *FUNCTIONS)

_TEXT_OR_COMMENT = re.compile(r"'(?:[^'\\]|\\.|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
# Statements and tables that list the catalog need everything.
_WHAT_THERE_IS = re.compile(r"\b(show|information_schema|sqlite_master|duckdb_\w+|pragma_\w+|query_table)\b")


def needed_for(query: str) -> list[str]:
    """Names of tables, views and functions, in the order of creation: all that the query names, outside of texts and
    comments, and those that they need. A name with another meaning there only costs time.
    """
    text = _without_texts(query)
    if _WHAT_THERE_IS.search(text):
        return list(NAMES)
    return with_what_they_need(_named_in(text))


def with_what_they_need(names: Iterable[str]) -> list[str]:
    """The names and those that they need, in the order of creation."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting |= _stands_on(name)
    return [name for name in NAMES if name in found]


@cache
def _stands_on(name: str) -> frozenset[str]:
    if name in TABLES:
        return frozenset()
    defined = definition(name)
    defaults = [argument.default or "" for argument in (defined.arguments or {}).values()]
    return frozenset(_named_in(_without_texts(" ".join((defined.query, *defaults)))) - {name})


def _without_texts(query: str) -> str:
    return _TEXT_OR_COMMENT.sub(" ", query).lower()


def _named_in(text: str) -> set[str]:
    return set(re.findall(r"\w+", text)).intersection(NAMES)
