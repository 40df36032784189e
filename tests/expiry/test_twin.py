"""Generated states of groups, all in one table, against the twin."""

from functools import cache

import pytest

from tests.chosen import some_of
from tests.expiry.cases import NOW, R
from tests.expiry.frames import clean_up
from tests.expiry.twin_cases import generated, in_order, twin_rows

RELEASES = ["4.4.0", "4.3.1", "4.1.2", "4.0.0", "3.7.1-java", "3.9.2", "2.6.0", "2.1.0", "1.1.1", "0.8.2"]


@cache
def by_the_twin(release):
    """The decisions on the generated states of a release, which no test changes."""
    return twin_rows(*generated(release), release)


@pytest.mark.parametrize("release", [RELEASES[0], *some_of(2, *RELEASES[1:])])
def test_the_rules_equal_the_twin(release):
    tables, held = generated(release)
    expected_offsets, expected_groups = by_the_twin(release)
    offsets, groups = clean_up(tables, as_of=NOW, retention_ms=R, release_version=release, held_groups=held)
    assert in_order(offsets) == in_order(expected_offsets)
    assert in_order(groups) == in_order(expected_groups)


def test_generated_states_reach_every_reason():
    reasons, group_reasons = set(), set()
    for release in RELEASES:
        offsets, groups = by_the_twin(release)
        reasons |= {row["reason"] for row in offsets}
        group_reasons |= {row["reason"] for row in groups}
        if release == "4.3.1":
            assert {row["reason"] for row in offsets} == {
                *("orphan", "share_group", "group_active", "subscription_unknown", "subscribed", "pending_transaction"),
                *("expire_timestamp_passed", "before_expire_timestamp", "retention_passed", "within_retention"),
            }
    assert group_reasons == {
        *("empty_and_nothing_left", "has_members", "offsets_left", "open_transaction", "share_group", "clean_up_fails"),
        "topology_description",
    }


def test_offsets_are_due_when_expires_at_has_passed():
    """expires_at and the decision agree: due by now, or not."""
    for release in RELEASES:
        for row in by_the_twin(release)[0]:
            is_due = row["expires_at"] is not None and row["expires_at"] <= NOW
            assert is_due == (row["decision"] == "expire"), row
