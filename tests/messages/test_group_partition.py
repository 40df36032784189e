from __future__ import annotations

import pytest

from kgroups_spark.messages.coordinator_records import java_hash, offsets_partition
from tests.messages.vectors import vectors


@pytest.mark.parametrize("vector", vectors("partition"))
def test_groups_hash_to_the_partition_that_kafka_gives_them(vector):
    expected = vector["fields"]
    assert java_hash(expected["group"]) == expected["hash"]
    for count in (50, 1, 7):
        assert offsets_partition(expected["group"], count) == expected[f"p{count}"]


def test_a_share_partition_hashes_like_a_group():
    assert offsets_partition("sg:ASNFZ4mrze8RIjNEVWZ3iA:4", 50) == 10


def test_a_hash_of_the_smallest_int_belongs_to_partition_0():
    assert java_hash("polygenelubricants") == -(2**31)
    assert offsets_partition("polygenelubricants", 50) == 0
