"""Generated states of groups, all in one table, against the twin: for the releases on both sides of each change of a
rule."""

from functools import cache

import pytest

from kgroups_spark.coordinator.releases import RELEASES, expiry_rules
from tests.expiry.frames import clean_up
from tests.expiry.twin_cases import NOW, R, generated, in_order, twin_rows

NEWEST_FIRST = ["4.4.0", "4.3.1", "4.2.0", "4.1.2", "4.0.2", "4.0.1", "4.0.0", "3.8.0-java", "3.7.1-java", "3.9.2"]
NEWEST_FIRST += ["3.2.0", "3.1.1", "3.1.0", "3.0.1", "3.0.0", "2.8.2", "2.8.1", "2.4.0", "2.3.1", "2.2.0", "2.1.1"]
NEWEST_FIRST += ["2.0.1", "1.1.1", "0.9.0", "0.8.2"]


@cache
def by_the_twin(release):
    """The decisions on the generated states of a release, which no test changes."""
    return twin_rows(*generated(release), release)


@pytest.mark.parametrize("release", NEWEST_FIRST)
def test_the_rules_equal_the_twin(release):
    tables, held = generated(release)
    expected_offsets, expected_groups = by_the_twin(release)
    offsets, groups = clean_up(tables, as_of=NOW, retention_ms=R, release_version=release, held_groups=held)
    assert in_order(offsets) == in_order(expected_offsets)
    assert in_order(groups) == in_order(expected_groups)
    for row in offsets:
        assert (row["decision"] == "expire") == (row["expires_at"] is not None and row["expires_at"] <= NOW), row


def test_there_is_a_release_with_each_set_of_rules():
    assert {expiry_rules(each) for each in RELEASES} <= {expiry_rules(each) for each in NEWEST_FIRST}


def test_generated_states_reach_every_reason():
    both = [by_the_twin(release) for release in NEWEST_FIRST]
    assert {row["reason"] for offsets, _ in both for row in offsets} == {
        *("orphan", "share_group", "group_active", "subscription_unknown", "subscribed", "pending_transaction"),
        *("expire_timestamp_passed", "before_expire_timestamp", "retention_passed", "within_retention"),
        "clean_up_fails",
    }
    assert {row["reason"] for _, groups in both for row in groups} == {
        *("empty_and_nothing_left", "has_members", "offsets_left", "open_transaction", "share_group", "clean_up_fails"),
        "topology_description",
    }
