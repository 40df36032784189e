"""Records of types 2 to 23 of `__consumer_offsets`: key and value bytes -> GroupRecord or Undecodable.

Rules, in their order (semantics as in CoordinatorRecordSerde and GroupCoordinatorRecordSerde, 4.3):

1. No key, or a key that cannot be read: undecodable. A type that no release had is unknown, tombstone or not (T41).
2. A null value is a tombstone. A value of no bytes is not: it is an error (T42).
3. Versions a type never had are unknown.
4. A value is read in the released layout. Where an early-access release used the same version for another layout,
   that one is taken if it reads all bytes, without unknown tags, and the released one does not read all (T58).
5. Bytes left over and unknown tags are no error, but the record keeps its raw bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kgroups_spark.messages.definition import Definition
from kgroups_spark.messages.group_metadata import ProtocolTexts
from kgroups_spark.messages.json_columns import group_metadata_texts
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS, OFFSET_COMMIT_TYPES, RecordType
from kgroups_spark.messages.schema import MessageReader, Truncated, base64_text
from kgroups_spark.messages.sound_values import are_sound
from kgroups_spark.records.columns import RecordColumns

__all__ = ["EARLY_ACCESS", "GroupRecord", "GroupRecordDecoder", "Undecodable", "layout_from_json", "value_from_json"]

_CACHED_KEYS = 1 << 16
_CACHED_KEY_BYTES = 16 << 20


# Makes JSON of a value's fields, may change them, and notes what the text lacks.
ToJson = Callable[[dict[str, Any], list[str]], bytes]


class Content:
    """A value whose bytes have been found sound. Protocol blobs in it are parsed when first asked for."""

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
        """Whether the value says everything the bytes do."""
        if self._to_json:
            self.json()
        return not self._notes

    def json(self) -> str:
        """The value as JSON text."""
        if self._json is None:
            to_json = self._to_json(self._fields, self._notes) if self._to_json else orjson.dumps(self._fields)
            self._json = to_json.decode()
        return self._json


class UnreadContent(Content):
    """A sound value that is decoded when it is first asked for."""

    __slots__ = ("_decode",)

    def __init__(self, decode: Callable[[], GroupRecord | Undecodable]) -> None:
        self._decode = decode

    def __getattr__(self, name: str) -> Any:
        """Called for what is not set yet: everything, until the value is decoded."""
        record = self._decode()
        assert isinstance(record, GroupRecord) and record.content is not None, record
        for slot in Content.__slots__:
            setattr(self, slot, getattr(record.content, slot))
        return getattr(self, name)


@dataclass(slots=True)
class GroupRecord:
    """A decoded record of a group, or its tombstone. Nothing in it may be changed: equal parts may be one object."""

    record_type: int
    record_name: str
    group_id: str
    member_id: str | None
    regular_expression: str | None
    value_version: int | None  # None: tombstone
    layout: str  # "" released; "3.7", "4.0" early access; "?3.7" released, but the bytes fit both wholly (T58)
    is_key_exact: bool
    content: Content | None  # None: tombstone

    @property
    def is_tombstone(self) -> bool:
        return self.content is None

    @property
    def value(self) -> dict[str, Any] | None:
        """The decoded value; None: tombstone. Parsed when first asked for."""
        return None if self.content is None else self.content.value

    @property
    def keeps_raw(self) -> bool:
        """Whether key and value bytes say more than this record: left-over bytes, unknown tags, improper UTF-8."""
        return not self.is_key_exact or (self.content is not None and not self.content.is_exact)

    def value_json(self) -> str | None:
        """The value as JSON text; None: tombstone."""
        return None if self.content is None else self.content.json()


def value_from_json(record_type: int, text: str) -> dict[str, Any]:
    """The value of which value_json() is the text, whatever the record type."""
    value: dict[str, Any] = orjson.loads(text)
    return value


def layout_from_json(record_type: int, text: str) -> str:
    """The early-access layout of which value_json() made the text; "" for any other.

    What such a layout lacks stands behind what it has, with the value that says so.
    """
    layouts = EARLY_ACCESS.get(record_type)
    if layouts is None:
        return ""
    value = orjson.loads(text)
    names = list(value)
    for layout, its_names, missing in layouts:
        if names == [*its_names, *missing] and all(value[name] == absent for name, absent in missing.items()):
            return layout
    return ""


@dataclass(frozen=True, slots=True)
class _Key:
    record_type: RecordType
    group_id: str
    member_id: str | None
    regular_expression: str | None
    is_exact: bool


@dataclass(frozen=True)
class _Layout:
    """One layout of one value version. `missing`: what the released layout has and this one has not."""

    name: str
    reader: MessageReader
    missing: dict[str, Any]


class GroupRecordDecoder:
    """Decodes group records one by one; remembers keys and protocol blobs it has seen."""

    def __init__(self) -> None:
        self._keys: dict[bytes, _Key | Undecodable] = {}
        self._key_bytes = 0
        self._key_readers = {number: _key_reader(number) for number in CONSUMER_OFFSETS}
        self._layouts = {number: _layouts(number) for number in CONSUMER_OFFSETS if number not in OFFSET_COMMIT_TYPES}
        protocols = ProtocolTexts()
        self._to_json: dict[int, ToJson] = {2: protocols.group_metadata_json, 5: protocols.member_metadata_json}

    def decode(self, key: bytes | None, value: bytes | None) -> GroupRecord | Undecodable:
        """The record. Raises ValueError for an offset commit: OffsetCommitDecoder decodes those."""
        known = self._key(key)
        if isinstance(known, Undecodable):
            return known
        if value is None:
            return _record(known, None, "", None)
        if len(value) < 2:
            return _undecodable_value(known, value)
        version = int.from_bytes(value[:2], "big", signed=True)
        layouts = self._layouts[known.record_type.number].get(version)
        if layouts is None:
            return _unknown_version(known, version, self._layouts[known.record_type.number])
        try:
            layout, fields, notes = _read_layouts(layouts, value)
        except Truncated as error:
            return _undecodable(known, "truncated", str(error), version)
        to_json = self._to_json.get(known.record_type.number) if layout[:1] in ("", "?") else None
        return _record(known, version, layout, Content(fields, notes, to_json))

    def decode_rows(self, records: RecordColumns, rows: NDArray[np.int64]) -> list[GroupRecord | Undecodable]:
        """The same for records of a chunk, with the JSON texts of plain GroupMetadata values made at once."""
        texts: list[str | None] = [None] * len(rows)
        big = np.flatnonzero(_is_group_metadata(records, rows) & (records.value_length[rows] > 0))
        made = group_metadata_texts(
            records.data, records.value_start[rows[big]], records.value_length[rows[big]]
        ).to_pylist()
        for at, text in zip(big.tolist(), made, strict=True):
            texts[at] = text
        return [self._decode_row(records, row, text) for row, text in zip(rows.tolist(), texts, strict=True)]

    def check_rows(self, records: RecordColumns, rows: NDArray[np.int64]) -> list[GroupRecord | Undecodable]:
        """The same where hardly any value will be asked for: sound GroupMetadata values are decoded when they are.

        That can be only as long as the chunk's data is valid.
        """
        is_sound = _is_group_metadata(records, rows)
        big = np.flatnonzero(is_sound)
        is_sound[big] = are_sound(records.data, records.value_start[rows[big]], records.value_length[rows[big]])
        view, starts, lengths = records.data.data, records.key_start[rows].tolist(), records.key_length[rows].tolist()
        keys = [None if n < 0 else bytes(view[start : start + n]) for start, n in zip(starts, lengths, strict=True)]
        return [
            self._decode_later(records, row, key) if later else self.decode(key, records.value(row))
            for row, key, later in zip(rows.tolist(), keys, is_sound.tolist(), strict=True)
        ]

    def _decode_later(self, records: RecordColumns, row: int, key: bytes | None) -> GroupRecord | Undecodable:
        known = self._key(key)
        if isinstance(known, Undecodable):
            return known
        version = int(records.data[int(records.value_start[row]) + 1])
        return _record(known, version, "", UnreadContent(lambda: self.decode(key, records.value(row))))

    def _decode_row(self, records: RecordColumns, row: int, text: str | None) -> GroupRecord | Undecodable:
        """One record; `text`: its JSON if that has been made, of a value that is plain and so exact."""
        key = records.key(row)
        if text is None:
            return self.decode(key, records.value(row))
        known = self._key(key)
        if isinstance(known, Undecodable):
            return known
        version = int(records.data[int(records.value_start[row]) + 1])
        return _record(known, version, "", Content({}, [], None, text))

    def _key(self, key: bytes | None) -> _Key | Undecodable:
        if key is None:
            return Undecodable("null_key", "The record has no key, so nothing says what it is about")
        known = self._keys.get(key)
        if known is None:
            known = self._read_key(key)
            self._key_bytes += len(key)
            if len(self._keys) >= _CACHED_KEYS or self._key_bytes > _CACHED_KEY_BYTES:
                self._keys.clear()
                self._key_bytes = len(key)
            self._keys[key] = known
        return known

    def _read_key(self, key: bytes) -> _Key | Undecodable:
        if len(key) < 2:
            return Undecodable("truncated", f"The key has {len(key)} bytes, too few for a record type")
        number = int.from_bytes(key[:2], "big", signed=True)
        if number in OFFSET_COMMIT_TYPES:
            raise ValueError(f"A record of type {number} is an offset commit: OffsetCommitDecoder decodes it")
        record_type = CONSUMER_OFFSETS.get(number)
        if record_type is None:
            return Undecodable("unknown_record_type", f"Record type {number} is unknown to every release", number)
        notes: list[str] = []
        try:
            fields, end = self._key_readers[number].read(key, 2, notes)
        except Truncated as error:
            return Undecodable("truncated", str(error), number, record_type.name)
        group_id: str = fields["group" if number == 2 else "groupId"]
        is_exact = end == len(key) and not notes
        return _Key(record_type, group_id, fields.get("memberId"), fields.get("regularExpression"), is_exact)


# Readers are compiled, a tenth of a second for all: once per process, whoever makes a decoder.
@cache
def _key_reader(number: int) -> MessageReader:
    return MessageReader(CONSUMER_OFFSETS[number].key, 0)


def _is_group_metadata(records: RecordColumns, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    starts = records.key_start[rows]
    is_type_2: NDArray[np.bool_] = (records.data[starts] == 0) & (records.data[starts + 1] == 2)
    return is_type_2 & (records.key_length[rows] >= 2)


@cache
def _layouts(number: int) -> dict[int, list[_Layout]]:
    """Value version -> layouts, the released one first."""
    record_type = CONSUMER_OFFSETS[number]
    found: dict[int, list[_Layout]] = {}
    released = record_type.layouts[0]
    for message in record_type.layouts:
        for version in message.versions:
            keep_bytes = record_type.number in (2, 5) and not message.layout
            reader = MessageReader(message, version, bytes_value=bytes if keep_bytes else base64_text)
            found.setdefault(version, []).append(_Layout(message.layout, reader, _missing(released, message)))
    return found


def _early_access(record_type: RecordType) -> list[tuple[str, list[str], dict[str, Any]]]:
    """Of each layout that is not the released one its name, its fields, and what it lacks."""
    released = record_type.layouts[0]
    return [
        (layout.layout, [field.name for field in layout.fields], _missing(released, layout))
        for layout in record_type.layouts
        if layout.layout
    ]


def _missing(released: Definition, message: Definition) -> dict[str, Any]:
    """What stands for fields of the released layout in another: no elements of an array, else None (not known)."""
    names = {f.name for f in message.fields}
    return {f.name: [] if f.is_array else None for f in released.fields if f.name not in names}


def _read_layouts(layouts: list[_Layout], value: bytes) -> tuple[str, dict[str, Any], list[str]]:
    """Layout name, fields and notes by rule 4. Raises Truncated, about the released layout."""
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


def _read_wholly(layout: _Layout, value: bytes) -> list[tuple[dict[str, Any], list[str]]]:
    """Fields and notes if the layout reads the whole value and nothing in it is odd, else nothing.

    A tag section can swallow nearly anything as unknown tags, and no early-access release wrote any.
    """
    notes: list[str] = []
    try:
        fields, end = layout.reader.read(value, 2, notes)
    except Truncated:
        return []
    return [(fields, notes)] if end == len(value) and not notes else []


def _record(key: _Key, version: int | None, layout: str, content: Content | None) -> GroupRecord:
    kind = key.record_type
    return GroupRecord(
        kind.number,
        kind.name,
        key.group_id,
        key.member_id,
        key.regular_expression,
        version,
        layout,
        key.is_exact,
        content,
    )


def _undecodable_value(key: _Key, value: bytes) -> Undecodable:
    if not value:
        detail = f"{key.record_type.name} has a value of no bytes: neither a tombstone, which is null, nor a value"
        return _undecodable(key, "empty_value", detail, None)
    return _undecodable(key, "truncated", f"{key.record_type.name} has a value of 1 byte, too few for a version", None)


def _unknown_version(key: _Key, version: int, known: dict[int, list[_Layout]]) -> Undecodable:
    versions = f"{min(known)} to {max(known)} are" if len(known) > 1 else f"{min(known)} is"
    detail = f"{key.record_type.name}Value version {version} is unknown ({versions} known)"
    return _undecodable(key, "unknown_value_version", detail, version)


def _undecodable(key: _Key, reason: str, detail: str, version: int | None) -> Undecodable:
    kind = key.record_type
    return Undecodable(reason, detail, kind.number, kind.name, key.group_id, key.member_id, value_version=version)


# Record types that had another layout in an early-access release (T58).
EARLY_ACCESS = {number: layouts for number, kind in CONSUMER_OFFSETS.items() if (layouts := _early_access(kind))}
