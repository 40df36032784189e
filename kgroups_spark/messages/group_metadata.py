"""The value of a GroupMetadata record (type 2), the largest one, as JSON text.

Each of its members has two protocol blobs. They are parsed if the group's protocol type has a known protocol
(embedded.py). Otherwise, or if a blob cannot be parsed, they are kept as base64 under their name with `Raw` added.

Decoding ensures that the bytes are a sound value. The text is made on request, and the value from the text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.messages.schema import MOST_FIELDS, Field, MessageReader, Truncated, base64_text, definition, reader
from kgroups_spark.records.columns import Views, binary_slices, copy, list_offsets, ranks, unaligned, view_of, views_of

# Protocol blobs in group records: messages between clients, opaque to the coordinator.
#
# A blob is an int16 version and a message that is never flexible. Readers take a version above their highest known one
# as that one and ignore the rest. A negative version is an error (ConsumerProtocol.checkSubscriptionVersion 2.4+,
# IncrementalCooperativeConnectProtocol 4.3). In each of these protocols, the fields of later versions are after those
# of version 0, the base. Members of one group mostly have the same base.

# protocol type -> the definitions of a member's subscription (Connect: metadata) and assignment
PROTOCOLS = {
    "consumer": ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"),
    "connect": ("ConnectProtocolMetadata", "ConnectProtocolAssignment"),
}
LEFT_OVER = "bytes left over"


@cache
def _readers(name: str) -> list[tuple[MessageReader, MessageReader | None]]:
    """By version, the readers of the base and of the fields after it (None: there are none), once a process."""
    message = definition(name)
    base = [field for field in message.fields if 0 in field.versions]
    added = message.fields[len(base) :]
    return [
        (MessageReader(message, version, base), MessageReader(message, version, added) if added else None)
        for version in message.versions
    ]


class BlobTexts:
    """The JSON texts of one kind of blob."""

    def __init__(self, name: str) -> None:
        self._readers = _readers(name)
        self._base = (b"?", b"")  # bytes and text of the last base, version included

    def text(self, blob: bytes, notes: list[str]) -> bytes:
        """The blob as JSON {"version": ..., its fields}; b'' if no client could read it. Adds to `notes`."""
        if len(blob) < 2 or blob[0] > 127:
            return b""
        found: list[str] = []
        version = blob[0] << 8 | blob[1]
        base_reader, added_reader = self._readers[min(version, len(self._readers) - 1)]
        try:
            base, text = self._base
            if not blob.startswith(base):
                fields, end = base_reader.read(blob, 2, found)
                base, text = blob[:end], orjson.dumps({"version": version, **fields})
                if not found:
                    self._base = base, text
            end = len(base)
            if added_reader:
                added, end = added_reader.read(blob, end, found)
                text = text[:-1] + b"," + orjson.dumps(added)[1:]
        except Truncated:
            return b""
        if end != len(blob):
            found.append(LEFT_OVER)
        notes.extend(found)
        return text


class ProtocolTexts:
    """The texts of blobs of every protocol, and their form in a record's fields."""

    def __init__(self) -> None:
        self._texts = {name: BlobTexts(name) for names in PROTOCOLS.values() for name in names}

    def group_metadata_json(self, fields: dict[str, Any], notes: list[str]) -> bytes:
        """The JSON text of a GroupMetadataValue, whose blobs are bytes. Changes its members."""
        subscription, assignment = PROTOCOLS.get(fields["protocolType"], (None, None))
        for member in fields["members"]:
            self.put(member, "subscription", subscription, notes)
            self.put(member, "assignment", assignment, notes)
        return orjson.dumps(fields)

    def member_metadata_json(self, fields: dict[str, Any], notes: list[str]) -> bytes:
        """ConsumerGroupMemberMetadataValue as JSON. Members with the classic protocol have consumer subscriptions."""
        classic = fields["classicMemberMetadata"]
        for protocol in classic["supportedProtocols"] if classic else ():
            self.put(protocol, "metadata", "ConsumerProtocolSubscription", notes)
        return orjson.dumps(fields)

    def put(self, fields: dict[str, Any], field: str, name: str | None, notes: list[str]) -> None:
        """Replaces the bytes of a blob by the parsed one. `name`: its definition, None: no known protocol."""
        blob = fields[field]
        text = self._texts[name].text(blob, notes) if name else b""
        if text:
            fields[field] = orjson.Fragment(text)
            return
        after = list(fields.items())
        fields.clear()
        for key, value in after:  # keeps the order of the fields
            if key == field:
                key, value = f"{field}Raw", base64_text(blob)
            fields[key] = value


# Many values of one layout read together: building Python objects for hundreds of members costs more than everything
# else about a log. Each row has a position, and all of them move over one field at a time. Only plain rows are read:
# text of printable ASCII without quotes and backslashes, which JSON does not escape, possible lengths, -1 for null.
# Equal plain bytes give equal results, and different ones give different results.

Positions = NDArray[np.int64]
# Bytes of fixed width, then a length (its unpacker and its width), then that many items of a width.
Step = tuple[int, Callable[..., tuple[int]], int, int]
WIDTH = {"int16": 2, "int32": 4, "int64": 8}
SPARE = 32  # bytes readable after any position
_LENGTHS = {2: struct.Struct(">h").unpack_from, 4: struct.Struct(">i").unpack_from}
_QUOTE, _BACKSLASH, _COLON = b'"\\:'
_NUMBERS = [*map(np.array, range(SPARE))]  # NumPy takes a microsecond for a Python number, as for some hundred others
_COMMA = np.frombuffer(view_of(b"", bytearray()) + view_of(b",", bytearray()), "V16")  # none, or one
_AT_ONCE = 1 << 17  # bytes that stay in a processor's cache
_FEW = 8  # up to so many rows are faster one by one


def _skip(lengths: dict[int, NDArray], steps: list[Step], position: Positions, limit: NDArray[np.int64]) -> Positions:
    """The positions after one element each. An impossible length counts as 0: the reading will find it. `lengths`: by
    width, the number at each byte."""
    for skipped, _, width, scale in steps:
        at = np.minimum(position + _NUMBERS[skipped], limit) if skipped else position
        length = np.maximum(lengths[width][at].astype(np.int64), _NUMBERS[0])
        position = np.minimum(at + _NUMBERS[width] + (length if scale == 1 else length * scale), limit)
    return position


def _steps(field: Field, version: int) -> list[Step]:
    """The steps over one element."""
    steps, fixed = [], 0
    for part in field.fields or (field,):
        if part.fields and part is not field:
            raise ValueError(f"{part.name}: structs in structs do not occur in these messages")
        if version not in part.versions:
            continue
        is_array = part.is_array and part is not field
        if part.element in WIDTH and not is_array:
            fixed += WIDTH[part.element]
            continue
        width = 2 if part.element == "string" else 4
        steps.append((fixed, _LENGTHS[width], width, WIDTH[part.element] if is_array else 1))
        fixed = 0
    if fixed:
        raise ValueError(f"{field.name}: ends with a field of fixed width, which does not occur in these messages")
    return steps


def consecutive(start: Positions, count: Positions, width: int) -> tuple[Positions, Positions]:
    """Positions of `count` items of one width from each start, and the row of each."""
    row = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(row)) - (np.cumsum(count) - count)[row]
    return start[row] + width * number, row


# GroupMetadata values of consumer groups as JSON texts, many together in lock-step; all elements of one kind are read
# as one column, according to the definitions. A text consists of pieces, and Arrow copies all pieces of all texts at
# once. Only plain values are read: at most MOST_FIELDS bytes, versions 0 to 3, protocol type `consumer`, blobs that are
# read to their last byte, no bytes left over. Others are null, for the record-by-record readers, which give the same
# texts for plain values.

PLAIN_START = np.frombuffer(b"\x00\x08consumer", np.uint8)
PLAIN_VERSIONS = range(4)
_BLOBS = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


def group_metadata_texts(data: NDArray[np.uint8], starts: Positions, lengths: Positions) -> pa.Array:
    """The JSON text of each GroupMetadataValue data[start : start + length]; null: not a plain one. 32 bytes after any
    start must be readable."""
    message = definition("GroupMetadataValue")
    # The version of each value that begins like a plain one; -1 for all others.
    head = unaligned(data, f"V{2 + len(PLAIN_START)}")[starts].view(np.uint8).reshape(-1, 2 + len(PLAIN_START))
    begins = (lengths >= 2 + len(PLAIN_START)) & (lengths <= MOST_FIELDS) & (head[:, 0] == 0)
    begins &= (head[:, 2:] == PLAIN_START).all(axis=1) & (head[:, 1] < len(PLAIN_VERSIONS))
    version = np.where(begins, head[:, 1].astype(np.int64), -1)
    texts, pieces, is_plain = Texts(data), Pieces(), begins
    for one in np.unique(version[begins]).tolist():
        rows = np.flatnonzero(version == one)
        read = _Rows(texts, starts[rows] + 2, starts[rows] + lengths[rows])
        pieces.append(Elements.of(read.struct(message.fields, one), version == one))
        is_plain[rows] = read.is_plain & (read.position == read.end)
    return texts.joined(pieces, is_plain)


class Elements(NamedTuple):
    """`lengths[i]` elements in row i, of these pieces. `ends`: 0, and the pieces up to the end of each element.

    The texts `{"a":[x,y]}` and `{"a":[]}` are b'{"a":[', then Elements(pieces=[nothing and a comma, x and y],
    lengths=[2, 0], ends=[0, 2, 4]), then b']}'. `of_rows` is [0, 4, 4], so Arrow copies 1 + 4 + 1 and 1 + 0 + 1 views.
    """

    pieces: Pieces
    lengths: Positions
    ends: Positions

    @classmethod
    def of(cls, pieces: Pieces, count: NDArray[np.integer] | NDArray[np.bool_]) -> Elements:
        """Neighbouring constants become one."""
        merged, size = Pieces(), np.zeros(int(count.sum()), np.int64)
        for piece in pieces:
            if merged and isinstance(piece, bytes) and isinstance(merged[-1], bytes):
                merged[-1] += piece
            else:
                merged.append(piece)
                size += np.diff(piece.of_rows) if isinstance(piece, Elements) else 1
        return cls(merged, count.astype(np.int64), np.append(0, np.cumsum(size)))

    @property
    def of_rows(self) -> Positions:
        """The same of each row's elements."""
        return np.asarray(self.ends[np.append(0, np.cumsum(self.lengths))])


Pieces = list[bytes | Views | Elements]  # constants, a text for each row, elements


class Texts:
    """Makes texts from pieces that are in `data`, or are made here."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data, self._more = data, bytearray()

    def of_each(self, values: pa.Array, text: Callable[[Any], str]) -> Views:
        """The text of each value. They repeat, and making one costs ten times as much as looking it up."""
        encoded = values.dictionary_encode("encode")
        made = (view_of(text(each).encode(), self._more) for each in encoded.dictionary.to_pylist())
        return np.asarray(np.frombuffer(b"".join(made), "V16")[encoded.indices.to_numpy()])

    def joined(self, pieces: Pieces, is_plain: NDArray[np.bool_]) -> pa.Array:
        """The text of each row; null if it is not plain, or if a piece of it is not."""
        rows = Elements.of(pieces, np.ones(len(is_plain), np.int64))
        quotes, ends, found = self._copied(rows)
        lots = [found[at : at + _AT_ONCE] for at in range(0, len(found), _AT_ONCE)]
        if sum(np.count_nonzero(lot == _QUOTE) for lot in lots) != quotes or any(_is_odd(lot).any() for lot in lots):
            _, borders, pieces_alone = self._copied(rows, constants=False)
            odd = np.flatnonzero(_is_odd(pieces_alone) | (pieces_alone == _QUOTE))
            is_plain[np.searchsorted(borders, odd, side="right") - 1] = False
        validity = pa.py_buffer(np.packbits(is_plain, bitorder="little"))
        return pa.Array.from_buffers(pa.string(), len(is_plain), [validity, pa.py_buffer(ends), pa.py_buffer(found)])

    def _copied(self, rows: Elements, *, constants: bool = True) -> tuple[int, NDArray[np.int32], NDArray[np.uint8]]:
        """The number of quotes in constants; where the text of each row ends, after a 0; and all texts."""
        views = np.empty(int(rows.ends[-1]), "V16")
        quotes = self._fill(views, rows.ends[:-1], rows.pieces, constants)
        texts = copy(views, self.data, self._more)
        ends = np.frombuffer(texts.buffers()[1], np.int32)[rows.ends] if len(texts) else rows.ends.astype(np.int32)
        return quotes, ends, np.frombuffer(texts.buffers()[2] or b"", np.uint8)[: ends[-1]]

    def _fill(self, views: Views, at: Positions, pieces: Pieces, constants: bool) -> int:
        """Puts the pieces of each row at its place in `views`. Returns the number of quotes in constants."""
        quotes = 0
        for piece in pieces:
            if isinstance(piece, Elements):
                ends = piece.of_rows
                places = np.repeat(at - ends[:-1], piece.lengths) + piece.ends[:-1]
                quotes += self._fill(views, places, piece.pieces, constants)
                at = at + np.diff(ends)
                continue
            if isinstance(piece, bytes):
                quotes += piece.count(_QUOTE) * len(at)
                views[at] = np.void(view_of(piece if constants else b"", self._more))
            else:
                views[at] = piece
            at = at + 1
        return quotes


def _is_odd(texts: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which bytes, of other than quotes, JSON escapes or are not ASCII."""
    return np.asarray((texts - np.uint8(0x20) > 0x5E) | (texts == _BACKSLASH))


class _Rows:
    """Rows of one layout that are read as JSON texts: the position and the end of each, and whether it is plain so far.
    If not, its values are meaningless; its position stays within the buffer."""

    def __init__(self, texts: Texts, position: Positions, end: Positions) -> None:
        self._texts, self.data = texts, texts.data
        self.position = position
        self.end = end
        self.is_plain = np.ones(len(position), np.bool_)

    def struct(self, fields: Sequence[Field], version: int, first: bytes = b"{") -> Pieces:
        """The JSON object of the fields. Moves the position after them."""
        pieces = Pieces([first])
        for field in fields:
            if field.name in _BLOBS:
                pieces += [*self._blob(field), b","]
                continue
            value = self._value(field, version) if version in field.versions else [orjson.dumps(field.default)]
            pieces += [f'"{field.name}":'.encode(), *value, b","]
        return [*pieces[:-1], b"}"]

    def _value(self, field: Field, version: int) -> Pieces:
        if field.is_array:
            return [b"[", self._array(field, version), b"]"]
        return self._one(field.element, version in field.nullable)

    def _one(self, kind: str, is_nullable: bool) -> Pieces:
        """A number, a text, or bytes as base64."""
        if kind in WIDTH:
            return [self._texts.of_each(pa.array(self.integer(kind)), str)]
        length = self.length("int16" if kind == "string" else "int32", is_nullable)
        is_null, start = length < 0, self.position
        if is_null.all():
            return [b"null"]
        self.advance(np.maximum(length, 0))
        if kind == "string":
            texts = views_of(self.data, start, length)
        else:  # few values have any
            texts = self._texts.of_each(binary_slices(self.data, start, length), lambda raw: base64_text(raw or b""))
        if not is_null.any():
            return [b'"', texts, b'"']
        return [Elements.of([b"null"], is_null), Elements.of([b'"', texts[~is_null], b'"'], ~is_null)]

    def _array(self, field: Field, version: int) -> Elements:
        """The elements, with commas between them. Moves the position after them."""
        count = self.length("int32", is_nullable=False)
        if field.element in WIDTH:
            at, row = consecutive(self.position, count, WIDTH[field.element])
            self.advance(count * WIDTH[field.element])
        else:
            at, row = self.walk(field, version, count)
        elements = _Rows(self._texts, np.minimum(at, self.data.size - SPARE), self.end[row])
        its = elements.struct(field.fields, version) if field.fields else elements._one(field.element, False)
        self.is_plain[row[~elements.is_plain]] = False
        return Elements.of([_COMMA[np.append(0, row[1:] == row[:-1])[: len(row)]], *its], count)

    def _blob(self, field: Field) -> Pieces:
        """`"name":object` of the protocol blob in a field, or `"nameRaw":""` if it has no bytes."""
        length = self.length("int32", is_nullable=False)
        start, end = self.position, self.position + length
        self.advance(length)
        message = definition(_BLOBS[field.name])
        version = np.where(length >= 2, unaligned(self.data, ">i2")[start].astype(np.int64), -1)
        is_empty = length == 0
        self.is_plain &= is_empty | ((version >= 0) & (version < len(message.versions)))
        pieces = Pieces([Elements.of([f'"{field.name}Raw":""'.encode()], is_empty)])
        for one in np.unique(version[self.is_plain & ~is_empty]).tolist():
            chosen = (version == one) & self.is_plain & ~is_empty
            rows = np.flatnonzero(chosen)
            blob = _Rows(self._texts, start[rows] + 2, end[rows])
            its = blob.struct(message.fields, one, f'"{field.name}":{{"version":{one},'.encode())
            self.is_plain[rows[~blob.is_plain | (blob.position != blob.end)]] = False
            if len(rows) == len(length):
                return its
            pieces.append(Elements.of(its, chosen))
        return pieces

    def integer(self, kind: str) -> NDArray:
        value = unaligned(self.data, f">i{WIDTH[kind]}")[self.position]
        self.advance(WIDTH[kind])
        return value.astype(np.int64)

    def length(self, kind: str, is_nullable: bool) -> Positions:
        """The lengths at the position; -1 (null) only if nullable. An impossible one: 0, and the row is not plain."""
        length = self.integer(kind)
        is_wrong = (length > self.end - self.position) | (length < (-1 if is_nullable else 0))
        self.is_plain &= ~is_wrong
        return np.where(is_wrong, 0, length)

    def advance(self, width: int | Positions) -> None:
        self.position = self.position + width
        is_beyond = self.position > self.end
        if is_beyond.any():
            self.is_plain &= ~is_beyond
            self.position = np.minimum(self.position, self.data.size - SPARE)

    def walk(self, field: Field, version: int, count: Positions) -> tuple[Positions, Positions]:
        """The position of each element, and its row. Moves the position after the last element."""
        first = np.cumsum(count) - count
        limit = np.array(self.data.size - SPARE)
        at = np.full(int(count.sum()), limit, np.int64)
        steps, active, i = _steps(field, version), np.flatnonzero(count > 0), 0
        lengths = {width: unaligned(self.data, f">i{width}") for width in _LENGTHS}
        position = self.position.copy()
        while active.size > _FEW:
            here = position[active]
            at[first[active] + i] = here
            position[active] = _skip(lengths, steps, here, limit)
            i += 1
            active = active[(count[active] > i) & (position[active] < self.end[active])]
        for row in active.tolist():
            elements = range(int(first[row]) + i, int(first[row] + count[row]))
            position[row] = self._walk_one(steps, elements, at, int(position[row]), int(self.end[row]))
        self.position = position
        self.advance(0)
        return at, np.repeat(np.arange(len(count)), count)

    def _walk_one(self, steps: list[Step], elements: range, at: Positions, position: int, end: int) -> int:
        """The same for one row's `elements`, which begin at `position`."""
        data, limit, found = self.data.data, self.data.size - SPARE, []
        for _ in elements:
            if position >= end:
                break
            found.append(position)
            for skipped, unpack, width, scale in steps:
                position = min(position + skipped, limit)
                (length,) = unpack(data, position)
                position += width + max(length, 0) * scale
            position = min(position, limit)
        at[elements.start : elements.start + len(found)] = found
        return position


# GroupMetadata values of consumer groups as columns, from their JSON texts: one row per value, one per member.
#
# The texts are those of group_metadata.py, in `group_records.value`. A blob without bytes means that no topics are
# known and no partitions are assigned. Values with a blob that no client could read are left to readers of single
# values, because the columns have no place for its bytes. Texts with escapes are left to them, too. In a text without
# escapes every other quote begins a string, and fields are found by the length of their keys and by their order.

# The beginning of the texts.
CONSUMER_GROUP = '{"protocolType":"consumer",'

ASSIGNED = pa.list_(
    pa.struct(
        [("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32()), ("assignment_epoch", pa.int32())]
    )
)
# The columns of members. Topics are sorted and unique; partitions are sorted by topic and number.
MEMBER_COLUMNS = pa.schema(
    [
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),  # -1: the version lacks it
        ("session_timeout_ms", pa.int32()),
        ("value_version", pa.int16()),
        ("rack_id", pa.string()),
        ("subscribed_topics", pa.list_(pa.string())),
        ("assigned_partitions", ASSIGNED),
        ("user_data", pa.string()),  # base64
    ]
)


class SnapshotColumns(NamedTuple):
    """n values and their members: those of value i are the rows first_member[i] to first_member[i] + member_count[i].
    `is_readable` bool[n]: every blob is empty or readable, else its members are meaningless."""

    is_readable: NDArray[np.bool_]
    values: pa.Table  # without their members, in Kafka's JSON spelling
    first_member: NDArray[np.int64]
    member_count: NDArray[np.int64]
    members: pa.RecordBatch


def snapshot_columns(texts: pa.StringArray, value_versions: pa.Int16Array) -> SnapshotColumns:
    """The values of these texts, all of consumer groups and without escapes, and of the versions in which they were
    written."""
    strings = _Strings(texts)
    time, first = strings.only("currentStateTimestamp"), strings.only("rebalanceTimeout") - 4
    values = {
        "generation": strings.numbers(time - 3, pa.int32()),
        "protocol": strings.texts(time - 2),
        "leader": strings.texts(time - 1),
        "currentStateTimestamp": strings.numbers(time, pa.int64()),
    }
    end = len(strings.keys)
    count = np.diff(np.searchsorted(first, np.append(time, end)))
    of = np.repeat(np.arange(len(texts)), count)
    begins = np.sort(np.concatenate([first, time - 4, [end]]))
    last = begins[np.searchsorted(begins, first, side="right")] - 1
    # A blob without bytes, or one that cannot be read, has `Raw` in its key.
    subscription, assignment = first + 6, last.copy()
    has_topics = strings.lengths[subscription] == len("subscription")
    has_partitions = strings.lengths[last] != len("assignmentRaw")
    assignment[has_partitions] = strings.only("assignedPartitions") - 2
    is_read = (has_topics | strings.is_empty(subscription)) & (has_partitions | strings.is_empty(assignment))
    is_readable = np.ones(len(texts), np.bool_)
    is_readable[of[~is_read]] = False
    members = [
        *(strings.texts(first + number) for number in range(4)),
        *(strings.numbers(first + number, pa.int32()) for number in (4, 5)),
        value_versions.take(pa.array(of)),
        strings.texts(assignment - 1, has_topics),
        strings.sets(np.where(has_topics, subscription + 2, first), has_topics),
        _assigned_partitions(strings, assignment + 3, np.maximum(last - assignment - 3, 0) // 2),
        strings.texts(np.where(has_topics, subscription + 3, first), has_topics),
    ]
    batch = pa.RecordBatch.from_arrays(members, schema=MEMBER_COLUMNS)
    return SnapshotColumns(is_readable, pa.table(values), np.cumsum(count) - count, count, batch)


class _Strings:
    """The strings in the texts: `start` and `end` of each in `data`. `keys`: which of them are keys, `lengths`: of
    each key. In the methods keys are given by their index in `keys`."""

    def __init__(self, texts: pa.StringArray) -> None:
        offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        self.data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
        quotes = np.flatnonzero(self.data == _QUOTE)
        self.start, self.end = quotes[::2] + 1, quotes[1::2]
        # Every other element is a string; those between them are not.
        borders = quotes.astype(np.int32)
        borders[::2] += 1
        parts = [None, pa.py_buffer(borders), texts.buffers()[2].slice(int(offsets[0]))]
        self._parts = pa.Array.from_buffers(pa.string(), len(borders) - 1, parts)
        self.keys = np.flatnonzero(self.data[self.end + 1] == _COLON)
        self.lengths = (self.end - self.start)[self.keys]

    def only(self, name: str) -> Positions:
        """The keys of that name, if there is no other one of its length."""
        return np.flatnonzero(self.lengths == len(name))

    def is_empty(self, keys: Positions) -> NDArray[np.bool_]:
        """Whether the value of each, which is a string, has no characters."""
        return np.asarray(self.data[self.end[self.keys[keys]] + 3] == _QUOTE)

    def texts(self, keys: Positions, is_given: NDArray[np.bool_] | bool = True) -> pa.Array:
        """The value of each; null if it is no string, or not given."""
        at = self.keys[keys]
        return self._at(2 * at + 2, (self.data[self.end[at] + 2] != _QUOTE) | ~np.asarray(is_given))

    def numbers(self, keys: Positions, kind: pa.DataType) -> pa.Array:
        return _read(self._at(2 * self.keys[keys] + 1), lambda text: int(text[2:-2]), kind)

    def number_lists(self, keys: Positions) -> pa.ListArray:
        """The numbers of each list that ends its object."""
        return _read(self._at(2 * self.keys[keys] + 1), lambda text: orjson.loads(text[2:-4]), pa.list_(pa.int32()))

    def sets(self, keys: Positions, is_given: NDArray[np.bool_]) -> pa.ListArray:
        """The strings of each list, sorted and without duplicates; null if it is not given."""
        at = self.keys[keys]
        start, end = self.end[at] + 3, self.start[self.keys[keys + 1]] - 3
        texts = binary_slices(self.data, start, np.where(is_given, end - start, -1)).cast(pa.string())
        return _read(texts, lambda text: sorted({*orjson.loads(f"[{text}]")}), pa.list_(pa.string()))

    def _at(self, parts: Positions, is_null: NDArray[np.bool_] | None = None) -> pa.Array:
        return self._parts.take(pa.array(parts, mask=is_null))


def _read(texts: pa.Array, read: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """The value that `read` makes of each text. They repeat: members of a group have the same topics and timeouts."""
    encoded = texts.dictionary_encode()
    return pa.array(map(read, encoded.dictionary.to_pylist()), kind).take(encoded.indices)


def _assigned_partitions(strings: _Strings, first: Positions, count: Positions) -> pa.ListArray:
    """The partitions of each member, one by one, sorted; `count`: its topics, `first`: the key of the first one."""
    keys, member = consecutive(first, count, 2)
    topics, partitions = strings.texts(keys), strings.number_lists(keys + 1)
    topic, partition = pc.list_parent_indices(partitions).to_numpy(), partitions.flatten()
    row = member[topic]
    place = (ranks(topics.dictionary_encode())[topic] << 32) + partition.to_numpy()
    if not (np.diff(place) >= 0)[row[1:] == row[:-1]].all():
        order = np.lexsort((place, row))
        topic, partition = topic[order], partition.take(pa.array(order))
    no_id, no_epoch = pa.nulls(len(topic), pa.string()), pa.nulls(len(topic), pa.int32())
    elements = pa.StructArray.from_arrays(
        [topics.take(pa.array(topic)), no_id, partition, no_epoch], fields=list(ASSIGNED.value_type)
    )
    return pa.ListArray.from_arrays(list_offsets(np.bincount(row, minlength=len(first))), elements, type=ASSIGNED)


# User data of assignors in a member's subscription, as JSON text: that of Kafka Streams (message file
# SubscriptionInfoData) and of the sticky assignors (schemas in StickyAssignor, CooperativeStickyAssignor). Others' data
# is opaque.

# By the name of the chosen protocol. Without a version in the bytes, the newest one that fits exactly counts.
_STREAMS = "stream"
_DEFINITIONS = {
    "sticky": "StickyAssignorUserData",
    "cooperative-sticky": "CooperativeStickyAssignorUserData",
    _STREAMS: "SubscriptionInfoData",
}


@lru_cache(4096)
def user_data_json(protocol: str | None, user_data: bytes | None) -> str | None:
    """The data as JSON, with defaults for fields that its version lacks; None: none, or not known."""
    name = _DEFINITIONS.get(protocol or "")
    if name is None or not user_data:
        return None
    versions = reversed(definition(name).versions)
    for version in [int.from_bytes(user_data[:4])] if protocol == _STREAMS else versions:
        if version in definition(name).versions:
            notes: list[str] = []
            try:
                fields, end = reader(name, version).read(user_data, 0, notes)
            except Truncated:
                continue
            if end == len(user_data) and not notes:
                return orjson.dumps(fields).decode()
    return None
