"""Records for the decoders, and their outcomes in the form of the slow decoder's, to be compared with them."""

from __future__ import annotations

import numpy as np
import orjson

from kgroups_spark.messages.coordinator_records import GroupRecordDecoder, Undecodable, value_from_json
from kgroups_spark.messages.offset_commits import OffsetCommitDecoder, classify
from kgroups_spark.records.columns import CONTROL, BatchColumns, RecordColumns
from tests.slow_messages import slow_group_metadata, slow_offset_commit


def record_columns(pairs, control=()):
    """One batch a record; `control` names the indices of those in control batches."""
    data, starts = bytearray(), []
    for key, value in pairs:
        for part in (key, value):
            starts.append((len(data), -1 if part is None else len(part)))
            data += part or b""
    n = len(pairs)
    keys, values = np.array(starts[::2], np.int64).reshape(n, 2), np.array(starts[1::2], np.int64).reshape(n, 2)
    ids = np.arange(n)
    attributes = np.zeros(n, np.int16)
    attributes[list(control)] = CONTROL
    int8, int16, int32, int64 = (lambda v, t=t: np.full(n, v, t) for t in (np.int8, np.int16, np.int32, np.int64))
    batches = BatchColumns(
        base_offset=ids,
        last_offset=ids,
        leader_epoch=int32(0),
        magic=int8(2),
        crc=int64(0),
        attributes=attributes,
        max_timestamp=int64(0),
        producer_id=int64(-1),
        producer_epoch=int16(-1),
        record_count=int32(1),
        position=int64(0),
        size=int64(0),
    )
    buffer = np.frombuffer(bytes(data) + bytes(32), np.uint8)
    return RecordColumns(
        buffer, batches, ids.astype(np.int32), ids, int64(0), keys[:, 0], keys[:, 1], values[:, 0], values[:, 1]
    )


def changed(chance, data):
    """A copy that is cut, longer, or has some other byte."""
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(3)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + chance.randbytes(chance.randrange(1, 4)) + data[at:]
    return data[:at] + bytes([chance.choice([0, 1, 2, 127, 128, 255, chance.randrange(256)])]) + data[at + 1 :]


def undecodable(found):
    named = {
        "record_type": found.record_type,
        "record_name": found.record_name,
        "group_id": found.group_id,
        "member_id": found.member_id,
        "topic": found.topic,
        "partition": found.partition,
        "version": found.value_version,
    }
    assert found.detail
    return {"outcome": found.reason} | {k: v for k, v in named.items() if v is not None}


def group_record(decoder, key, value):
    found = decoder.decode(key, value)
    if isinstance(found, Undecodable):
        return undecodable(found)
    out = {"record_type": found.record_type, "record_name": found.record_name, "group_id": found.group_id}
    out |= {"member_id": found.member_id} if found.member_id is not None else {}
    out |= {"regular_expression": found.regular_expression} if found.regular_expression is not None else {}
    if found.is_tombstone:
        assert found.value is None and found.value_json() is None and found.value_version is None
        return out | {"outcome": "tombstone", "exact": not found.keeps_raw}
    text = found.value_json()
    assert value_from_json(text) == found.value
    assert orjson.dumps(found.value).decode() == text
    out |= {"version": found.value_version, "outcome": "ok", "value": found.value, "layout": found.layout}
    return out | {"exact": not found.keeps_raw}


def offset_commits(decoder, pairs):
    """One outcome for each of the pairs (all of types 0 and 1), by one call of the columnar decoder."""
    records = record_columns(pairs)
    rows, others, control = classify(records)
    assert rows.tolist() == list(range(len(pairs))) and not len(others) and not len(control)
    columns, keys = decoder.decode(records, rows), decoder.keys
    out = {index: undecodable(found) for index, found in columns.undecodable}
    for found in out.values():
        found.pop("record_name")
    metadata = columns.metadata.to_pylist()
    for i, row in enumerate(columns.rows.tolist()):
        code = columns.code[i]
        one = {"record_type": int(keys.record_type[code]), "group_id": keys.group_id[code].as_py()}
        one |= {"topic": keys.topic[code].as_py(), "partition": int(keys.partition[code])}
        assert keys.raw[code].as_py() == pairs[row][0]
        one |= {"exact": not columns.keeps_raw[i]}
        fields = {
            "version": int(columns.value_version[i]),
            "offset": int(columns.committed_offset[i]),
            "leader_epoch": int(columns.leader_epoch[i]),
            "metadata": metadata[i],
            "commit_timestamp": int(columns.commit_timestamp[i]),
            "expire_timestamp": int(columns.expire_timestamp[i]),
            "topic_id": columns.topic_id[i].tobytes(),
        }
        if columns.is_tombstone[i]:
            assert fields == ABSENT
            out[row] = one | {"outcome": "tombstone"}
        else:
            out[row] = one | fields | {"outcome": "ok"}
    return [out[i] for i in range(len(pairs))]


ABSENT = {
    "version": -1,
    "offset": 0,
    "leader_epoch": -1,
    "metadata": "",
    "commit_timestamp": -1,
    "expire_timestamp": -1,
    "topic_id": bytes(16),
}


def assert_decoded_as_the_slow_decoder(pairs):
    """All pairs of key and value, one by one; those of types from 3 on are read by Kafka's own definitions alone."""
    commits = [(k, v) for k, v in pairs if k[:2] in (b"\0\0", b"\0\1")]
    decoder = GroupRecordDecoder()
    for key, value in pairs:
        if key[:2] not in (b"\0\0", b"\0\1"):
            found = group_record(decoder, key, value)
            assert key[:2] != b"\0\2" or found == slow_group_metadata(key, value), (key, value)
    found = offset_commits(OffsetCommitDecoder(), commits)
    for (key, value), outcome in zip(commits, found, strict=True):
        assert outcome == slow_offset_commit(key, value), (key, value)
