"""A view for every record type from 2 to 23, with typed columns: its SQL is made from Kafka's message definitions.

A view is named as its record type, in snake_case, with `_records`: consumer_group_member_metadata_records. A row is a
row of `group_records`, tombstones included. Columns are the fields of key and value, named and nested as in Kafka's
message files, in snake_case, and say what the record says:

- numbers stand as they are, int64 exact, also Kafka's -1 for none; bytes are BINARY, uuids Kafka's text;
- an int64 that is a time is TIMESTAMP, null at or before 1970 (none) and where no TIMESTAMP can hold it;
- null: a tombstone, a version or layout that has no such field, or what the message file allows to be null;
- of a type that had another layout in an early-access release under the same version (T58) the fields of both are
  there, and `layout` says which one it was, as the decoder found it;
- what clients tell each other inside a field is a struct for each protocol, under the field's name for consumers'. It
  stands as bytes, under the name with `_raw`, where the protocol is another one or the bytes cannot be read.

A column that is passed on as it is (offsets_partition, log_offset, group_id, ...) can be filtered on as in
`group_records`: a condition on it reaches the files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgroups_spark.messages.record_types import CONSUMER_OFFSETS, OFFSET_COMMIT_TYPES, RecordType
from kgroups_spark.views.dialects import Column, DuckDbSql, SparkSql, SqlDialect, literal
from kgroups_spark.views.record_fields import JsonField, value_fields

# The last millisecond of year 9999.
NEWEST_MS = 253_402_300_799_999

RELEASED = "released"

DIALECTS: dict[str, SqlDialect] = {"spark": SparkSql(), "duckdb": DuckDbSql()}


def snake_case(name: str) -> str:
    """`subscribedTopicNames` as subscribed_topic_names."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# By name, in the order of their numbers.
RECORD_VIEWS: dict[str, RecordType] = {
    f"{snake_case(kind.name)}_records": kind
    for number, kind in CONSUMER_OFFSETS.items()
    if number not in OFFSET_COMMIT_TYPES
}

BLOBS_ARE = (
    "what clients tell each other in it is a struct for each protocol (the field's name alone: consumers'), or bytes, "
    "with _raw behind the name, where the protocol is another one or they cannot be read"
)


def record_view_sql(name: str, dialect: str) -> str:
    """The statements that make the view of that name. Raises KeyError where RECORD_VIEWS has no such name."""
    return _RecordView(name, RECORD_VIEWS[name], DIALECTS[dialect]).sql()


class _RecordView:
    """One view in one dialect."""

    def __init__(self, name: str, kind: RecordType, dialect: SqlDialect) -> None:
        self.name = name
        self.kind = kind
        self.dialect = dialect
        self.fields = value_fields(kind)
        self.has_layouts = len(kind.layouts) > 1

    def sql(self) -> str:
        columns = [*_PLACE, *self._key(), *self._value(), *_PRODUCER]
        names = [column.name for column in columns]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name} would have two columns of one name: {names}")
        comment = f"{self.kind.name}: records of type {self.kind.number} and their tombstones, from group_records"
        return self.dialect.view(self.name, comment, columns, self._source())

    def _source(self) -> str:
        """The rows of group_records with the value's fields in `v`."""
        read = self.dialect.from_json("value", self.fields)
        source = f"  SELECT *, {read} AS v\n  FROM group_records\n  WHERE record_type = {self.kind.number}"
        return f"  SELECT *, {self._layout()} AS layout\n  FROM (\n{source}\n  )" if self.has_layouts else source

    def _layout(self) -> str:
        """As layout_from_json of messages/group_records.py tells it."""
        # Its decoder is a third of a second of imports, for all but the few queries that ask for such a view.
        from kgroups_spark.messages.group_records import EARLY_ACCESS

        cases = []
        for layout, keys, missing in EARLY_ACCESS[self.kind.number]:
            conditions = [self.dialect.keys_are("value", [*keys, *missing])]
            for key, absent in missing.items():
                at = self._at("v", key)
                conditions.append(f"{at} IS NULL" if absent is None else f"cardinality({at}) = 0")
            cases.append(f"WHEN {' AND '.join(conditions)} THEN {literal(layout)}")
        return f"CASE {' '.join(cases)} WHEN value IS NOT NULL THEN {literal(RELEASED)} END"

    def _key(self) -> list[Column]:
        columns = []
        for field in self.kind.key.fields:
            name = "group_id" if field.name == "group" else snake_case(field.name)
            columns.append(Column(name, name, f"Field {field.name} of {self.kind.key.name}"))
        columns.append(Column("value_version", "value_version", "Version of the value; null: tombstone"))
        columns.append(Column("is_tombstone", "value_version IS NULL", "The record removes what its key names"))
        if self.has_layouts:
            layouts = ", ".join((RELEASED, *(message.layout for message in self.kind.layouts[1:])))
            told = f"Layout of the value, of releases or of an early-access release: {layouts}; null: tombstone"
            columns.append(Column("layout", "layout", told))
        return columns

    def _value(self) -> list[Column]:
        return [
            Column(snake_case(field.key), self._expression(field, "v", "value_version"), self._comment(field))
            for field in self.fields
        ]

    def _comment(self, field: JsonField) -> str:
        null = ["tombstone"]
        if field.since is not None:
            null.append(f"a version below {field.since}")
        if field.layouts is not None:
            null.append(f"another layout than {' and '.join(layout or RELEASED for layout in field.layouts)}")
        if field.type == "time":
            null.append("none, or one that no TIMESTAMP can hold")
        elif field.may_be_null:
            null.append("none")
        blobs = f"; {BLOBS_ARE}" if field.has_blobs else ""
        return f"Field {field.key} of {self.kind.layouts[0].name}{blobs}; null: {', '.join(null)}"

    def _at(self, parent: str, key: str) -> str:
        return f"{parent}.{self.dialect.quoted(key)}"

    def _expression(self, field: JsonField, parent: str, version: str) -> str:
        """The field of `parent`; `version` is that of the message it stands in."""
        at = self._at(parent, field.key)
        if field.is_array and field.type in ("struct", "bytes", "time"):
            variable = f"each_{snake_case(field.key)}"
            expression = self.dialect.transform(at, variable, self._one(field, variable, version))
        elif field.type == "struct":
            expression = f"CASE WHEN {at} IS NOT NULL THEN {self._one(field, at, version)} END"
        else:
            expression = self._one(field, at, version)
        conditions = [] if field.since is None else [f"{version} >= {field.since}"]
        if field.layouts is not None and field.is_array:
            # Other fields that a layout lacks are null in the JSON, or not there.
            layouts = ", ".join(literal(layout or RELEASED) for layout in field.layouts)
            conditions.append(f"layout IN ({layouts})")
        return f"CASE WHEN {' AND '.join(conditions)} THEN {expression} END" if conditions else expression

    def _one(self, field: JsonField, at: str, version: str) -> str:
        """One value of the field, or element of its array."""
        if field.type == "struct":
            return self.dialect.struct(self._members(field.fields, at, version))
        if field.type == "bytes":
            return self.dialect.bytes(at)
        if field.type == "time":
            return self.dialect.timestamp(f"CASE WHEN {at} BETWEEN 1 AND {NEWEST_MS} THEN {at} END")
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
        """A struct for each protocol: the one whose type the record names has been read, the others are null."""
        at, name = self._at(parent, field.key), snake_case(field.key)
        blobs: list[tuple[str, str]] = []
        for protocol, members in field.protocols:
            condition = f"{at} IS NOT NULL"
            if field.protocol_key is not None:
                condition += f" AND {self._at('v', field.protocol_key)} = {literal(protocol)}"
            struct = self.dialect.struct(self._members(members, at, self._at(at, "version")))
            blobs.append((f"{protocol}_{name}" if blobs else name, f"CASE WHEN {condition} THEN {struct} END"))
        return blobs


_PLACE = [
    Column("audit_id", "audit_id", "The audit that wrote the row (table audits)"),
    Column("offsets_partition", "offsets_partition", "Partition of __consumer_offsets"),
    Column("log_offset", "log_offset", "Place of the record in that partition's log"),
    Column("log_timestamp", "log_timestamp", "Time in the record; null: the record has none"),
]

_PRODUCER = [
    Column("producer_id", "producer_id", "Producer; null: none"),
    Column("is_transactional", "is_transactional", "The record is part of a transaction"),
]
