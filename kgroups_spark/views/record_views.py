"""A view with typed columns for every record type from 2 to 23. Its SQL is generated from Kafka's message definitions.

A view has the name of its record type, in snake_case, with `_records`: consumer_group_member_metadata_records. A row is
a row of `group_records`, tombstones included. Columns are the fields of key and value, named and nested as in Kafka's
message files, in snake_case, with the contents of the record:

- numbers are unchanged, int64 exact, including Kafka's -1 for none; bytes are BINARY, uuids Kafka's text;
- an int64 that is a time is TIMESTAMP, null at or before 1970 (none) and outside TIMESTAMP's range;
- null: a tombstone, a version or layout without the field, or a field that the message file allows to be null;
- if the type had another layout in an early-access release under the same version (T58), the view has the fields of
  both, and `layout` is the one that the decoder found;
- client protocol data inside a field is a struct for each protocol, under the field's name for that of consumers. It is
  bytes, in the column with `_raw`, if the protocol is another one or the bytes cannot be read.

A condition on a column that is passed through (offsets_partition, log_offset, group_id, ...) reaches the files, as in
`group_records`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from kgroups_spark.messages.record_types import CONSUMER_OFFSETS, OFFSET_COMMIT_TYPES, RecordType
from kgroups_spark.tables.columns import PLACE_IN_LOG, comment_of
from kgroups_spark.tables.history import GROUP_RECORDS
from kgroups_spark.times import LAST_MS
from kgroups_spark.views.definition import Column, Definition
from kgroups_spark.views.dialects import literal
from kgroups_spark.views.record_fields import JsonField, value_fields

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


def record_view(name: str) -> Definition:
    """The view of that name. Raises KeyError if RECORD_VIEWS lacks it."""
    return _RecordView(name, RECORD_VIEWS[name]).definition()


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
        """The layout of a record, by the rule of layout_from_json in messages/group_records.py."""
        # Imported here: the decoder's imports take a third of a second, and few queries need such a view.
        from kgroups_spark.messages.group_records import EARLY_ACCESS

        cases = []
        for layout, keys, missing in EARLY_ACCESS[self.kind.number]:
            conditions = [f"json_keys(value) = [{', '.join(map(literal, (*keys, *missing)))}]"]
            for key, absent in missing.items():
                at = _at("v", key)
                conditions.append(f"{at} IS NULL" if absent is None else f"cardinality({at}) = 0")
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


def _as_they_are(*fields: pa.Field) -> list[_Selected]:
    return [_Selected(field.name, field.name, comment_of(field)) for field in fields]


_PLACE = _as_they_are(*PLACE_IN_LOG)
_PRODUCER = _as_they_are(*(GROUP_RECORDS.field(name) for name in ("producer_id", "is_transactional")))
