"""Values of coordinator records: their version and layout, and why some cannot be read. The same for every log.

Rules (as in CoordinatorRecordSerde, 4.3):

- A null value is a tombstone, which the caller handles. A value of no bytes is not one: it is an error (T42).
- Versions that a type never had are unknown.
- A value is read in the released layout. If an early-access release used the same version for another layout, that one
  is used if it reads all bytes, without unknown tags, and the released one does not read all (T58).
- Bytes left over and unknown tags are not errors, but the record keeps its raw bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from kgroups_spark.messages.definition import Definition
from kgroups_spark.messages.record_types import RecordType
from kgroups_spark.messages.schema import BytesValue, MessageReader, Truncated, base64_text

# Each early-access layout: its name, its fields, and values for the fields that it lacks.
EarlyAccess = list[tuple[str, list[str], dict[str, Any]]]


class BadValue(Exception):
    """A value that cannot be used: one of outcome.REASONS, a sentence, and the version if that was readable."""

    def __init__(self, reason: str, detail: str, version: int | None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.version = version


@dataclass(frozen=True)
class Layout:
    """One layout of one value version. `missing`: values for the released layout's fields that this one lacks."""

    name: str
    reader: MessageReader
    missing: dict[str, Any]


class ReadValue(NamedTuple):
    """A value that was read. `layout`: "" released; "4.0" early access; "?4.0" released, but the bytes fit both."""

    version: int
    layout: str
    fields: dict[str, Any]
    notes: list[str]


# A value's fields -> JSON. May change the fields, and notes what the text lacks.
ToJson = Callable[[dict[str, Any], list[str]], bytes]


class Content:
    """A value whose bytes are sound. Its protocol blobs are parsed on first access."""

    __slots__ = ("_fields", "_json", "_notes", "_to_json", "_value")

    def __init__(
        self, fields: dict[str, Any], notes: list[str], to_json: ToJson | None, json: str | None = None
    ) -> None:
        self._fields = fields
        self._notes = notes
        self._to_json = to_json
        self._json = json
        self._value = None if to_json or json else fields

    @property
    def value(self) -> dict[str, Any]:
        if self._value is None:
            self._value = orjson.loads(self.json())
        return self._value

    @property
    def is_exact(self) -> bool:
        """Whether the value has all the information of its bytes."""
        if self._to_json:
            self.json()
        return not self._notes

    def json(self) -> str:
        if self._json is None:
            to_json = self._to_json(self._fields, self._notes) if self._to_json else orjson.dumps(self._fields)
            self._json = to_json.decode()
        return self._json


def value_layouts(record_type: RecordType, bytes_value: BytesValue = base64_text) -> dict[int, list[Layout]]:
    """Value version -> layouts, the released one first. `bytes_value`: converts bytes of the released layout."""
    found: dict[int, list[Layout]] = {}
    released = record_type.layouts[0]
    for message in record_type.layouts:
        for version in message.versions:
            reader = MessageReader(message, version, bytes_value=base64_text if message.layout else bytes_value)
            found.setdefault(version, []).append(Layout(message.layout, reader, _missing(released, message)))
    return found


def read_value(name: str, layouts: Mapping[int, list[Layout]], value: bytes) -> ReadValue:
    """The value of a record of the type `name`, its version and layout. Raises BadValue."""
    if not value:
        detail = f"{name} has a value of no bytes: neither a tombstone, which is null, nor a value"
        raise BadValue("empty_value", detail, None)
    if len(value) < 2:
        raise BadValue("truncated", f"{name} has a value of 1 byte, too few for a version", None)
    version = int.from_bytes(value[:2], "big", signed=True)
    known = layouts.get(version)
    if known is None:
        versions = f"{min(layouts)} to {max(layouts)} are" if len(layouts) > 1 else f"{min(layouts)} is"
        detail = f"{name}Value version {version} is unknown ({versions} known)"
        raise BadValue("unknown_value_version", detail, version)
    try:
        return ReadValue(version, *_read_layouts(known, value))
    except Truncated as error:
        raise BadValue("truncated", str(error), version) from error


def early_access(record_types: Mapping[int, RecordType]) -> dict[int, EarlyAccess]:
    """The record types that had another layout in an early-access release (T58)."""
    found: dict[int, EarlyAccess] = {}
    for number, kind in record_types.items():
        for layout in kind.layouts[1:]:
            names = [field.name for field in layout.fields]
            found.setdefault(number, []).append((layout.layout, names, _missing(kind.layouts[0], layout)))
    return found


def _missing(released: Definition, message: Definition) -> dict[str, Any]:
    """The values for fields that another layout lacks: an empty array, else None (not known)."""
    names = {f.name for f in message.fields}
    return {f.name: [] if f.is_array else None for f in released.fields if f.name not in names}


def _read_layouts(layouts: list[Layout], value: bytes) -> tuple[str, dict[str, Any], list[str]]:
    """Layout name, fields and notes. Raises Truncated, with the released layout's error."""
    released, *early = layouts
    fits = [(layout, fields, notes) for layout in early for fields, notes in _read_wholly(layout, value)]
    notes: list[str] = []
    try:
        fields, end = released.reader.read(value, 2, notes)
    except Truncated:
        if not fits:
            raise
        end = -1
    if fits and end != len(value):
        layout, fields, notes = fits[0]
        return layout.name, {**fields, **layout.missing}, notes
    if end != len(value):
        notes.append("bytes left over")
    return f"?{fits[0][0].name}" if fits else released.name, fields, notes


def _read_wholly(layout: Layout, value: bytes) -> list[tuple[dict[str, Any], list[str]]]:
    """Fields and notes if the layout reads the whole value without notes; otherwise an empty list.

    A tag section can contain nearly anything as unknown tags, and no early-access release wrote any.
    """
    notes: list[str] = []
    try:
        fields, end = layout.reader.read(value, 2, notes)
    except Truncated:
        return []
    return [(fields, notes)] if end == len(value) and not notes else []
