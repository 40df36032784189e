"""JSON texts made by columns are those of the slow decoder; what is not plain is left to the reader of one record."""

from __future__ import annotations

import random

import numpy as np
import orjson
import pytest

from kgroups_spark.messages.coordinator_records import GroupRecordDecoder, Undecodable
from kgroups_spark.messages.group_metadata import group_metadata_texts
from tests.chosen import some_of
from tests.messages.compared import changed, record_columns
from tests.messages.group_record_bytes import ASSIGNMENT, COOPERATIVE, KEY, SUBSCRIPTION, group_metadata, members
from tests.messages.vectors import ALL, records
from tests.slow_messages import slow_group_metadata


def texts(values):
    data = np.frombuffer(b"".join(values) + bytes(32), np.uint8)
    lengths = np.array([len(value) for value in values], np.int64)
    return group_metadata_texts(data, np.cumsum(lengths) - lengths, lengths).to_pylist()


def by_the_slow_decoder(values):
    """The texts of the slow decoder's values; None: not decodable."""
    found = [slow_group_metadata(KEY, value) for value in values]
    return [orjson.dumps(one["value"]).decode() if one["outcome"] == "ok" else None for one in found]


PLAIN = {v["name"]: bytes.fromhex(v["hex"]) for v in ALL if v["kind"] == "value" and v["type"] == 2}
PLAIN = {name: value for name, value in PLAIN.items() if value[1] < 4 and b"consumer" in value}
PLAIN |= {
    "cooperative": group_metadata("consumer", COOPERATIVE, ASSIGNMENT),
    "no assignment": group_metadata("consumer", SUBSCRIPTION, b""),
    "nothing at all": group_metadata("consumer", b"", b""),
    "no members": members(0),
    "30 members": members(30),
    "few records of many members": members(200),
}
NOT_PLAIN = {
    "another protocol": group_metadata("connect", b"", b""),
    "version 4": next(bytes.fromhex(v["hex"]) for v in ALL if v["name"] == "group value v4"),
    "no protocol type": group_metadata("", b"", b""),
    "a longer protocol type": group_metadata("consumers", b"", b""),
    "blob that cannot be read": group_metadata("consumer", SUBSCRIPTION[:-1], b""),
    "blob with bytes left over": group_metadata("consumer", SUBSCRIPTION + b"!", b""),
    "blob of a newer version": group_metadata("consumer", b"\0\4" + COOPERATIVE[2:], b""),
    "blob of a negative version": group_metadata("consumer", b"\xff\xff" + COOPERATIVE[2:], b""),
    "blob of one byte": group_metadata("consumer", b"\0", b""),
    "bytes left over": members(2) + b"!",
    "a quote": members(2).replace(b"/h", b'"h'),
    "a backslash": members(2).replace(b"/h", b"\\h"),
    "a control character": members(2).replace(b"/h", b"/\n"),
    "another script": members(2).replace(b"/h", "é".encode()),
    "cut": members(3)[:-1],
    "far too many members": members(3).replace(b"\0\0\0\3\0\2m0", b"\x7f\xff\xff\xff\0\2m0"),
    "a null length of -2": members(1).replace(b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe", 1),
}


@pytest.mark.parametrize("value", PLAIN.values(), ids=PLAIN.keys())
def test_plain_values(value):
    assert texts([value]) == by_the_slow_decoder([value])
    assert texts([value]) != [None]


@pytest.mark.parametrize("value", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_other_values_are_left_to_the_record_by_record_reader(value):
    assert texts([value]) == [None]


def test_plain_values_among_others():
    plain, others = list(PLAIN.values()), list(NOT_PLAIN.values())
    mixed = [one for pair in zip(plain * 3, others * 3, strict=False) for one in pair]
    expected = by_the_slow_decoder(plain)
    assert texts(mixed)[::2] == (expected * 3)[: len(mixed[::2])]
    assert set(texts(mixed)[1::2]) == {None}


def test_many_records_of_many_members_are_plain():
    values = [members(40 + i) for i in range(10)]
    assert texts(values) == by_the_slow_decoder(values) and None not in texts(values)


@pytest.mark.parametrize("seed", some_of(2, *range(6)))
def test_changed_values_give_the_same_text_or_none(seed):
    chance = random.Random(seed)
    values = [changed(chance, value) for value in [*PLAIN.values(), *NOT_PLAIN.values()] for _ in range(8)]
    made, expected = texts(values), by_the_slow_decoder(values)
    assert [one for one in made if one is not None]
    assert [one for one, other in zip(made, expected, strict=True) if one is not None and one != other] == []


def test_rows_of_a_chunk_decode_as_each_would_alone():
    pairs = [(k, v) for k, v in records() if k[1] >= 2]
    pairs += [(KEY, value) for value in [*PLAIN.values(), *NOT_PLAIN.values(), None, b"", b"\0"]]
    pairs += [(None, b""), (b"", b""), (b"\0\2", PLAIN["cooperative"]), (b"\0\2\0\1\xff", PLAIN["cooperative"])]
    chunk = record_columns(pairs)
    rows = np.arange(len(pairs))[::-1]
    found, expected = GroupRecordDecoder().decode_rows(chunk, rows), GroupRecordDecoder()
    assert len(found) == len(pairs)
    for one, row in zip(found, rows, strict=True):
        other = expected.decode(*pairs[row])
        if isinstance(other, Undecodable):
            assert one == other
        else:
            names = ("group_id", "member_id", "value_version", "layout", "keeps_raw", "value")
            assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]
            assert one.value_json() == other.value_json()
