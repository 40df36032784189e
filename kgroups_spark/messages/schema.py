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

Each reader is compiled twice (reader_source.py). The fast one omits all checks that matter only for malformed bytes: it
checks once, at the end, whether it ran beyond the bytes. If it fails, the careful one reads again and its result
counts.
"""

from __future__ import annotations

import struct
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache
from types import TracebackType
from typing import Any

from kgroups_spark.messages.definition import Definition, Field, definition
from kgroups_spark.messages.reader_source import MalformedError, ReaderSource, read_uvarint
from kgroups_spark.messages.text import decode_text

# (data, position of the first byte, notes) -> (fields, position after them)
ReadFields = Callable[[bytes, int, list[str]], tuple[dict[str, Any], int]]
# bytes -> base64 text, or a caller's own value
BytesValue = Callable[[bytes], Any]

_WRONG = (MalformedError, IndexError, struct.error)
_PERHAPS_WRONG = (*_WRONG, UnicodeDecodeError)


class Truncated(Exception):
    """The bytes end too early, or a null or a length in them is not allowed. The text has the position."""


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
        self._fast, _ = self._compiled(is_careful=False)

    def read(self, data: bytes, start: int, notes: list[str]) -> tuple[dict[str, Any], int]:
        """The message at `start` and the position after it. Raises Truncated, with the field in its text."""
        noted = len(notes)
        try:
            return self._fast(data, start, notes)
        except _PERHAPS_WRONG:
            del notes[noted:]
        careful, places = self._careful
        try:
            return careful(data, start, notes)
        except _WRONG as error:
            why = str(error) if isinstance(error, MalformedError) else "the bytes end too early"
            where = places.get(_line_in(error.__traceback__, careful.__code__.co_filename), "its fields")
            what = f"{self.message.name} version {self.version}"
            raise Truncated(f"{what} cannot be read at {where}: {why} ({len(data)} bytes in all)") from error

    @cached_property
    def _careful(self) -> tuple[ReadFields, dict[int, str]]:
        return self._compiled(is_careful=True)

    def _compiled(self, is_careful: bool) -> tuple[ReadFields, dict[int, str]]:
        """The function, and the field that each line of its source reads."""
        source = ReaderSource(self.version, self.version in self.message.flexible, is_careful)
        source.function(self.message.fields if self._fields is None else self._fields, with_tags=self._fields is None)
        names: dict[str, Any] = {
            "Malformed": MalformedError,
            "bytes_value": self._bytes_value,
            "text": _text,
            "unpack": struct.unpack_from,
            "uuid_text": uuid_text,
            "uvarint": read_uvarint,
            **source.constants,
        }
        file_name = f"<{self.message.name} {self.message.layout} {self.version} {id(self)}>"
        exec(compile("\n".join(source.lines), file_name, "exec"), names)
        return names["read_fields"], source.places


@cache
def reader(name: str, version: int) -> MessageReader:
    """The reader of the definition in file `name` at `version`."""
    return MessageReader(definition(name), version)


def _text(data: bytes, notes: list[str]) -> str:
    text, is_proper = decode_text(data)
    if not is_proper:
        notes.append("text that is not UTF-8")
    return text


def _line_in(trace: TracebackType | None, file_name: str) -> int:
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file_name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
