"""Python source of readers: one flat function for one definition at one version.

It is about three times as fast as closures over field objects. In the source, `b` is the bytes, `end` their length and
`p` the position. Every method here emits the lines that read one thing, and returns the expression of its value.

The careful reader checks every length before using it, and accepts text that is not UTF-8. The fast one does not. After
a length that leads beyond the bytes its next read fails, or the one check at the end does, because positions never go
back. Text that is not UTF-8 raises.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kgroups_spark.messages.definition import Field

_FIXED = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "uuid": "16s"}
_MAX_TEXT = 0x7FFF
# A coordinator writes no value above message.max.bytes (1,048,588 by default), and each field has at least one byte. So
# no message has more fields in its lists; a few bytes of a compressed batch may claim more, and fill the memory.
MOST_FIELDS = 1_048_588
_FEW = 64


class MalformedError(Exception):
    """A null or a length that is not allowed. The generated source raises it with the value that it read."""


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint as Java's int, which may be negative, and the position after it (Kafka: ByteUtils)."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise MalformedError("a varint is longer than 5 bytes")
    value &= 0xFFFFFFFF
    return (value if value < 0x80000000 else value - 0x100000000), position


class ReaderSource:
    """The source of one reader, built line by line."""

    def __init__(self, version: int, is_flexible: bool, is_careful: bool) -> None:
        self.version = version
        self.is_flexible = is_flexible
        self.is_careful = is_careful
        self.lines: list[str] = []
        self.places: dict[int, str] = {}  # line -> field
        self.constants: dict[str, Any] = {}
        self._count = 0
        self._place = ""

    def function(self, fields: Sequence[Field], with_tags: bool) -> None:
        """Emits read_fields(b, p, notes) -> (dict of the fields, position after them)."""
        self._emit(0, "def read_fields(b, p, notes):")
        self._emit(1, "end = len(b)")
        self._emit(1, f"left = {MOST_FIELDS}")
        result = self._struct(1, fields, "", with_tags)
        self._emit(1, "if p > end: raise Malformed('the bytes end too early')")
        self._emit(1, f"return {result}, p")

    def _emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)
        self.places[len(self.lines)] = self._place

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _struct(self, depth: int, fields: Sequence[Field], path: str, with_tags: bool = True) -> str:
        """A struct's fields in their order, runs of fixed width by one unpack, then its tag section."""
        values: dict[str, str] = {}
        run: list[Field] = []
        tagged = [f for f in fields if self.is_flexible and self.version in f.tagged]
        for field in fields:
            if self.version not in field.versions or field in tagged:
                values[field.name] = repr(field.default)
            elif field.element in _FIXED and not field.is_array:
                run.append(field)
            else:
                self._place = path + field.name
                length = self._run_with_length(depth, run, path, values, field)
                self._place = path + field.name
                values[field.name] = self._value(depth, field, length)
        self._fixed_run(depth, run, path, values)
        if self.is_flexible and with_tags:
            self._tags(depth, tagged, path, values)
        return "{" + ", ".join(f"{f.name!r}: {values[f.name]}" for f in fields) + "}"

    def _run_with_length(
        self, depth: int, run: list[Field], path: str, values: dict[str, str], field: Field
    ) -> str | None:
        """Emits the run before `field`. Returns the name of the field's length if the same unpack can read it."""
        if self.is_flexible or self.is_careful or not (field.is_array or field.element in ("string", "bytes")):
            self._fixed_run(depth, run, path, values)
            return None
        length = self._name()
        self._fixed_run(depth, run, path, values, length, _length_code(field))
        return length

    def _fixed_run(
        self,
        depth: int,
        run: list[Field],
        path: str,
        values: dict[str, str],
        length: str | None = None,
        length_code: str = "",
    ) -> None:
        """The fields of `run`, and perhaps a length after them, by one unpack; empties the run."""
        names = [self._name() for _ in run] + ([length] if length else [])
        if not names:
            return
        self._place = path + run[0].name if run else self._place
        self._unpack(depth, "".join(_FIXED[f.element] for f in run) + length_code, names)
        for field, name in zip(run, names, strict=False):
            values[field.name] = f"uuid_text({name})" if field.element == "uuid" else name
        run.clear()

    def _unpack(self, depth: int, codes: str, names: list[str]) -> None:
        layout = struct.Struct(">" + codes)
        unpack = f"unpack_{codes}"
        self.constants[unpack] = layout.unpack_from
        self._emit(depth, f"{', '.join(names)}, = {unpack}(b, p)")
        self._emit(depth, f"p += {layout.size}")

    def _value(self, depth: int, field: Field, length: str | None, in_tag: bool = False) -> str:
        """One field that does not belong to a run. `length`: the name of its length if that has been read."""
        if field.is_array:
            return self._array(depth, field, length)
        if field.element in _FIXED:
            values: dict[str, str] = {}
            self._fixed_run(depth, [field], self._place.removesuffix(field.name), values)
            return values[field.name]
        if field.element in ("string", "bytes"):
            return self._text_or_bytes(depth, field, length, self.version in field.nullable)
        return self._nested(depth, field, in_tag)

    def _length(self, depth: int, field: Field, known: str | None, is_nullable: bool) -> tuple[int, str, str]:
        """The length of a field, null handled: depth of the following lines, name of the length, name of the value."""
        name, value = known or self._name(), self._name()
        if known:
            pass
        elif self.is_flexible:
            self._emit(depth, f"{name} = b[p] - 1")
            self._emit(depth, "p += 1")
            self._emit(depth, f"if {name} > 126:")
            self._emit(depth + 1, f"{name}, p = uvarint(b, p - 1)")
            self._emit(depth + 1, f"{name} = ({name} - 1 + 0x80000000) % 0x100000000 - 0x80000000")  # Java's int wraps
            if field.element == "string" and not field.is_array:
                self._emit(depth + 1, f"if {name} > {_MAX_TEXT}: raise Malformed('a text above {_MAX_TEXT} bytes')")
        else:
            self._unpack(depth, _length_code(field), [name])
        if not is_nullable:
            self._emit(depth, f"if {name} < 0: raise Malformed('null, or a negative length, where neither may be')")
            self._check_length(depth, name)
            return depth, name, value
        self._emit(depth, f"if {name} < 0:")
        self._emit(depth + 1, f"{value} = None")
        self._emit(depth, "else:")
        self._check_length(depth + 1, name)
        return depth + 1, name, value

    def _check_length(self, depth: int, length: str) -> None:
        if self.is_careful:
            what = f"f'a length of {{{length}}}, {{end - p}} bytes left'"
            self._emit(depth, f"if {length} > end - p: raise Malformed({what})")

    def _text_or_bytes(self, depth: int, field: Field, known: str | None, is_nullable: bool) -> str:
        depth, length, value = self._length(depth, field, known, is_nullable)
        piece = f"b[p:p + {length}]"
        if field.element == "bytes":
            self._emit(depth, f"{value} = bytes_value({piece})")
        elif self.is_careful:
            self._emit(depth, f"{value} = text({piece}, notes)")
        else:
            self._emit(depth, f"{value} = {piece}.decode()")
        self._emit(depth, f"p += {length}")
        return value

    def _array(self, depth: int, field: Field, known: str | None) -> str:
        depth, count, value = self._length(depth, field, known, self.version in field.nullable)
        self._emit(depth, f"left -= {count} * {max(1, len(field.fields))}")
        self._emit(depth, f"if left < 0: raise Malformed('lists of more than {MOST_FIELDS:,} fields')")
        if field.element in _FIXED and field.element != "uuid":
            code = _FIXED[field.element]
            self.constants[f"unpack_few_{code}"] = _unpack_few(code)
            self._emit(depth, f"if {count} < {_FEW}: {value} = [*unpack_few_{code}[{count}](b, p)]")
            self._emit(depth, f"else: {value} = [*unpack(f'>{{{count}}}{code}', b, p)]")
            self._emit(depth, f"p += {count} * {struct.calcsize('>' + code)}")
            return value
        self._emit(depth, f"{value} = []")
        self._emit(depth, f"for _ in range({count}):")
        self._emit(depth + 1, f"{value}.append({self._element(depth + 1, field)})")
        return value

    def _element(self, depth: int, field: Field) -> str:
        if field.fields:
            return self._struct(depth, field.fields, self._place + ".")
        if field.element not in ("string", "bytes"):
            raise ValueError(f"{self._place}: arrays of {field.element} occur in no message of Kafka's coordinators")
        element = Field(field.name, field.element, False, field.versions, range(0), None, range(0), "", ())
        return self._text_or_bytes(depth, element, None, is_nullable=False)

    def _nested(self, depth: int, field: Field, in_tag: bool) -> str:
        """A struct that is one field, preceded by a byte, or in a tag a uvarint: whether it is present."""
        if self.version not in field.nullable:
            return self._struct(depth, field.fields, self._place + ".")
        value, presence = self._name(), self._name()
        if in_tag:
            self._emit(depth, f"{presence}, p = uvarint(b, p)")
            self._emit(depth, f"if {presence} <= 0:")
        else:
            self._unpack(depth, "b", [presence])
            self._emit(depth, f"if {presence} < 0:")
        self._emit(depth + 1, f"{value} = None")
        self._emit(depth, "else:")
        self._emit(depth + 1, f"{value} = {self._struct(depth + 1, field.fields, self._place + '.')}")
        return value

    def _tags(self, depth: int, tagged: list[Field], path: str, values: dict[str, str]) -> None:
        """The tag section. A tag that is repeated, out of order or not of its stated size is noted."""
        for field in tagged:
            values[field.name] = self._name()
            self._emit(depth, f"{values[field.name]} = {field.default!r}")
        self._place = f"{path}tags"
        count, tag, size, start, last = (self._name() for _ in range(5))
        self._emit(depth, f"{count} = b[p]")
        self._emit(depth, "p += 1")
        self._emit(depth, f"if {count}:")
        self._emit(depth + 1, f"{count}, p = uvarint(b, p - 1)")
        self._emit(depth + 1, f"{last} = -1")
        self._emit(depth + 1, f"for _ in range({count}):")
        self._emit(depth + 2, f"{tag}, p = uvarint(b, p)")
        self._emit(depth + 2, f"{size}, p = uvarint(b, p)")
        self._emit(depth + 2, f"{start} = p")
        for field in tagged:
            self._place = path + field.name
            self._emit(depth + 2, f"if {tag} == {field.tag}:")
            self._emit(depth + 3, f"{values[field.name]} = {self._value(depth + 3, field, None, in_tag=True)}")
            self._emit(depth + 3, f"if p != {start} + {size} or {tag} <= {last}: notes.append('odd tags')")
            self._emit(depth + 3, f"{last} = {tag}")
            self._emit(depth + 3, "continue")
        self._place = f"{path}tags"
        self._emit(depth + 2, f"if {size} < 0 or {size} > end - p: raise Malformed('a tag beyond the bytes')")
        self._emit(depth + 2, f"p += {size}")
        self._emit(depth + 2, f"{last} = {tag}")
        self._emit(depth + 2, "notes.append('unknown tag')")


@cache
def _unpack_few(code: str) -> list[Callable[..., tuple[int, ...]]]:
    """Unpackers of 0, 1, ... integers: compiling a format at each call costs a microsecond."""
    return [struct.Struct(f">{count}{code}").unpack_from for count in range(_FEW)]


def _length_code(field: Field) -> str:
    """The format of a field's length where messages are not flexible."""
    return "h" if field.element == "string" and not field.is_array else "i"
