"""Records of types 2 to 23 of `__consumer_offsets`: key and value bytes -> GroupRecord or Undecodable.

Rules, in their order (semantics as in CoordinatorRecordSerde and GroupCoordinatorRecordSerde, 4.3):

1. A record without a key, or with a key that cannot be read, is undecodable. A type that no release had is unknown,
   tombstone or not (T41).
2. A null value is a tombstone. For all other values the rules of value_layouts.py hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from kgroups_spark.messages.group_metadata import ProtocolTexts
from kgroups_spark.messages.json_columns import group_metadata_texts
from kgroups_spark.messages.known_keys import KnownKeys
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS, OFFSET_COMMIT_TYPES, RecordType
from kgroups_spark.messages.schema import MessageReader, Truncated, base64_text
from kgroups_spark.messages.value_layouts import (
    BadValue,
    Content,
    Layout,
    ToJson,
    WithContent,
    early_access,
    layout_of_json,
    read_value,
    value_layouts,
)
from kgroups_spark.records.columns import RecordColumns


@dataclass(slots=True)
class GroupRecord(WithContent):
    """A decoded record of a group, or its tombstone. It must not be changed: equal parts may be one object."""

    record_type: int
    record_name: str
    group_id: str
    member_id: str | None
    regular_expression: str | None
    value_version: int | None  # None: tombstone
    layout: str  # "" released; "3.7", "4.0" early access; "?3.7" released, but the bytes fit both wholly (T58)
    is_key_exact: bool
    content: Content | None  # None: tombstone


class JsonRecord(NamedTuple):
    """A record of types 2 to 23 as it is in `group_records`."""

    record_type: int
    group_id: str
    member_id: str | None
    regular_expression: str | None
    value_version: int | None
    text: str | None

    @property
    def record_name(self) -> str:
        return CONSUMER_OFFSETS[self.record_type].name

    @property
    def value(self) -> dict[str, Any] | None:
        return None if self.text is None else value_from_json(self.text)


def value_from_json(text: str) -> dict[str, Any]:
    """The value from its value_json(), for any record type."""
    value: dict[str, Any] = orjson.loads(text)
    return value


def layout_from_json(record_type: int, text: str) -> str:
    """The early-access layout of the value from which value_json() made the text; "" for any other."""
    return layout_of_json(EARLY_ACCESS.get(record_type), text)


@dataclass(frozen=True, slots=True)
class _Key:
    record_type: RecordType
    group_id: str
    member_id: str | None
    regular_expression: str | None
    is_exact: bool


class GroupRecordDecoder:
    """Decodes group records one at a time; caches keys and protocol blobs."""

    def __init__(self) -> None:
        self._keys = KnownKeys(self._read_key)
        self._key_readers = {number: _key_reader(number) for number in CONSUMER_OFFSETS}
        self._layouts = {number: _layouts(number) for number in CONSUMER_OFFSETS if number not in OFFSET_COMMIT_TYPES}
        protocols = ProtocolTexts()
        self._to_json: dict[int, ToJson] = {2: protocols.group_metadata_json, 5: protocols.member_metadata_json}

    def decode(self, key: bytes | None, value: bytes | None) -> GroupRecord | Undecodable:
        """The record, or why it cannot be used. Raises ValueError for an offset commit: see OffsetCommitDecoder."""
        known = self._keys.of(key)
        if isinstance(known, Undecodable):
            return known
        if value is None:
            return _record(known, None, "", None)
        kind = known.record_type
        try:
            version, layout, fields, notes = read_value(kind.name, self._layouts[kind.number], value)
        except BadValue as bad:
            return _undecodable(known, bad.reason, bad.detail, bad.version)
        to_json = self._to_json.get(kind.number)
        return _record(known, version, layout, Content(fields, notes, to_json))

    def decode_rows(self, records: RecordColumns, rows: NDArray[np.int64]) -> list[GroupRecord | Undecodable]:
        """The same for records of a chunk. The JSON texts of plain GroupMetadata values are made together."""
        texts: list[str | None] = [None] * len(rows)
        big = np.flatnonzero(_is_group_metadata(records, rows) & (records.value_length[rows] > 0))
        made = group_metadata_texts(
            records.data, records.value_start[rows[big]], records.value_length[rows[big]]
        ).to_pylist()
        for at, text in zip(big.tolist(), made, strict=True):
            texts[at] = text
        return [self._decode_row(records, row, text) for row, text in zip(rows.tolist(), texts, strict=True)]

    def _decode_row(self, records: RecordColumns, row: int, text: str | None) -> GroupRecord | Undecodable:
        """One record. `text`: the JSON of its value if that is plain, and therefore exact; else None."""
        key = records.key(row)
        if text is None:
            return self.decode(key, records.value(row))
        known = self._keys.of(key)
        if isinstance(known, Undecodable):
            return known
        version = int(records.data[int(records.value_start[row]) + 1])
        return _record(known, version, "", Content({}, [], None, text))

    def _read_key(self, number: int, key: bytes) -> _Key | Undecodable:
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


# Compiling all readers takes a tenth of a second, so each process does it once for all decoders.
@cache
def _key_reader(number: int) -> MessageReader:
    return MessageReader(CONSUMER_OFFSETS[number].key, 0)


def _is_group_metadata(records: RecordColumns, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    starts = records.key_start[rows]
    is_type_2: NDArray[np.bool_] = (records.data[starts] == 0) & (records.data[starts + 1] == 2)
    return is_type_2 & (records.key_length[rows] >= 2)


@cache
def _layouts(number: int) -> dict[int, list[Layout]]:
    """Value version -> layouts, the released one first. Protocol blobs remain bytes."""
    return value_layouts(CONSUMER_OFFSETS[number], bytes if number in (2, 5) else base64_text)


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


def _undecodable(key: _Key, reason: str, detail: str, version: int | None) -> Undecodable:
    kind = key.record_type
    return Undecodable(reason, detail, kind.number, kind.name, key.group_id, key.member_id, value_version=version)


EARLY_ACCESS = early_access(CONSUMER_OFFSETS)
