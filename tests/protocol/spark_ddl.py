"""ALTER TABLE ... ADD COLUMNS as Delta does it, for tables without a JVM, parsed from the SQL of migrations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from kgroups_spark.tables.spark_types import ATOMS

PLAIN = {kind.simpleString(): kind for kind in ATOMS.values()}
TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\w+|[<>(),:.])")


def with_columns(schema: StructType, added: str) -> StructType:
    """The columns, with those of ADD COLUMNS (`added`) at their positions."""
    found = deepcopy(schema)
    words = _Words(added)
    words.take("(")
    while True:
        _add(found, words)
        if not words.had(","):
            return found


def _add(schema: StructType, words: _Words) -> None:
    path = [words.name()]
    while words.had("."):
        path.append(words.name())
    field = _rest_of_column(path[-1], words)
    inside: Any = schema
    for name in path[:-1]:
        inside = inside[name].dataType if isinstance(inside, StructType) else inside.elementType
    at = 0 if words.had("FIRST") else None
    if words.had("AFTER"):
        at = inside.names.index(words.name()) + 1
    inside.fields.insert(len(inside.fields) if at is None else at, field)
    inside.names.insert(len(inside.names) if at is None else at, field.name)


def _rest_of_column(name: str, words: _Words) -> StructField:
    kind = _type(words)
    nullable = not (words.had("NOT") and words.had("NULL"))
    metadata = {"comment": words.text()} if words.had("COMMENT") else {}
    return StructField(name, kind, nullable, metadata)


def _type(words: _Words) -> DataType:
    name = words.next().lower()
    if name in PLAIN:
        return PLAIN[name]
    words.take("<")
    if name == "array":
        made: DataType = ArrayType(_type(words))
    elif name == "map":
        key = _type(words)
        words.take(",")
        made = MapType(key, _type(words))
    else:
        fields = list[StructField]()
        while not fields or words.had(","):
            field = words.name()
            words.take(":")
            fields.append(_rest_of_column(field, words))
        made = StructType(fields)
    words.take(">")
    return made


class _Words:
    """The words of a statement, one after the other."""

    def __init__(self, text: str) -> None:
        self._words = list(self._split(text))

    @staticmethod
    def _split(text: str) -> Iterator[str]:
        at = 0
        while found := TOKEN.match(text, at):
            yield found[1]
            at = found.end()
        assert not text[at:].strip(), text[at:]

    def next(self) -> str:
        return self._words.pop(0)

    def had(self, word: str) -> bool:
        """Takes the word if it is the next one."""
        if not self._words or self._words[0] != word:
            return False
        self._words.pop(0)
        return True

    def take(self, word: str) -> None:
        assert self.had(word), (word, self._words[:3])

    def name(self) -> str:
        return self.next().strip("`").replace("``", "`")

    def text(self) -> str:
        return re.sub(r"\\(.)", r"\1", self.next()[1:-1])
