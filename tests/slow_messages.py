"""The slow, obvious decoder of GroupMetadata and offset commits, which kgroups_spark.messages reads as columns, too.

They share no code but that for texts, of which tests/messages/test_schema.py has OpenJDK's answers. It was written from
the notes on Kafka's formats (fields in their order), not from the message files. Everything is read byte by byte from a
cursor; any error raises Bad.
"""

from __future__ import annotations

import base64

from kgroups_spark.messages.schema import decode_text

MAX_STRING = 32767


class Bad(Exception):
    """The bytes are too few, or a length or a null is impossible."""


class Cursor:
    def __init__(self, data, flexible=False):
        self.data, self.at, self.flexible, self.exact = data, 0, flexible, True

    def left(self):
        return len(self.data) - self.at

    def take(self, count):
        if count < 0 or count > self.left():
            raise Bad(f"{count} bytes wanted, {self.left()} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def integer(self, count, signed=True):
        return int.from_bytes(self.take(count), "big", signed=signed)

    def i16(self):
        return self.integer(2)

    def i32(self):
        return self.integer(4)

    def i64(self):
        return self.integer(8)

    def uvarint(self):
        """Up to five bytes, as Java's int: larger numbers wrap."""
        total = 0
        for i in range(5):
            byte = self.integer(1, signed=False)
            total += (byte % 128) * 128**i
            if byte < 128:
                total %= 2**32
                return total - 2**32 if total >= 2**31 else total
        raise Bad("uvarint of more than five bytes")

    def length(self, width):
        """A length or count, None for null."""
        if not self.flexible:
            length = self.integer(width)
            return None if length < 0 else length
        length = self.uvarint()
        if length == -(2**31):
            raise Bad("Java's length - 1 wraps to the greatest int")
        return None if length <= 0 else length - 1

    def bytes_or_null(self):
        length = self.length(4)
        return None if length is None else self.take(length)

    def string_or_null(self):
        length = self.length(2)
        if length is None:
            return None
        if length > MAX_STRING:
            raise Bad("string too long")
        text, proper = decode_text(self.take(length))
        self.exact = self.exact and proper
        return text

    def array_or_null(self, element):
        count = self.length(4)
        if count is None:
            return None
        if count > self.left():
            raise Bad("more elements than bytes")
        return [element() for _ in range(count)]

    def string(self):
        return not_null(self.string_or_null())

    def bytes(self):
        return not_null(self.bytes_or_null())

    def array(self, element):
        return not_null(self.array_or_null(element))

    def ints(self):
        return self.array(self.i32)

    def strings(self):
        return self.array(self.string)

    def tags(self, known=None):
        """The values of the known tags in the tag section. Sizes of known tags are not used, as in Java."""
        found = {}
        if not self.flexible:
            return found
        previous = -1
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            begin = self.at
            if known and tag in known:
                found[tag] = known[tag]()
                if self.at - begin != size or tag <= previous:
                    self.exact = False
            else:
                self.take(size)
                self.exact = False
            previous = tag
        return found


def not_null(value):
    if value is None:
        raise Bad("null")
    return value


def b64(data):
    return None if data is None else base64.standard_b64encode(data).decode()


# ---- protocol blobs


def subscription(c, version):
    out = {"topics": c.strings(), "userData": b64(c.bytes_or_null())}
    out["ownedPartitions"] = topics_and_partitions(c) if version >= 1 else []
    out["generationId"] = c.i32() if version >= 2 else -1
    return out | {"rackId": c.string_or_null() if version >= 3 else None}


def assignment(c, version):
    return {"assignedPartitions": topics_and_partitions(c), "userData": b64(c.bytes_or_null())}


def topics_and_partitions(c):
    return c.array(lambda: {"topic": c.string(), "partitions": c.ints()})


def connect_metadata(c, version):
    out = {"url": c.string(), "configOffset": c.i64()}
    return out | {"allocation": b64(c.bytes_or_null()) if version >= 1 else None}


def connect_assignment(c, version):
    def connectors():
        return c.array_or_null(lambda: {"connector": c.string(), "tasks": c.ints()})

    out = {"error": c.i16(), "leader": c.string(), "leaderUrl": c.string(), "configOffset": c.i64()}
    out["assignment"] = connectors() if version >= 1 else not_null(connectors())
    out["revoked"] = connectors() if version >= 1 else None
    return out | {"delay": c.i32() if version >= 1 else 0}


BLOBS = {"consumer": (subscription, assignment), "connect": (connect_metadata, connect_assignment)}


def read_blob(blob, read):
    """(fields or None, exact); None: no client could read it."""
    c = Cursor(blob)
    try:
        version = c.i16()
        if version < 0:
            return None, True
        out = {"version": version} | read(c, version)
    except Bad:
        return None, True
    return out, c.exact and c.left() == 0


# ---- values


def group_metadata(c, version):
    names = ("protocolType", "generation", "protocol", "leader")
    out = dict(zip(names, (c.string(), c.i32(), c.string_or_null(), c.string_or_null()), strict=True))
    out["currentStateTimestamp"] = c.i64() if version >= 2 else -1
    readers = BLOBS.get(out["protocolType"], (None, None))

    def member():
        m = {"memberId": c.string(), "groupInstanceId": c.string_or_null() if version >= 3 else None}
        m["clientId"], m["clientHost"] = c.string(), c.string()
        m["rebalanceTimeout"] = c.i32() if version >= 1 else -1
        m["sessionTimeout"] = c.i32()
        for name, read in zip(("subscription", "assignment"), readers, strict=True):
            blob = c.bytes()
            parsed, exact = (None, True) if read is None else read_blob(blob, read)
            c.exact = c.exact and exact
            m |= {name + "Raw": b64(blob)} if parsed is None else {name: parsed}
        c.tags()
        return m

    out["members"] = c.array(member)
    c.tags()
    return out


def offset_commit(c, version):
    out = {"offset": c.i64(), "leader_epoch": c.i32() if version >= 3 else -1, "metadata": c.string()}
    out |= {"commit_timestamp": c.i64(), "expire_timestamp": c.i64() if version == 1 else -1}
    return out | {"topic_id": c.tags({0: lambda: c.take(16)}).get(0, bytes(16))}


def slow_group_metadata(key, value):
    """A dict with `outcome` (ok, tombstone or a reason) and the fields that could be read, of a key of type 2."""
    return slow_record(
        {"record_type": 2, "record_name": "GroupMetadata"},
        key,
        lambda c: {"group_id": c.string()},
        value,
        lambda c, version: {"value": group_metadata(c, version), "layout": ""},
    )


def slow_offset_commit(key, value):
    """The same for types 0 and 1."""
    out = {"record_type": int.from_bytes(key[:2], "big")}
    names = ("group_id", "topic", "partition")
    return slow_record(
        out,
        key,
        lambda c: dict(zip(names, (c.string(), c.string(), c.i32()), strict=True)),
        value,
        offset_commit,
    )


def slow_record(out, key, read_key, value, read_value):
    c = Cursor(key[2:])
    try:
        out |= read_key(c)
    except Bad:
        return out | {"outcome": "truncated"}
    exact = c.exact and c.left() == 0
    if value is None:
        return out | {"outcome": "tombstone", "exact": exact}
    if len(value) < 2:
        return out | {"outcome": "truncated" if value else "empty_value"}
    out["version"] = version = Cursor(value).i16()
    if not 0 <= version <= 4:
        return out | {"outcome": "unknown_value_version"}
    c = Cursor(value[2:], flexible=version == 4)
    try:
        fields = read_value(c, version)
    except Bad:
        return out | {"outcome": "truncated"}
    return out | fields | {"outcome": "ok", "exact": exact and c.exact and c.left() == 0}


def java_hash(text):
    """String.hashCode, character by character."""
    result = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        result = 31 * result + unit
    return (result + 2**31) % 2**32 - 2**31


def offsets_partition(group_id, partition_count):
    """The smallest hash belongs to partition 0."""
    return abs(java_hash(group_id)) % 2**31 % partition_count
