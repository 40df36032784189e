"""The columns of offset commits: regular rows at once, others one by one, keys that keep their codes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from kgroups_spark.messages.offset_commits import OffsetCommitDecoder, classify, read_values
from tests.chosen import some_of
from tests.findings.record_bytes import uvarint
from tests.messages.compared import changed, offset_commits, record_columns
from tests.slow_messages import slow_offset_commit

T = (1700000000000).to_bytes(8, "big")
TOPIC_ID = bytes(range(16, 32))


def key(group="g", topic="t", partition=0, number=1):
    parts = [len(text.encode()).to_bytes(2, "big") + text.encode() for text in (group, topic)]
    return number.to_bytes(2, "big") + b"".join(parts) + partition.to_bytes(4, "big")


def v3(offset=7, metadata=b"", epoch=-1):
    head = b"\0\3" + offset.to_bytes(8, "big") + epoch.to_bytes(4, "big", signed=True)
    return head + len(metadata).to_bytes(2, "big") + metadata + T


def v4(offset=7, metadata=b"", tags=b"\0"):
    return b"\0\4" + offset.to_bytes(8, "big") + bytes(4) + uvarint(len(metadata) + 1) + metadata + T + tags


def topic_id_tag(topic_id=TOPIC_ID):
    return b"\1\0\x10" + topic_id


VALUES = {
    "tombstone": None,
    "v0": b"\0\0" + bytes(7) + b"\5\0\1m" + T,
    "v0, no metadata": b"\0\0" + bytes(7) + b"\5\0\0" + T,
    "v1": b"\0\1" + bytes(7) + b"\5\0\1m" + T + bytes(7) + b"\x09",
    "v1, no metadata": b"\0\1" + bytes(7) + b"\5\0\0" + T + b"\xff" * 8,
    "v2": b"\0\2" + bytes(7) + b"\5\0\0" + T,  # T5
    "v3": v3(),
    "v3, epoch": v3(epoch=7),
    "v3, metadata": v3(metadata="größe\0".encode()),
    "v3, metadata that is not UTF-8": v3(metadata=b"a\xffb"),
    "v3, longest metadata": v3(metadata=b"x" * 32767),
    "v3, negative length": b"\0\3" + bytes(12) + b"\xff\xff" + T + T,
    "v3, length beyond the value": b"\0\3" + bytes(12) + b"\x7f\xff" + T,
    "v4": v4(),
    "v4, topic id": v4(tags=topic_id_tag()),  # T6
    "v4, metadata": v4(metadata=b"m"),
    "v4, metadata and topic id": v4(metadata=b"m", tags=topic_id_tag()),
    "v4, 126 bytes": v4(metadata=b"m" * 126),
    "v4, 127 bytes": v4(metadata=b"m" * 127, tags=topic_id_tag()),
    "v4, 128 bytes": v4(metadata=b"m" * 128),
    "v4, 4096 bytes": v4(metadata=b"m" * 4096, tags=topic_id_tag()),
    "v4, 16383 bytes": v4(metadata=b"m" * 16383),
    "v4, 32767 bytes": v4(metadata=b"m" * 32767),
    "v4, 32768 bytes": v4(metadata=b"m" * 32768),
    "v4, null metadata": b"\0\4" + bytes(12) + b"\0" + T + b"\0",
    "v4, null in two bytes": b"\0\4" + bytes(12) + b"\x80\0" + T + b"\0",
    "v4, a length in more bytes than needed": b"\0\4" + bytes(12) + b"\x82\0" + b"m" + T + b"\0",
    "v4, an endless length": b"\0\4" + bytes(12) + b"\xff" * 9 + T,
    "v4, unknown tag": v4(tags=b"\1\7\2ab"),
    "v4, topic id and unknown tag": v4(tags=b"\2\0\x10" + TOPIC_ID + b"\7\2ab"),
    "v4, topic id twice": v4(tags=b"\2\0\x10" + bytes(16) + b"\0\x10" + TOPIC_ID),
    "v4, topic id of a wrong size": v4(tags=b"\1\0\x11" + TOPIC_ID),
    "v4, half a topic id": v4(tags=b"\1\0\x10" + TOPIC_ID[:8]),
    "v4, no tag section": v4(tags=b""),
    "v5": b"\0\5" + bytes(40),
    "negative version": b"\xff\xff" + bytes(40),
    "no bytes": b"",
    "one byte": b"\0",
    "version only": b"\0\3",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_every_kind_of_value_alone(value):
    assert offset_commits(OffsetCommitDecoder(), [(key(), value)]) == [slow_offset_commit(key(), value)]


def test_values_as_clients_write_them_are_read_at_once_not_one_by_one():
    found = [slow_offset_commit(key(), value) for value in VALUES.values()]
    usual = [v for v, one in zip(VALUES.values(), found, strict=True) if one.get("exact") and len(v or b"") < 16_000]
    records, rows = record_columns([(key(), value) for value in usual]), np.arange(len(usual))
    columns, _, _, is_irregular = read_values(records, rows, np.zeros(len(rows), np.int32))
    assert {-1, 0, 1, 2, 3, 4} == set(columns.value_version.tolist())
    assert not is_irregular.any()


@pytest.mark.parametrize("more", [b"\0", b"\1\0\x10" + TOPIC_ID, bytes(30)], ids=["a byte", "a tag", "30 bytes"])
@pytest.mark.parametrize("value", [v for v in VALUES.values() if v], ids=[k for k, v in VALUES.items() if v])
def test_bytes_left_over(value, more):
    assert offset_commits(OffsetCommitDecoder(), [(key(), value + more)]) == [slow_offset_commit(key(), value + more)]


@pytest.mark.parametrize("seed", some_of(2, *range(5)))
def test_all_kinds_mixed_and_cut_and_changed(seed):
    chance = random.Random(seed)
    kinds = [v for v in VALUES.values() if v is None or len(v) < 5000]
    pairs = []
    for _ in range(1500):
        one_key = key(chance.choice("abc"), chance.choice("tü"), chance.randrange(3), chance.randrange(2))
        value = chance.choice(kinds)
        if chance.random() < 0.1:
            one_key = changed(chance, one_key[2:])
            one_key = b"\0\1" + one_key
        pairs.append((one_key, changed(chance, value) if value and chance.random() < 0.5 else value))
    decoder, expected = OffsetCommitDecoder(), [slow_offset_commit(*pair) for pair in pairs]
    chunks = [pairs[:500], pairs[500:501], pairs[501:]]
    assert [one for chunk in chunks for one in offset_commits(decoder, chunk)] == expected


KEYS = {
    "too short": b"\0\1",
    "negative group length": b"\0\1\xff\xff\0\1t" + bytes(4),
    "group beyond the key": b"\0\1\0\x09g" + bytes(6),
    "negative topic length": b"\0\1\0\1g\xff\xff" + bytes(4),
    "partition cut": key()[:-1],
    "bytes left over": key() + b"!",
    "not UTF-8": b"\0\1\0\1\xff\0\1t" + bytes(4),
    "empty names": key("", "", 0),
    "negative partition": key()[:-4] + b"\xff\xff\xff\xff",
}


@pytest.mark.parametrize("odd", KEYS.values(), ids=KEYS.keys())
def test_odd_keys_among_regular_ones(odd):
    pairs = [(key(), v3()), (odd, v3()), (odd, None), (odd, b""), (key("h"), None)]
    assert offset_commits(OffsetCommitDecoder(), pairs) == [slow_offset_commit(*pair) for pair in pairs]


# ---- codes


def decoded(decoder, pairs):
    records = record_columns(pairs)
    return decoder.decode(records, classify(records)[0])


def test_a_key_keeps_its_code_across_chunks():
    decoder = OffsetCommitDecoder()
    first = decoded(decoder, [(key("a"), v3()), (key("b"), v3()), (key("a"), v3())]).code.tolist()
    assert first[0] == first[2] != first[1]
    second = decoded(decoder, [(key("c"), v3()), (key("b"), v3())]).code.tolist()
    assert second[1] == first[1] and second[0] == 2
    assert [decoder.keys.group_id[code].as_py() for code in first[:2] + second[:1]] == ["a", "b", "c"]


def slot(keys, code):
    """The committed offset of the key."""
    return keys.group_id[int(code)].as_py(), keys.topic[int(code)].as_py(), int(keys.partition[code])


def test_keys_of_both_types_name_one_committed_offset_in_either_order():  # T1, T3
    for number in (0, 1):
        decoder = OffsetCommitDecoder()
        pairs = [(key("x"), v3()), (key("g", number=number), v3()), (key("g", number=1 - number), v3())]
        columns = [decoded(decoder, [pair]) for pair in pairs]
        slots = [slot(decoder.keys, c.code[0]) for c in columns]
        assert slots[1] == slots[2] != slots[0]
        assert decoder.keys.record_type.tolist() == [1, number, 1 - number]


# ---- rows


def test_rows_are_indices_into_the_records_and_undecodable_ones_are_left_out():
    pairs = [(b"\0\2\0\1g", None), (key(), v3(1)), (key(), b""), (None, b""), (key(), v3(2)), (b"\0\0", b"")]
    records = record_columns([*pairs, (key(), v3(3))], control=[4])
    commits, others, control = classify(records)
    assert (commits.tolist(), others.tolist(), control.tolist()) == ([1, 2, 5, 6], [0, 3], [4])
    columns = OffsetCommitDecoder().decode(records, commits)
    assert columns.rows.tolist() == [1, 6] and columns.committed_offset.tolist() == [1, 3]
    assert [(row, why.reason) for row, why in columns.undecodable] == [(2, "empty_value"), (5, "truncated")]
    assert columns.undecodable[0][1].detail == (
        "The OffsetCommit of group g, topic t, partition 0 has a value of no bytes, which is not a tombstone"
    )


def test_keys_of_one_byte_and_of_other_types_are_not_offset_commits():
    records = record_columns(
        [(b"\0", None), (b"", None), (b"\1\0", None), (b"\0\2", None), (b"\0\0", None), (b"\0\1", None)]
    )
    assert classify(records)[0].tolist() == [4, 5]


def test_no_records_at_all():
    records = record_columns([])
    columns = OffsetCommitDecoder().decode(records, classify(records)[0])
    assert len(columns) == 0 and columns.metadata.to_pylist() == []


def test_columns_outlive_the_buffer_they_were_read_from():
    pairs = [(key("some-group"), v4(metadata=b"m", tags=topic_id_tag())), (key("g"), v3(metadata=b"a longer metadata"))]
    records = record_columns(pairs)
    buffer = np.array(records.data)
    records = replace(records, data=buffer)
    decoder = OffsetCommitDecoder()
    columns = decoder.decode(records, classify(records)[0])
    buffer[:] = 0
    assert columns.metadata.to_pylist() == ["m", "a longer metadata"]
    assert columns.topic_id[0].tobytes() == TOPIC_ID
    assert sorted(decoder.keys.group_id.to_pylist()) == ["g", "some-group"]
