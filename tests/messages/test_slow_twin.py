"""Fast decoders against the slow one: golden vectors changed at random, and whole captured segments."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kgroups_spark.messages.offset_commits import OffsetCommitDecoder, classify
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from tests.messages.changed_bytes import changed
from tests.messages.compared import assert_decoded_as_the_slow_decoder
from tests.messages.vectors import records
from tests.slow_messages import slow_group_record, slow_offset_commit

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
    outcomes = {outcome(*pair) for pair in pairs}
    assert outcomes >= {"ok", "truncated", "unknown_value_version"}
    assert_decoded_as_the_slow_decoder(pairs)


def outcome(key, value):
    return (slow_group_record if key[1] > 1 else slow_offset_commit)(key, value)["outcome"]


@pytest.mark.parametrize("path", SEGMENTS, ids=["/".join(p.parts[-3:-1]) for p in SEGMENTS])
def test_captured_segments(path):
    """Recorded from real brokers; names of folders have the version."""
    decoder, pairs = OffsetCommitDecoder(), []
    with path.open("rb") as file:
        for chunk in read_segment(file):
            assert isinstance(chunk, RecordColumns)
            commits, others, control = classify(chunk)
            assert len(commits) + len(others) + len(control) == len(chunk)
            columns = decoder.decode(chunk, commits)
            assert len(columns) == len(commits)
            metadata = columns.metadata.to_pylist()
            for i, row in enumerate(commits.tolist()):
                expected = slow_offset_commit(chunk.key(row), chunk.value(row))
                code = columns.code[i]
                assert decoder.keys.topic[code].as_py() == expected["topic"]
                assert int(columns.committed_offset[i]) == expected.get("offset", 0)
                assert metadata[i] == expected.get("metadata", "")
            pairs += [(chunk.key(row), chunk.value(row)) for row in [*commits.tolist(), *others.tolist()]]
    assert pairs
    assert_decoded_as_the_slow_decoder(pairs)
