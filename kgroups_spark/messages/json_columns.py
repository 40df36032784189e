"""GroupMetadata values of consumer groups as JSON texts, many together: columns instead of objects.

One snapshot of a group may hold hundreds of members, each with a blob of topics and one of partitions. Building Python
objects for them costs more than everything else about the log. Here the i-th elements of all arrays are found in
lock-step. Then all elements of one kind are read as one column and joined by Arrow, according to the definitions.

Only plain values are read: at most MOST_FIELDS bytes, versions 0 to 3, protocol type `consumer`, printable ASCII text
without quotes and backslashes, blobs that are read to their last byte, no bytes left over. The others are null in the
result, for the record-by-record readers, which give the same texts for plain values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.messages.definition import Field, definition
from kgroups_spark.messages.lock_step import SPARE, WIDTH, LockStep, Positions, consecutive
from kgroups_spark.messages.reader_source import MOST_FIELDS
from kgroups_spark.messages.schema import base64_text
from kgroups_spark.records.slices import binary_slices, list_offsets, unaligned

PLAIN_START = np.frombuffer(b"\x00\x08consumer", np.uint8)
PLAIN_VERSIONS = range(4)
_BLOBS = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


def group_metadata_texts(data: NDArray[np.uint8], starts: Positions, lengths: Positions) -> pa.Array:
    """The JSON text of each GroupMetadataValue data[start : start + length]; null: not a plain one.

    32 bytes after any start must be readable.
    """
    message = definition("GroupMetadataValue")
    version = _plain_versions(data, starts, lengths)
    chosen, texts = [], []
    for one in np.unique(version[version >= 0]).tolist():
        rows = np.flatnonzero(version == one)
        read = _Rows(data, starts[rows] + 2, starts[rows] + lengths[rows])
        text = read.struct(message.fields, one)
        is_plain = read.is_plain & (read.position == read.end)
        chosen.append(rows[is_plain])
        texts.append(text if is_plain.all() else text.filter(pa.array(is_plain)))
    return _scattered(len(starts), chosen, texts)


def _plain_versions(data: NDArray[np.uint8], starts: Positions, lengths: Positions) -> NDArray[np.int64]:
    """The version of each value that begins like a plain one; -1 for all others."""
    head = unaligned(data, f"V{2 + len(PLAIN_START)}")[starts].view(np.uint8).reshape(-1, 2 + len(PLAIN_START))
    is_sized = (lengths >= 2 + len(PLAIN_START)) & (lengths <= MOST_FIELDS)
    begins = is_sized & (head[:, 2:] == PLAIN_START).all(axis=1) & (head[:, 0] == 0)
    return np.where(begins & (head[:, 1] < len(PLAIN_VERSIONS)), head[:, 1].astype(np.int64), -1)


def _scattered(count: int, rows: list[Positions], texts: list[pa.Array]) -> pa.Array:
    """The texts at their rows (each list ascending); null in all other rows."""
    if not rows:
        return pa.nulls(count, pa.string())
    if len(rows[-1]) == count:  # all rows: no copy is needed
        return texts[-1]
    place = np.full(count, -1, np.int64)
    all_rows = np.concatenate(rows)
    place[all_rows] = np.arange(len(all_rows))
    return pa.concat_arrays(texts).take(pa.array(place, mask=place < 0))


class _Rows(LockStep):
    """Rows whose fields are read as JSON texts."""

    def struct(self, fields: Sequence[Field], version: int, first: str = "{") -> pa.Array:
        """The JSON object of the fields. Moves the position after them."""
        pieces: list[str | pa.Array] = [first]
        for field in fields:
            if field.name in _BLOBS:
                pieces += [self._blob(field), ","]
                continue
            pieces.append(f'"{field.name}":')
            if version in field.versions:
                pieces += self._value(field, version)
            else:
                pieces.append(orjson.dumps(field.default).decode())
            pieces.append(",")
        return _joined([*pieces[:-1], "}"], len(self.position))

    def _value(self, field: Field, version: int) -> list[str | pa.Array]:
        is_nullable = version in field.nullable
        if field.is_array:
            return ["[", self._array(field, version), "]"]
        if field.element in WIDTH:
            return [_number_texts(self.integer(field.element))]
        length = self.length("int16" if field.element == "string" else "int32", is_nullable)
        if field.element == "string":
            text = self.text(np.maximum(length, 0))
            if not is_nullable:
                return ['"', text, '"']
            text = pc.binary_join_element_wise('"', text, '"', "")
        else:
            text = self._base64(length)
        return [pc.if_else(pa.array(length < 0), "null", text) if (length < 0).any() else text]

    def _base64(self, length: Positions) -> pa.Array:
        """The bytes of that length at the position, as base64 in quotes. Few values have any."""
        raw = binary_slices(self.data, self.position, np.maximum(length, 0))
        self.advance(np.maximum(length, 0))
        encoded = raw.dictionary_encode()
        texts = pa.array([f'"{base64_text(one)}"' for one in encoded.dictionary.to_pylist()], pa.string())
        return texts.take(encoded.indices)

    def _array(self, field: Field, version: int) -> pa.Array:
        """The elements, joined by commas. Moves the position after them."""
        count = self.length("int32", is_nullable=False)
        if field.element in WIDTH:
            at, row = consecutive(self.position, count, WIDTH[field.element])
            self.advance(count * WIDTH[field.element])
            at = np.minimum(at, self.data.size - SPARE)
            return _lists(_number_texts(unaligned(self.data, f">i{WIDTH[field.element]}")[at].astype(np.int64)), count)
        at, row = self.walk(field, version, count)
        elements = _Rows(self.data, at, self.end[row])
        if field.fields:
            texts = elements.struct(field.fields, version)
        else:
            texts = _joined(['"', elements.text(elements.length("int16", False)), '"'], len(at))
        self.is_plain[row[~elements.is_plain]] = False
        return _lists(texts, count)

    def _blob(self, field: Field) -> pa.Array:
        """`"name":object` of the protocol blob in a field, or `"nameRaw":""` if it has no bytes."""
        length = self.length("int32", is_nullable=False)
        start, end = self.position, self.position + length
        self.advance(length)
        message = definition(_BLOBS[field.name])
        version = np.where(length >= 2, unaligned(self.data, ">i2")[start].astype(np.int64), -1)
        is_empty = length == 0
        self.is_plain &= is_empty | ((version >= 0) & (version < len(message.versions)))
        chosen = [np.flatnonzero(is_empty)]
        texts = [pa.array([f'"{field.name}Raw":""']).take(pa.array(np.zeros(len(chosen[0]), np.int64)))]
        for one in np.unique(version[self.is_plain & ~is_empty]).tolist():
            rows = np.flatnonzero((version == one) & self.is_plain & ~is_empty)
            blob = _Rows(self.data, start[rows] + 2, end[rows])
            text = blob.struct(message.fields, one, f'"{field.name}":{{"version":{one},')
            self.is_plain[rows[~blob.is_plain | (blob.position != blob.end)]] = False
            chosen.append(rows)
            texts.append(text)
        return _scattered(len(length), chosen, texts).fill_null("")


def _number_texts(values: NDArray[np.int64]) -> pa.Array:
    """Numbers as text. They repeat, and printing one costs ten times as much as looking it up."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.dictionary.cast(pa.string()).take(encoded.indices)


def _lists(texts: pa.Array, count: Positions) -> pa.Array:
    """Consecutive texts joined by commas, `count[i]` of them in row i."""
    return pc.binary_join(pa.ListArray.from_arrays(list_offsets(count), texts), ",")


def _joined(pieces: list[str | pa.Array], count: int) -> pa.Array:
    """The pieces, one after the other in each row. Neighbouring constants become one."""
    merged: list[str | pa.Array] = []
    for piece in pieces:
        if merged and isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if not count:
        return pa.array([], pa.string())
    return pc.binary_join_element_wise(*merged, "")
