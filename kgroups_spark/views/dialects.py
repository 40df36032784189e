"""How Spark and DuckDB say in SQL what the views of record types are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from kgroups_spark.views.record_fields import JsonField


class Column(NamedTuple):
    """A column of a view."""

    name: str
    expression: str
    comment: str


class SqlDialect(Protocol):
    """One engine's SQL."""

    def quoted(self, name: str) -> str:
        """A name, whatever words the engine keeps to itself."""

    def from_json(self, text: str, fields: Sequence[JsonField]) -> str:
        """The fields of a JSON text as a struct; null for null."""

    def keys_are(self, text: str, keys: Sequence[str]) -> str:
        """Whether a JSON text has these keys, in this order."""

    def struct(self, fields: Iterable[tuple[str, str]]) -> str:
        """A struct of names and expressions."""

    def transform(self, array: str, variable: str, element: str) -> str:
        """An array with an expression of each of its elements."""

    def bytes(self, base64: str) -> str:
        """The bytes of a text in base64."""

    def timestamp(self, milliseconds: str) -> str:
        """The time so long after 1970."""

    def view(self, name: str, comment: str, columns: Sequence[Column], source: str) -> str:
        """The statements that make a view of columns of a source."""


def literal(text: str) -> str:
    """A text in SQL. None of ours has a backslash, which Spark takes for an escape."""
    return "'" + text.replace("'", "''") + "'"


def selection(dialect: SqlDialect, columns: Sequence[Column], source: str) -> str:
    """Columns of a source."""
    selected = ",\n".join(f"  {column.expression} AS {dialect.quoted(column.name)}" for column in columns)
    return f"SELECT\n{selected}\nFROM (\n{source}\n)"


class SparkSql:
    """Spark 4: views of a session."""

    TYPES = {  # noqa: RUF012  never changed
        "int8": "TINYINT",
        "int16": "SMALLINT",
        "uint16": "INT",
        "int32": "INT",
        "int64": "BIGINT",
        "time": "BIGINT",
    }

    def quoted(self, name: str) -> str:
        return f"`{name}`"

    def from_json(self, text: str, fields: Sequence[JsonField]) -> str:
        return f"from_json({text}, '{self._struct_type(fields)}')"

    def _struct_type(self, fields: Sequence[JsonField]) -> str:
        return f"STRUCT<{', '.join(f'{self.quoted(field.key)}: {self._type(field)}' for field in fields)}>"

    def _type(self, field: JsonField) -> str:
        element = self._struct_type(field.fields) if field.fields else self.TYPES.get(field.type, "STRING")
        return f"ARRAY<{element}>" if field.is_array else element

    def keys_are(self, text: str, keys: Sequence[str]) -> str:
        return f"json_object_keys({text}) = array({', '.join(map(literal, keys))})"

    def struct(self, fields: Iterable[tuple[str, str]]) -> str:
        return f"named_struct({', '.join(f'{literal(name)}, {value}' for name, value in fields)})"

    def transform(self, array: str, variable: str, element: str) -> str:
        return f"transform({array}, {variable} -> {element})"

    def bytes(self, base64: str) -> str:
        return f"unbase64({base64})"

    def timestamp(self, milliseconds: str) -> str:
        return f"timestamp_millis({milliseconds})"

    def view(self, name: str, comment: str, columns: Sequence[Column], source: str) -> str:
        named = ",\n".join(f"  {self.quoted(column.name)} COMMENT {literal(column.comment)}" for column in columns)
        head = f"CREATE OR REPLACE TEMPORARY VIEW {name} (\n{named}\n)\nCOMMENT {literal(comment)}"
        return f"{head}\nAS\n{selection(self, columns, source)}"


class DuckDbSql:
    """DuckDB 1.4 and newer."""

    TYPES = {  # noqa: RUF012  never changed
        "int8": "TINYINT",
        "int16": "SMALLINT",
        "uint16": "INTEGER",
        "int32": "INTEGER",
        "int64": "BIGINT",
        "time": "BIGINT",
    }

    def quoted(self, name: str) -> str:
        return f'"{name}"'

    def from_json(self, text: str, fields: Sequence[JsonField]) -> str:
        return f"from_json({text}, '{self._struct_type(fields)}')"

    def _struct_type(self, fields: Sequence[JsonField]) -> str:
        return "{" + ", ".join(f"{self.quoted(field.key)}: {self._type(field)}" for field in fields) + "}"

    def _type(self, field: JsonField) -> str:
        named = f'"{self.TYPES.get(field.type, "VARCHAR")}"'
        element = self._struct_type(field.fields) if field.fields else named
        return f"[{element}]" if field.is_array else element

    def keys_are(self, text: str, keys: Sequence[str]) -> str:
        return f"json_keys({text}) = [{', '.join(map(literal, keys))}]"

    def struct(self, fields: Iterable[tuple[str, str]]) -> str:
        return f"struct_pack({', '.join(f'{self.quoted(name)} := {value}' for name, value in fields)})"

    def transform(self, array: str, variable: str, element: str) -> str:
        return f"list_transform({array}, lambda {variable}: {element})"

    def bytes(self, base64: str) -> str:
        return f"from_base64({base64})"

    def timestamp(self, milliseconds: str) -> str:
        return f"make_timestamptz(1000 * {milliseconds})"

    def view(self, name: str, comment: str, columns: Sequence[Column], source: str) -> str:
        comments = [f"COMMENT ON VIEW {name} IS {literal(comment)};"]
        for column in columns:
            comments.append(f"COMMENT ON COLUMN {name}.{self.quoted(column.name)} IS {literal(column.comment)};")
        made = f"CREATE OR REPLACE VIEW {name} AS\n{selection(self, columns, source)};"
        return "\n\n".join((made, "\n".join(comments)))
