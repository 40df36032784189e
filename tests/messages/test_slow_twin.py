"""Fast decoders against the slow one: golden vectors changed at random, odd protocol blobs, whole captured segments."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.messages.offset_commits import classify
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from tests.messages.compared import assert_decoded_as_the_slow_decoder, changed, group_record
from tests.messages.group_record_bytes import COOPERATIVE, KEY, SUBSCRIPTION, group_metadata, text
from tests.messages.vectors import records

SEGMENTS = sorted((Path(__file__).parent.parent / "data" / "segments").glob("**/__consumer_offsets-*/*.log"))
SPECIAL = ["ffffffff", "7fffffff", "80000000", "8080808008", "ffffffff0f", "ff7f", "eda080", "8200", "01000400000000"]


@pytest.mark.parametrize("seed", range(8))
def test_changed_golden_vectors(seed):
    chance, pairs = random.Random(seed), []
    for key, value in records() * 8:
        for _ in range(chance.randrange(1, 3)):
            value = changed(chance, value)
        if len(value) > 8 and chance.random() < 0.3:
            at = chance.randrange(2, len(value) - 4)
            value = value[:at] + bytes.fromhex(chance.choice(SPECIAL)) + value[at + 4 :]
        pairs.append((key, value))
    outcomes = {group_record(GroupRecordDecoder(), *pair)["outcome"] for pair in pairs if pair[0][1] > 1}
    assert outcomes >= {"ok", "truncated", "unknown_value_version"}
    assert_decoded_as_the_slow_decoder(pairs)


BLOBS = [b"", b"\0", SUBSCRIPTION, SUBSCRIPTION[:-1], b"\xff\xff" + SUBSCRIPTION[2:], b"\0\1" + SUBSCRIPTION[2:]]
BLOBS += [COOPERATIVE, bytes.fromhex("0009 00000001 0001 61 ffffffff 00000000 00000007 ffff") + b"of a newer version"]
BLOBS += [version + text("http://w:8083/") + bytes(7) + b"\7\xff\xff\xff\xff" for version in (b"\0\0", b"\0\2")]
BLOBS += [
    version + error + text("w") + text("u") + bytes(7) + b"\7" + connectors
    for version in (b"\0\0", b"\0\1", b"\0\2")
    for error in (b"\0\0", b"\0\1")
    for connectors in (bytes(4), bytes.fromhex("00000001 0001 63 00000002 ffffffff 00000000 ffffffff 00000005"))
]


@pytest.mark.parametrize("kind", ["consumer", "connect", "", "sr", "Consumer", 'a"\\\n\0\u2028\U0001f600\x7f'])
def test_protocol_blobs_of_clients(kind):
    assert_decoded_as_the_slow_decoder([(KEY, group_metadata(kind, one, two)) for one in BLOBS for two in BLOBS])


@pytest.mark.parametrize("path", SEGMENTS, ids=["/".join(p.parts[-3:-1]) for p in SEGMENTS])
def test_captured_segments(path):
    """Recorded from real brokers; names of folders have the version."""
    pairs = []
    with path.open("rb") as file:
        for chunk in read_segment(file):
            assert isinstance(chunk, RecordColumns)
            commits, others, control = classify(chunk)
            assert len(commits) + len(others) + len(control) == len(chunk)
            pairs += [(chunk.key(row), chunk.value(row)) for row in [*commits.tolist(), *others.tolist()]]
    assert pairs
    assert_decoded_as_the_slow_decoder(pairs)
