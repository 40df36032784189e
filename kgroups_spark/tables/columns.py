"""The definition of a table's column: name, type, comment, and whether it may be null; as Arrow's fields, because
readers of a lake need no Spark (spark_types.py converts them)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, eq, ge, le
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

BIGINT = pa.int64()
INT = pa.int32()
SMALLINT = pa.int16()
STRING = pa.string()
BOOLEAN = pa.bool_()
BINARY = pa.binary()
TIMESTAMP = pa.timestamp("us", "UTC")

_OF_TABLES = (BIGINT, INT, SMALLINT, STRING, BOOLEAN, BINARY, TIMESTAMP)
TYPES = dict(zip(["BIGINT", "INT", "SMALLINT", "STRING", "BOOLEAN", "BINARY", "TIMESTAMP"], _OF_TABLES, strict=True))
_OF_VIEWS = {pa.int8(): "TINYINT", pa.float64(): "DOUBLE"}
_NAMES = {data_type: name for name, data_type in TYPES.items()} | _OF_VIEWS


def array(element: pa.DataType) -> pa.ListType:
    """An array whose elements are never null, though its type allows it."""
    return pa.list_(pa.field("element", element))


def map_of(value: pa.DataType) -> pa.MapType:
    """A map from text whose values are never null, though its type allows it."""
    return pa.map_(pa.field("key", STRING, nullable=False), pa.field("value", value))


def column(name: str, data_type: pa.DataType, comment: str) -> pa.Field:
    """A column that may be null; the comment states when."""
    return pa.field(name, data_type, nullable=True, metadata={"comment": comment})


def required(name: str, data_type: pa.DataType, comment: str) -> pa.Field:
    """A column that is never null."""
    return pa.field(name, data_type, nullable=False, metadata={"comment": comment})


def comment_of(field: pa.Field) -> str:
    comment: bytes = field.metadata[b"comment"]
    return comment.decode()


def type_name(data_type: pa.DataType) -> str:
    """The type in SQL: `ARRAY<STRUCT<topic: STRING, partition: INT>>`."""
    if pa.types.is_list(data_type):
        return f"ARRAY<{type_name(data_type.value_type)}>"
    if pa.types.is_map(data_type):
        return f"MAP<{type_name(data_type.key_type)}, {type_name(data_type.item_type)}>"
    if pa.types.is_struct(data_type):
        return f"STRUCT<{', '.join(f'{field.name}: {type_name(field.type)}' for field in data_type)}>"
    return _NAMES[data_type]


# Types that Delta's log names otherwise than SQL.
_IN_LOG = {"bigint": "long", "int": "integer", "smallint": "short", "tinyint": "byte"}


def delta_schema(columns: Iterable[pa.Field]) -> dict[str, Any]:
    """The columns as a schema of Delta's log (Spark: StructType.jsonValue), with nullability and comments."""
    fields = [
        {
            "name": each.name,
            "type": _in_log(each.type),
            "nullable": each.nullable,
            "metadata": {"comment": comment_of(each)},
        }
        for each in columns
    ]
    return {"type": "struct", "fields": fields}


def _in_log(data_type: pa.DataType) -> str | dict[str, Any]:
    if pa.types.is_list(data_type):
        element = data_type.value_field
        return {"type": "array", "elementType": _in_log(element.type), "containsNull": element.nullable}
    if pa.types.is_map(data_type):
        key, value = _in_log(data_type.key_type), _in_log(data_type.item_type)
        nullable = data_type.item_field.nullable
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}
    if pa.types.is_struct(data_type):
        return delta_schema(data_type)
    name = _NAMES[data_type].lower()
    return _IN_LOG.get(name, name)


def without_comments(schema: pa.Schema) -> pa.Schema:
    """The same columns for data: names, types, order and nullability."""
    return pa.schema([_without_comments(field) for field in schema])


def _without_comments(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain(field.type), field.nullable)


def _plain(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_list(data_type):
        return pa.list_(_without_comments(data_type.value_field))
    if pa.types.is_map(data_type):
        return pa.map_(_without_comments(data_type.key_field), _without_comments(data_type.item_field))
    if pa.types.is_struct(data_type):
        return pa.struct([_without_comments(field) for field in data_type])
    return data_type


# Delta truncates the bounds of texts of this length.
SHORT_TEXT = 32
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {"==": eq, "<=": le, ">=": ge}


class Condition(NamedTuple):
    """A comparison that a row's column must meet; null meets only `is null`. `value` of "in": a list."""

    column: str
    comparison: Literal["==", "<=", ">=", "in", "is null", "is not null"]
    value: Any = None

    def of(self, field: pc.Expression) -> pc.Expression:
        """The comparison of `field` with the value."""
        if self.comparison == "in":
            return field.isin(self.value) if self.value else pc.scalar(False)
        if self.comparison.startswith("is"):
            return field.is_null() if self.comparison == "is null" else field.is_valid()
        return _COMPARE[self.comparison](field, self.value)

    def may_hold(self, least: Any, greatest: Any) -> bool:
        """Whether a file with these bounds (None: unknown) may hold a row that meets it. Only bounds of whole numbers
        and short texts can rule it out: long texts may be truncated, times are texts in Delta's log."""
        if self.comparison.startswith("is"):
            return True
        wanted: list[Any] = self.value if self.comparison == "in" else [self.value]
        values = (*wanted, least, greatest)
        if not all(isinstance(value, int) for value in values) and not all(
            isinstance(value, str) and len(value) < SHORT_TEXT for value in values
        ):
            return True
        if self.comparison == "<=":
            return bool(least <= self.value)
        if self.comparison == ">=":
            return bool(greatest >= self.value)
        return any(least <= value <= greatest for value in wanted)


def expression_of(conditions: Sequence[Condition]) -> pc.Expression | None:
    """All conditions as one expression of pyarrow; None: there is no condition."""
    return reduce(and_, [each.of(pc.field(each.column)) for each in conditions]) if conditions else None


def rows_that_meet(rows: pa.Table, conditions: Sequence[Condition]) -> pa.Table:
    """The rows that meet all conditions; the table itself without one, which costs nothing."""
    return rows.filter(expression_of(conditions)) if conditions else rows


def all_may_hold(conditions: Iterable[Condition], bound: Callable[[str, str], Any]) -> bool:
    """Whether a file may hold a row that meets all of them (none is in an empty list). `bound("minValues", column)`: by
    Delta's log."""
    return all(
        each.value != [] and each.may_hold(bound("minValues", each.column), bound("maxValues", each.column))
        for each in conditions
    )


def partitions_in_lots(rows: Mapping[int, int], at_once: int) -> Iterator[Condition]:
    """Conditions for lots of offsets partitions, in order, each of `at_once` rows or of one partition."""
    lot: list[int] = []
    for number in sorted(rows):
        if lot and sum(rows[each] for each in lot) + rows[number] > at_once:
            yield Condition("offsets_partition", "in", lot)
            lot = []
        lot.append(number)
    if lot:
        yield Condition("offsets_partition", "in", lot)
