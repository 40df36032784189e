"""The slow, obvious decoder of group and offset records, to compare with kgroups_spark.messages; they share no code.

It has one function for each layout, written from the notes on Kafka's formats (fields in their order), not from the
message files. Everything is read byte by byte from a cursor; any error raises Bad.
"""

from __future__ import annotations

import base64

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

    def i8(self):
        return self.integer(1)

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
        text, proper = java_text(self.take(length))
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

    def uuid(self):
        return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")

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


def java_text(data):
    """new String(data, UTF_8) and whether data is proper UTF-8; written after the JDK's decodeUTF8_UTF16."""
    out, i, proper, n = [], 0, True, len(data)

    def follows(k):
        return k < n and 0x80 <= data[k] <= 0xBF

    while i < n:
        b = data[i]
        if b < 0x80:
            out.append(chr(b))
            i += 1
            continue
        if 0xC2 <= b <= 0xDF:
            want, first_ok = 2, follows(i + 1)
        elif 0xE0 <= b <= 0xEF:
            want, first_ok = 3, follows(i + 1) and not (b == 0xE0 and data[i + 1] < 0xA0)
        elif 0xF0 <= b <= 0xF4:
            first_ok = follows(i + 1)
            first_ok = first_ok and not (b == 0xF0 and data[i + 1] < 0x90) and not (b == 0xF4 and data[i + 1] > 0x8F)
            want = 4
        else:
            want, first_ok = 1, False
        have = 1
        if first_ok:
            have = 2
            while have < want and follows(i + have):
                have += 1
        if want > 1 and have == want:
            code = b & (0x7F >> want)
            for k in range(1, want):
                code = code << 6 | data[i + k] & 0x3F
            if 0xD800 <= code <= 0xDFFF:
                out.append("\ufffd")
                proper = False
            else:
                out.append(chr(code))
        else:
            out.append("\ufffd")
            proper = False
        i += have
    return "".join(out), proper


def b64(data):
    return None if data is None else base64.standard_b64encode(data).decode()


# ---- protocol blobs


def subscription(blob):
    """(fields or None, exact) of a consumer's subscription."""
    c = Cursor(blob)
    try:
        version = c.i16()
        if version < 0:
            return None, True
        v = min(version, 3)
        out = {"version": version, "topics": c.strings(), "userData": b64(c.bytes_or_null())}
        out["ownedPartitions"] = c.array(lambda: {"topic": c.string(), "partitions": c.ints()}) if v >= 1 else []
        out["generationId"] = c.i32() if v >= 2 else -1
        out["rackId"] = c.string_or_null() if v >= 3 else None
    except Bad:
        return None, True
    return out, c.exact and c.left() == 0


def assignment(blob):
    c = Cursor(blob)
    try:
        version = c.i16()
        if version < 0:
            return None, True
        out = {"version": version}
        out["assignedPartitions"] = c.array(lambda: {"topic": c.string(), "partitions": c.ints()})
        out["userData"] = b64(c.bytes_or_null())
    except Bad:
        return None, True
    return out, c.exact and c.left() == 0


def connect_metadata(blob):
    c = Cursor(blob)
    try:
        version = c.i16()
        if version < 0:
            return None, True
        out = {"version": version, "url": c.string(), "configOffset": c.i64()}
        out["allocation"] = b64(c.bytes_or_null()) if version >= 1 else None
    except Bad:
        return None, True
    return out, c.exact and c.left() == 0


def connect_assignment(blob):
    c = Cursor(blob)

    def connectors():
        return c.array_or_null(lambda: {"connector": c.string(), "tasks": c.ints()})

    try:
        version = c.i16()
        if version < 0:
            return None, True
        out = {"version": version, "error": c.i16(), "leader": c.string(), "leaderUrl": c.string()}
        out["configOffset"] = c.i64()
        out["assignment"] = connectors()
        if version == 0:
            not_null(out["assignment"])
        out["revoked"] = connectors() if version >= 1 else None
        out["delay"] = c.i32() if version >= 1 else 0
    except Bad:
        return None, True
    return out, c.exact and c.left() == 0


BLOBS = {"consumer": (subscription, assignment), "connect": (connect_metadata, connect_assignment)}


# ---- values, one function a record type: Cursor -> fields


def group_metadata(c, version):
    out = {
        "protocolType": c.string(),
        "generation": c.i32(),
        "protocol": c.string_or_null(),
        "leader": c.string_or_null(),
    }
    out["currentStateTimestamp"] = c.i64() if version >= 2 else -1
    readers = BLOBS.get(out["protocolType"], (lambda blob: (None, True),) * 2)
    raw_notes = []

    def member():
        m = {"memberId": c.string(), "groupInstanceId": c.string_or_null() if version >= 3 else None}
        m["clientId"], m["clientHost"] = c.string(), c.string()
        m["rebalanceTimeout"] = c.i32() if version >= 1 else -1
        m["sessionTimeout"] = c.i32()
        for name, read in zip(("subscription", "assignment"), readers, strict=True):
            put_blob(m, name, c.bytes(), read, raw_notes)
        c.tags()
        return m

    out["members"] = c.array(member)
    c.tags()
    c.exact = c.exact and all(raw_notes)
    return out


def put_blob(target, name, blob, read, notes):
    parsed, exact = read(blob)
    notes.append(exact)
    if parsed is None:
        target[name + "Raw"] = b64(blob)
    else:
        target[name] = parsed


def consumer_group_metadata(c):
    out = {"epoch": c.i32()}
    return out | {"metadataHash": c.tags({0: c.i64}).get(0, 0)}


def topic_metadata(c):
    def racks():
        out = {"partition": c.i32(), "racks": c.strings()}
        c.tags()
        return out

    def topic():
        out = {"topicId": c.uuid(), "topicName": c.string(), "numPartitions": c.i32()}
        out["partitionMetadata"] = c.array(racks)
        c.tags()
        return out

    return c.array(topic)


def partition_metadata(c):
    out = {"topics": topic_metadata(c)}
    c.tags()
    return out


def partition_metadata_3_7(c):
    out = {"epoch": c.i32(), "topics": topic_metadata(c)}
    c.tags()
    return out


def member_start(c):
    out = {
        "instanceId": c.string_or_null(),
        "rackId": c.string_or_null(),
        "clientId": c.string(),
        "clientHost": c.string(),
    }
    out["subscribedTopicNames"] = c.strings()
    out["subscribedTopicRegex"] = c.string_or_null()
    out["rebalanceTimeoutMs"] = c.i32()
    out["serverAssignor"] = c.string_or_null()
    return out


def member_metadata(c):
    out = member_start(c)
    notes = []

    def protocol():
        p = {"name": c.string()}
        put_blob(p, "metadata", c.bytes(), subscription, notes)
        c.tags()
        return p

    def classic():
        if c.uvarint() <= 0:
            return None
        value = {"sessionTimeoutMs": c.i32(), "supportedProtocols": c.array(protocol)}
        c.tags()
        return value

    empty = {"sessionTimeoutMs": 0, "supportedProtocols": []}  # Kafka: no tag is no null
    out["classicMemberMetadata"] = c.tags({0: classic}).get(0, empty)
    c.exact = c.exact and all(notes)
    return out


def member_metadata_3_7(c):
    def assignor():
        a = {"name": c.string(), "minimumVersion": c.i16(), "maximumVersion": c.i16(), "reason": c.i8()}
        a |= {"version": c.i16(), "metadata": b64(c.bytes())}
        c.tags()
        return a

    out = member_start(c) | {"assignors": c.array(assignor)}
    c.tags()
    return out | {"classicMemberMetadata": None}


def target_metadata(c):
    out = {"assignmentEpoch": c.i32()}
    return out | {"assignmentTimestamp": c.tags({0: c.i64}).get(0, 0)}


def topic_partitions(c):
    out = {"topicId": c.uuid(), "partitions": c.ints()}
    c.tags()
    return out


def target_member(c):
    out = {"topicPartitions": c.array(lambda: topic_partitions(c))}
    c.tags()
    return out


def target_member_3_7(c):
    out = {"error": c.i8(), "topicPartitions": c.array(lambda: topic_partitions(c))}
    out |= {"metadataVersion": c.i16(), "metadataBytes": b64(c.bytes())}
    c.tags()
    return out


def with_epochs(c, name, read):
    out = {name: read(), "partitions": c.ints()}
    return out | {"assignmentEpochs": c.tags({0: lambda: c.array_or_null(c.i32)}).get(0)}


def current_member(c):
    out = {"memberEpoch": c.i32(), "previousMemberEpoch": c.i32(), "state": c.i8()}
    out["assignedPartitions"] = c.array(lambda: with_epochs(c, "topicId", c.uuid))
    out["partitionsPendingRevocation"] = c.array(lambda: with_epochs(c, "topicId", c.uuid))
    c.tags()
    return out


def current_member_3_7(c):
    out = {"memberEpoch": c.i32(), "previousMemberEpoch": c.i32(), "targetMemberEpoch": c.i32()}
    for name in ("assignedPartitions", "partitionsPendingRevocation", "partitionsPendingAssignment"):
        out[name] = c.array(lambda: topic_partitions(c))
    out |= {"error": c.i8(), "metadataVersion": c.i16(), "metadataBytes": b64(c.bytes())}
    c.tags()
    return out | {"state": None}


def share_member(c):
    out = {"rackId": c.string_or_null(), "clientId": c.string(), "clientHost": c.string()}
    out["subscribedTopicNames"] = c.strings()
    c.tags()
    return out


def share_metadata(c):
    out = {"epoch": c.i32(), "metadataHash": c.i64()}
    c.tags()
    return out


def share_metadata_4_0(c):
    out = {"epoch": c.i32()}
    c.tags()
    return out | {"metadataHash": None}


def share_current(c):
    out = {"memberEpoch": c.i32(), "previousMemberEpoch": c.i32(), "state": c.i8()}
    out["assignedPartitions"] = c.array(lambda: topic_partitions(c))
    c.tags()
    return out


def share_topic(c, with_partitions):
    out = {"topicId": c.uuid(), "topicName": c.string()}
    if with_partitions:
        out["partitions"] = c.ints()
    c.tags()
    return out


def share_state(c):
    out = {"initializingTopics": c.array(lambda: share_topic(c, True))}
    return out | share_state_rest(c)


def share_state_4_0(c):
    return share_state_rest(c) | {"initializingTopics": []}


def share_state_rest(c):
    out = {"initializedTopics": c.array(lambda: share_topic(c, True))}
    out["deletingTopics"] = c.array(lambda: share_topic(c, False))
    c.tags()
    return out


def regular_expression(c):
    out = {"topics": c.strings(), "version": c.i64(), "timestamp": c.i64()}
    c.tags()
    return out


def key_value(c):
    out = {"key": c.string(), "value": c.string()}
    c.tags()
    return out


def streams_metadata(c):
    out = {"epoch": c.i32(), "metadataHash": c.i64()}
    tags = c.tags({0: c.i32, 1: lambda: c.array_or_null(lambda: key_value(c)), 2: c.i32, 3: c.i32})
    out["validatedTopologyEpoch"] = tags.get(0, -1)
    out["lastAssignmentConfigs"] = tags.get(1)
    out["storedDescriptionTopologyEpoch"] = tags.get(2, -1)
    return out | {"failedDescriptionTopologyEpoch": tags.get(3, -1)}


def streams_member(c):
    out = {
        "instanceId": c.string_or_null(),
        "rackId": c.string_or_null(),
        "clientId": c.string(),
        "clientHost": c.string(),
    }
    out |= {"rebalanceTimeoutMs": c.i32(), "topologyEpoch": c.i32(), "processId": c.string(), "userEndpoint": None}
    if c.i8() >= 0:
        out["userEndpoint"] = {"host": c.string(), "port": c.integer(2, signed=False)}
        c.tags()
    out["clientTags"] = c.array(lambda: key_value(c))
    c.tags()
    return out


def tasks(c):
    out = {"subtopologyId": c.string(), "partitions": c.ints()}
    c.tags()
    return out


def streams_target(c):
    out = {name: c.array(lambda: tasks(c)) for name in ("activeTasks", "standbyTasks", "warmupTasks")}
    c.tags()
    return out


def streams_current(c):
    out = {"memberEpoch": c.i32(), "previousMemberEpoch": c.i32(), "state": c.i8()}
    for suffix in ("", "PendingRevocation"):
        for role in ("active", "standby", "warmup"):
            out[f"{role}Tasks{suffix}"] = c.array(lambda: with_epochs(c, "subtopologyId", c.string))
    c.tags()
    return out


def topology(c):
    def topic():
        t = {"name": c.string(), "partitions": c.i32(), "replicationFactor": c.i16()}
        t["topicConfigs"] = c.array(lambda: key_value(c))
        c.tags()
        return t

    def copartition():
        g = {name: c.array(c.i16) for name in ("sourceTopics", "sourceTopicRegex", "repartitionSourceTopics")}
        c.tags()
        return g

    def subtopology():
        s = {"subtopologyId": c.string(), "sourceTopics": c.strings(), "sourceTopicRegex": c.strings()}
        s["stateChangelogTopics"] = c.array(topic)
        s["repartitionSinkTopics"] = c.strings()
        s["repartitionSourceTopics"] = c.array(topic)
        s["copartitionGroups"] = c.array(copartition)
        c.tags()
        return s

    out = {"epoch": c.i32(), "subtopologies": c.array(subtopology)}
    c.tags()
    return out


# type -> name, second field of the key, [(layout, reader)]
TYPES = {
    3: ("ConsumerGroupMetadata", None, [("", consumer_group_metadata)]),
    4: ("ConsumerGroupPartitionMetadata", None, [("", partition_metadata), ("3.7", partition_metadata_3_7)]),
    5: ("ConsumerGroupMemberMetadata", "member", [("", member_metadata), ("3.7", member_metadata_3_7)]),
    6: ("ConsumerGroupTargetAssignmentMetadata", None, [("", target_metadata)]),
    7: ("ConsumerGroupTargetAssignmentMember", "member", [("", target_member), ("3.7", target_member_3_7)]),
    8: ("ConsumerGroupCurrentMemberAssignment", "member", [("", current_member), ("3.7", current_member_3_7)]),
    9: ("ShareGroupPartitionMetadata", None, [("4.0", partition_metadata)]),
    10: ("ShareGroupMemberMetadata", "member", [("", share_member)]),
    11: ("ShareGroupMetadata", None, [("", share_metadata), ("4.0", share_metadata_4_0)]),
    12: ("ShareGroupTargetAssignmentMetadata", None, [("", target_metadata)]),
    13: ("ShareGroupTargetAssignmentMember", "member", [("", target_member)]),
    14: ("ShareGroupCurrentMemberAssignment", "member", [("", share_current)]),
    15: ("ShareGroupStatePartitionMetadata", None, [("", share_state), ("4.0", share_state_4_0)]),
    16: ("ConsumerGroupRegularExpression", "regex", [("", regular_expression)]),
    17: ("StreamsGroupMetadata", None, [("", streams_metadata)]),
    19: ("StreamsGroupMemberMetadata", "member", [("", streams_member)]),
    20: ("StreamsGroupTargetAssignmentMetadata", None, [("", target_metadata)]),
    21: ("StreamsGroupTargetAssignmentMember", "member", [("", streams_target)]),
    22: ("StreamsGroupCurrentMemberAssignment", "member", [("", streams_current)]),
    23: ("StreamsGroupTopology", None, [("", topology)]),
}


def slow_group_record(key, value):
    """A dict with `outcome` (ok, tombstone or a reason) and the fields that could be read; for types from 2 on."""
    if key is None:
        return {"outcome": "null_key"}
    c = Cursor(key)
    try:
        number = c.i16()
    except Bad:
        return {"outcome": "truncated"}
    if number != 2 and number not in TYPES:
        return {"outcome": "unknown_record_type", "record_type": number}
    name, second, layouts = TYPES.get(number, ("GroupMetadata", None, []))
    out = {"record_type": number, "record_name": name}
    try:
        out["group_id"] = c.string()
        if second:
            out["member_id" if second == "member" else "regular_expression"] = c.string()
    except Bad:
        out.pop("group_id", None)
        return out | {"outcome": "truncated"}
    key_exact = c.exact and c.left() == 0
    if value is None:
        return out | {"outcome": "tombstone", "exact": key_exact}
    if len(value) == 0:
        return out | {"outcome": "empty_value"}
    if len(value) == 1:
        return out | {"outcome": "truncated"}
    version = Cursor(value).i16()
    out["version"] = version
    if not 0 <= version <= (4 if number == 2 else 0):
        return out | {"outcome": "unknown_value_version"}
    if number == 2:
        layouts = [("", lambda c: group_metadata(c, version))]
    results = [try_layout(read, value, flexible=number != 2 or version == 4) for _, read in layouts]
    chosen = choose(layouts, results)
    if chosen is None:
        return out | {"outcome": "truncated"}
    layout, (fields, exact, left) = chosen
    return out | {"outcome": "ok", "value": fields, "layout": layout, "exact": key_exact and exact and left == 0}


def try_layout(read, value, flexible):
    c = Cursor(value[2:], flexible)
    try:
        fields = read(c)
    except Bad:
        return None
    return fields, c.exact, c.left()


def choose(layouts, results):
    """The released layout if it consumes all bytes, else an early one that does, else the released one if it reads."""
    first, early = results[0], [(name, r) for (name, _), r in zip(layouts, results, strict=True)][1:]
    whole_early = [(name, r) for name, r in early if r is not None and r[1] and r[2] == 0]
    if first is not None and first[2] == 0:
        return ("?" + whole_early[0][0] if whole_early else layouts[0][0]), first
    if whole_early:
        return whole_early[0]
    return None if first is None else (layouts[0][0], first)


def slow_offset_commit(key, value):
    """The same for types 0 and 1."""
    c = Cursor(key)
    number = c.i16()
    out = {"record_type": number}
    try:
        slot = {"group_id": c.string(), "topic": c.string(), "partition": c.i32()}
    except Bad:
        return out | {"outcome": "truncated"}
    out |= slot
    exact = c.exact and c.left() == 0
    if value is None:
        return out | {"outcome": "tombstone", "exact": exact}
    if len(value) == 0:
        return out | {"outcome": "empty_value"}
    if len(value) == 1:
        return out | {"outcome": "truncated"}
    version = Cursor(value).i16()
    out["version"] = version
    if not 0 <= version <= 4:
        return out | {"outcome": "unknown_value_version"}
    c = Cursor(value[2:], flexible=version == 4)
    try:
        out["offset"] = c.i64()
        out["leader_epoch"] = c.i32() if version >= 3 else -1
        out["metadata"] = c.string()
        out["commit_timestamp"] = c.i64()
        out["expire_timestamp"] = c.i64() if version == 1 else -1
        out["topic_id"] = c.tags({0: lambda: c.take(16)}).get(0, bytes(16))
    except Bad:
        return {k: out[k] for k in ("record_type", "group_id", "topic", "partition", "version")} | {
            "outcome": "truncated"
        }
    return out | {"outcome": "ok", "exact": exact and c.exact and c.left() == 0}
