"""Compiles a message definition, at one version, into a reader.

A reader takes the bytes after the version prefix and returns a dict. Names are in Kafka's JSON spelling, and every
field of the definition is present (with its default if the version lacks it). Bytes are base64 text, uuids are as Kafka
prints them. It is as strict as Kafka's generated Java readers, and no stricter (MessageDataGenerator and
ByteBufferAccessor, 4.3):

- not flexible: string int16 length, bytes int32, array int32 count; a negative length is null.
- flexible: uvarint(length + 1), 0 is null; every struct ends with a tag section, `uvarint count`, then per tag
  `uvarint tag, uvarint size, payload`. A known tag's size is ignored, an unknown tag is skipped by its size.
- a nullable struct begins with an int8, negative: null; inside a tag with a uvarint, 0: null.
- null in a field that is not nullable, a length beyond the bytes, a text above 32767 bytes: the message is truncated.
- text is never malformed (text.py). Bytes left over are not an error.

`notes` list the bytes that were read but could not be restored from the dict.

A reader checks once, at the end, whether it ran beyond the bytes. After a length that leads beyond them its next read
fails, or that check does, because positions never go back.
"""

from __future__ import annotations

import codecs
import json
import struct
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

from kgroups_spark.package_data import names_in_package, package_text

# Kafka's record layouts as data: the files in `definitions/`, one message each.
#
# The files have the form of Kafka's own message files (`group-coordinator/src/main/resources/common/message`): name,
# type, validVersions, flexibleVersions, fields with versions, nullableVersions, tag, taggedVersions and default. Their
# fields are those of 4.4, which reads every release since 0.9. Two keys are ours. `topic`: record types are numbered
# per topic. `layout`: the release with this early-access layout, if a later release took the same type and version for
# another one (3.7: KIP-848; 4.0: KIP-932).


ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
SCALARS = ("int8", "int16", "uint16", "int32", "int64", "uuid", "string", "bytes")
_NO_VERSION = range(0)
_OPEN = 1 << 15


class Field(NamedTuple):
    """One field. `element` is the type without `[]`; `fields` are those of a struct, otherwise empty."""

    name: str
    element: str
    is_array: bool
    versions: range
    nullable: range
    tag: int | None
    tagged: range
    default: Any
    fields: tuple[Field, ...]


class Definition(NamedTuple):
    name: str
    type: str
    api_key: int | None
    topic: str | None
    layout: str
    versions: range
    flexible: range
    fields: tuple[Field, ...]


def parse_versions(text: str | None) -> range:
    """ "3", "0-4", "2+" or "none" as a range."""
    if text is None or text == "none":
        return _NO_VERSION
    if text.endswith("+"):
        return range(int(text[:-1]), _OPEN)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def parse_definition(text: str) -> Definition:
    message = json.loads(text)
    structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", ())}
    return Definition(
        name=message["name"],
        type=message["type"],
        api_key=message.get("apiKey"),
        topic=message.get("topic"),
        layout=message.get("layout", ""),
        versions=parse_versions(message["validVersions"]),
        flexible=parse_versions(message["flexibleVersions"]),
        fields=tuple(_parse_field(field, structs) for field in message["fields"]),
    )


def _parse_field(field: dict[str, Any], structs: dict[str, Any]) -> Field:
    element = field["type"].removeprefix("[]")
    is_array = element != field["type"]
    inner = field.get("fields") or structs.get(element) or ()
    inner_fields = tuple(_parse_field(one, structs) for one in inner)
    if not inner and element not in SCALARS:
        raise ValueError(f"Field {field['name']} has the type {element}: neither one of {SCALARS} nor a struct defined")
    return Field(
        name=field["name"][0].lower() + field["name"][1:],
        element=element,
        is_array=is_array,
        # Kafka's files leave out `versions` if the field is a tag in all of them.
        versions=parse_versions(field.get("versions", field.get("taggedVersions"))),
        nullable=parse_versions(field.get("nullableVersions")),
        tag=field.get("tag"),
        tagged=parse_versions(field.get("taggedVersions")),
        default=_default(field, is_array, inner_fields),
        fields=inner_fields,
    )


def _default(field: dict[str, Any], is_array: bool, inner: tuple[Field, ...]) -> Any:
    """The value of a field that is absent (MessageDataGenerator.fieldDefault, 4.3). A struct without a default is one
    of defaults, as Kafka takes ClassicMemberMetadata, whose file has null without the quotes (T59)."""
    given = field.get("default")
    if given == "null":
        return None
    if is_array:
        return []
    if inner:
        return {one.name: one.default for one in inner}
    if field["type"] == "uuid":
        return ZERO_UUID
    if field["type"] in ("string", "bytes"):
        return given or ""
    return int(given or 0)


@cache
def definition(name: str) -> Definition:
    """The definition in the file of that name, such as "GroupMetadataValue" or "ShareGroupMetadataValue-4.0"."""
    return parse_definition(package_text(f"messages/definitions/{name}.json"))


@cache
def all_definitions() -> tuple[Definition, ...]:
    return tuple(map(definition, names_in_package("messages/definitions", ".json")))


# Python source of readers: a flat function for one definition at one version, three times as fast as closures. `b` is
# the bytes, `end` their length, `p` the position. Methods emit the lines that read one thing, and return its value.


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

    def __init__(self, version: int, is_flexible: bool) -> None:
        self.version = version
        self.is_flexible = is_flexible
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self._count = 0

    def function(self, fields: Sequence[Field], with_tags: bool) -> None:
        """Emits read_fields(b, p, notes) -> (dict of the fields, position after them)."""
        self._emit(0, "def read_fields(b, p, notes):")
        self._emit(1, "end = len(b)", f"left = {MOST_FIELDS}")
        result = self._struct(1, fields, with_tags)
        self._emit(1, "if p > end: raise Malformed('the bytes end too early')", f"return {result}, p")

    def _emit(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _struct(self, depth: int, fields: Sequence[Field], with_tags: bool = True) -> str:
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
                length = self._run_with_length(depth, run, values, field)
                values[field.name] = self._value(depth, field, length)
        self._fixed_run(depth, run, values)
        if self.is_flexible and with_tags:
            self._tags(depth, tagged, values)
        return "{" + ", ".join(f"{f.name!r}: {values[f.name]}" for f in fields) + "}"

    def _run_with_length(self, depth: int, run: list[Field], values: dict[str, str], field: Field) -> str | None:
        """Emits the run before `field`. Returns the name of the field's length if the same unpack can read it."""
        if self.is_flexible or not (field.is_array or field.element in ("string", "bytes")):
            self._fixed_run(depth, run, values)
            return None
        length = self._name()
        self._fixed_run(depth, run, values, length, _length_code(field))
        return length

    def _fixed_run(
        self, depth: int, run: list[Field], values: dict[str, str], length: str | None = None, length_code: str = ""
    ) -> None:
        """The fields of `run`, and perhaps a length after them, by one unpack; empties the run."""
        names = [self._name() for _ in run] + ([length] if length else [])
        if not names:
            return
        self._unpack(depth, "".join(_FIXED[f.element] for f in run) + length_code, names)
        for field, name in zip(run, names, strict=False):
            values[field.name] = f"uuid_text({name})" if field.element == "uuid" else name
        run.clear()

    def _unpack(self, depth: int, codes: str, names: list[str]) -> None:
        layout = struct.Struct(">" + codes)
        unpack = f"unpack_{codes}"
        self.constants[unpack] = layout.unpack_from
        self._emit(depth, f"{', '.join(names)}, = {unpack}(b, p)", f"p += {layout.size}")

    def _value(self, depth: int, field: Field, length: str | None, in_tag: bool = False) -> str:
        """One field that does not belong to a run. `length`: the name of its length if that has been read."""
        if field.is_array:
            return self._array(depth, field, length)
        if field.element in _FIXED:
            values: dict[str, str] = {}
            self._fixed_run(depth, [field], values)
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
            self._emit(depth, f"{name} = b[p] - 1", "p += 1", f"if {name} > 126:")
            self._emit(depth + 1, f"{name}, p = uvarint(b, p - 1)")
            self._emit(depth + 1, f"{name} = ({name} - 1 + 0x80000000) % 0x100000000 - 0x80000000")  # Java's int wraps
            if field.element == "string" and not field.is_array:
                self._emit(depth + 1, f"if {name} > {_MAX_TEXT}: raise Malformed('a text above {_MAX_TEXT} bytes')")
        else:
            self._unpack(depth, _length_code(field), [name])
        if not is_nullable:
            self._emit(depth, f"if {name} < 0: raise Malformed('null, or a negative length, where neither may be')")
            return depth, name, value
        self._emit(depth, f"if {name} < 0:")
        self._emit(depth + 1, f"{value} = None")
        self._emit(depth, "else:")
        return depth + 1, name, value

    def _text_or_bytes(self, depth: int, field: Field, known: str | None, is_nullable: bool) -> str:
        depth, length, value = self._length(depth, field, known, is_nullable)
        piece = f"b[p:p + {length}]"
        made = f"bytes_value({piece})" if field.element == "bytes" else f"text({piece}, notes)"
        self._emit(depth, f"{value} = {made}", f"p += {length}")
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
        self._emit(depth, f"{value} = []", f"for _ in range({count}):")
        self._emit(depth + 1, f"{value}.append({self._element(depth + 1, field)})")
        return value

    def _element(self, depth: int, field: Field) -> str:
        if field.fields:
            return self._struct(depth, field.fields)
        if field.element not in ("string", "bytes"):
            raise ValueError(f"{field.name}: arrays of {field.element} occur in no message of Kafka's coordinators")
        element = Field(field.name, field.element, False, field.versions, range(0), None, range(0), "", ())
        return self._text_or_bytes(depth, element, None, is_nullable=False)

    def _nested(self, depth: int, field: Field, in_tag: bool) -> str:
        """A struct that is one field, preceded by a byte, or in a tag a uvarint: whether it is present."""
        if self.version not in field.nullable:
            return self._struct(depth, field.fields)
        value, presence = self._name(), self._name()
        if in_tag:
            self._emit(depth, f"{presence}, p = uvarint(b, p)", f"if {presence} <= 0:")
        else:
            self._unpack(depth, "b", [presence])
            self._emit(depth, f"if {presence} < 0:")
        self._emit(depth + 1, f"{value} = None")
        self._emit(depth, "else:")
        self._emit(depth + 1, f"{value} = {self._struct(depth + 1, field.fields)}")
        return value

    def _tags(self, depth: int, tagged: list[Field], values: dict[str, str]) -> None:
        """The tag section. A tag that is repeated, out of order or not of its stated size is noted."""
        for field in tagged:
            values[field.name] = self._name()
            self._emit(depth, f"{values[field.name]} = {field.default!r}")
        count, tag, size, start, last = (self._name() for _ in range(5))
        self._emit(depth, f"{count} = b[p]", "p += 1", f"if {count}:")
        self._emit(depth + 1, f"{count}, p = uvarint(b, p - 1)", f"{last} = -1", f"for _ in range({count}):")
        self._emit(depth + 2, f"{tag}, p = uvarint(b, p)", f"{size}, p = uvarint(b, p)", f"{start} = p")
        for field in tagged:
            self._emit(depth + 2, f"if {tag} == {field.tag}:")
            self._emit(depth + 3, f"{values[field.name]} = {self._value(depth + 3, field, None, in_tag=True)}")
            self._emit(depth + 3, f"if p != {start} + {size} or {tag} <= {last}: notes.append('odd tags')")
            self._emit(depth + 3, f"{last} = {tag}", "continue")
        self._emit(depth + 2, f"if {size} < 0 or {size} > end - p: raise Malformed('a tag beyond the bytes')")
        self._emit(depth + 2, f"p += {size}", f"{last} = {tag}", "notes.append('unknown tag')")


@cache
def _unpack_few(code: str) -> list[Callable[..., tuple[int, ...]]]:
    """Unpackers of 0, 1, ... integers: compiling a format at each call costs a microsecond."""
    return [struct.Struct(f">{count}{code}").unpack_from for count in range(_FEW)]


def _length_code(field: Field) -> str:
    """The format of a field's length where messages are not flexible."""
    return "h" if field.element == "string" and not field.is_array else "i"


# Text from bytes, as Java reads it.
#
# Kafka's generated readers call `new String(bytes, UTF_8)`, which never fails: malformed input becomes U+FFFD. Python's
# "replace" does the same (one U+FFFD for each maximal subpart of a well-formed sequence) except for surrogates. A
# surrogate encoded in three bytes (ED A0..BF 80..BF, as in CESU-8) is one malformed character in Java, three in Python.
# (java.lang.String.decodeUTF8_UTF16, JDK 17)


_REPLACEMENT = "\ufffd"


def _replace_like_java(error: UnicodeError) -> tuple[str, int]:
    """U+FFFD, and the position where decoding continues."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if data[start] == 0xED and data[start + 1 : start + 2] >= b"\xa0" and is_continuation(data, start + 1):
        return _REPLACEMENT, start + (3 if is_continuation(data, start + 2) else 2)
    return _REPLACEMENT, error.end


def is_continuation(data: bytes, position: int) -> bool:
    return position < len(data) and data[position] & 0xC0 == 0x80


codecs.register_error("kgroups_spark.spark.java", _replace_like_java)


def decode_text(data: bytes) -> tuple[str, bool]:
    """The text as Java reads it, and whether the bytes are proper UTF-8; if not, the text cannot restore them."""
    try:
        return data.decode(), True
    except UnicodeDecodeError:
        return data.decode("utf-8", "kgroups_spark.spark.java"), False


# (data, position of the first byte, notes) -> (fields, position after them)
ReadFields = Callable[[bytes, int, list[str]], tuple[dict[str, Any], int]]
# bytes -> base64 text, or a caller's own value
BytesValue = Callable[[bytes], Any]


class Truncated(Exception):
    """The bytes end too early, or a null or a length in them is not allowed."""


def base64_text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


@lru_cache(maxsize=1 << 16)
def uuid_text(data: bytes) -> str:
    """16 bytes as Kafka prints a Uuid: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(data)[:22].decode("ascii")


class MessageReader:
    """Reads one message at one version, or a run of its fields or of one of its structs, without a tag section."""

    def __init__(
        self,
        message: Definition,
        version: int,
        fields: Sequence[Field] | None = None,
        bytes_value: BytesValue = base64_text,
    ) -> None:
        self.message = message
        self.version = version
        self._fields = fields
        self._bytes_value = bytes_value

    @cached_property
    def _read(self) -> ReadFields:
        """Compiled when the first message is read: most logs have a few of the versions."""
        message, fields = self.message, self._fields
        source = ReaderSource(self.version, self.version in message.flexible)
        source.function(message.fields if fields is None else fields, with_tags=fields is None)
        names: dict[str, Any] = {
            "Malformed": MalformedError,
            "bytes_value": self._bytes_value,
            "text": _text,
            "unpack": struct.unpack_from,
            "uuid_text": uuid_text,
            "uvarint": read_uvarint,
            **source.constants,
        }
        exec(compile("\n".join(source.lines), f"<{message.name} {message.layout} {self.version}>", "exec"), names)
        read_fields: ReadFields = names["read_fields"]
        return read_fields

    def read(self, data: bytes, start: int, notes: list[str]) -> tuple[dict[str, Any], int]:
        """The message at `start` and the position after it. Raises Truncated; the notes are then meaningless."""
        try:
            return self._read(data, start, notes)
        except (MalformedError, IndexError, struct.error) as error:
            why = str(error) if isinstance(error, MalformedError) else "the bytes end too early"
            what = f"{self.message.name} version {self.version}"
            raise Truncated(f"{what} cannot be read: {why} ({len(data)} bytes in all)") from error


@cache
def reader(name: str, version: int) -> MessageReader:
    """The reader of the definition in file `name` at `version`."""
    return MessageReader(definition(name), version)


def _text(data: bytes, notes: list[str]) -> str:
    text, is_proper = decode_text(data)
    if not is_proper:
        notes.append("text that is not UTF-8")
    return text
