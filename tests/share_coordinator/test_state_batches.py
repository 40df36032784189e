"""Batches of delivery states: combined by intervals, with Kafka's own answers where its releases differ."""

from __future__ import annotations

import sys

import pytest

from kgroups_spark.coordinator import share_shard
from kgroups_spark.coordinator.releases import ReplayFailure, release
from kgroups_spark.coordinator.share_shard import StateBatch, as_written, combine, share_rules

V43, V44 = share_rules(release("4.3")), share_rules(release("4.4"))
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
BOTH = pytest.mark.parametrize("rules", [V43, V44], ids=["4.3", "4.4"])
LONG_MAX = (1 << 63) - 1


def b(first, last, state=AVAILABLE, count=1):
    return StateBatch(first, last, count, state)


def combined(there, update, start_offset=-1, rules=V44):
    return list(combine(as_written(there), update, start_offset, rules).batches)


def test_equal_batches_that_touch_stay_apart_until_the_next_update_before_4_4():
    there, update = [b(0, 5, ACKNOWLEDGED), b(6, 10)], [b(6, 10, ACKNOWLEDGED)]
    # The answers of PersisterStateBatchCombiner of 4.3.1 and of 4.4.0.
    assert combined(there, update, rules=V43) == [b(0, 5, ACKNOWLEDGED), b(6, 10, ACKNOWLEDGED)]
    assert combined(there, update, rules=V44) == [b(0, 10, ACKNOWLEDGED)]
    apart = combine(as_written(there), update, -1, V43)
    assert list(combine(apart, [], -1, V43).batches) == [b(0, 10, ACKNOWLEDGED)]


@BOTH
def test_a_single_batch_is_not_checked(rules):
    assert combined([], [b(5, 3)], rules=rules) == [b(5, 3)]
    assert combined([b(0, LONG_MAX)], [], rules=rules) == [b(0, LONG_MAX)]


@BOTH
def test_a_batch_that_ends_before_it_begins_fails_the_load_and_never_loops(rules):
    for there, update in (([b(0, 10)], [b(5, 3, ACKNOWLEDGED)]), ([b(5, 3)], [b(0, 10)]), ([b(5, 3), b(0, 10)], [])):
        with pytest.raises(ReplayFailure, match="A state batch ends at 3, before it begins at 5"):
            combined(there, update, rules=rules)


def test_a_batch_up_to_the_greatest_offset_fails_only_in_4_4():
    there, update = [b(0, 9)], [b(10, LONG_MAX, ACKNOWLEDGED)]
    assert combined(there, update, rules=V43) == [*there, *update]
    for arguments in ((there, update), ([*there, *update], []), ([*there, *update], [b(3, 4)])):
        with pytest.raises(ReplayFailure, match="no offset after it"):
            combined(*arguments, rules=V44)


@BOTH
@pytest.mark.parametrize("width", [10, 10**12])
def test_the_size_of_batches_costs_nothing(rules, width):
    there = [b(i * width, i * width + width - 1, count=1 + i % 2) for i in range(20)]
    update = [b(width // 2, 15 * width, ACKNOWLEDGED, 2)]
    assert calls(lambda: combined(there, update, rules=rules)) == calls(
        lambda: combined([b(i * 10, i * 10 + 9, count=1 + i % 2) for i in range(20)], [b(5, 150, 2, 2)], rules=rules)
    )


@BOTH
def test_the_cost_of_an_update_depends_on_overlaps_not_on_the_number_of_batches(rules):
    costs = []
    for many in (1_000, 100_000):
        there = as_written([b(i * 10, i * 10 + 5, count=1 + i % 2) for i in range(many)])
        costs.append(calls(lambda there=there: combine(there, [b(5_004, 5_011, ACKNOWLEDGED, 3)], 3, rules)))
    assert costs[1] - costs[0] < 30, costs  # the depth of two searches


def calls(work):
    """How many functions of the module were entered."""
    count = 0

    def seen(frame, event, _):
        nonlocal count
        count += event == "call" and frame.f_code.co_filename == share_shard.__file__

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
