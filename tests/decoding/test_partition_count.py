"""The number of offsets partitions, from groups and the partitions that they were found in."""

from __future__ import annotations

from kgroups_spark.replay.counts import (
    MOST_PARTITIONS,
    counts_in_all,
    fitting_partition_counts,
)

# Partitions among 50, as Kafka's own classes say.
AMONG_50 = {"a": 47, "test-group": 12, "connect-sink-1": 42, "schema-registry": 29, "café": 21, "😀": 49}


def test_a_few_groups_leave_only_the_right_number() -> None:
    assert counts_in_all(fitting_partition_counts([group], at) for group, at in AMONG_50.items()) == {50}


def test_numbers_that_a_partition_would_not_be_in_do_not_fit() -> None:
    assert fitting_partition_counts(["a"], 47) == [50]  # its hash is 97: 97 % 50 is 47
    assert fitting_partition_counts(["a"], 97) == list(range(98, MOST_PARTITIONS + 1))


def test_a_hash_without_absolute_value_is_in_partition_0() -> None:
    assert fitting_partition_counts(["polygenelubricants"], 0) == list(range(1, MOST_PARTITIONS + 1))
    assert fitting_partition_counts(["polygenelubricants"], 1) == []


def test_groups_in_wrong_partitions_fit_no_number() -> None:
    fitting = [fitting_partition_counts(["a"], 47), fitting_partition_counts(["test-group"], 13)]
    assert counts_in_all(fitting) == set()


def test_the_numbers_that_fit_all() -> None:
    assert counts_in_all([[10, 20, 30], [20, 30]]) == {20, 30}
    assert counts_in_all([[10, 20, 30], [20, 40]]) == {20}
    assert counts_in_all([]) == set()
