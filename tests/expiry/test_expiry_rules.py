"""The rules that a release name selects."""

import pytest

from kgroups_spark.coordinator.releases import RELEASES, OpenTransactionRule, expiry_rules

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("release", "days"),
    [("0.8", 1), ("0.8.2.2", 1), ("0.11.0.3", 1), ("1.1", 1), ("2.0", 7), ("2.0.1", 7), ("3.9-java", 7), ("4.3", 7)],
)
def test_default_retention_became_a_week_with_2_0(release, days):
    assert expiry_rules(release).default_retention_ms == days * DAY_MS


@pytest.mark.parametrize(
    ("bare", "last_patch"),
    [("4.0", "4.0.2"), ("2.1", "2.1.1"), ("2.8", "2.8.2"), ("3.0", "3.0.2"), ("3.1", "3.1.2"), ("0.10", "0.10.2.2")],
)
def test_without_a_patch_number_the_last_patch_release_is_meant(bare, last_patch):
    assert expiry_rules(bare) == expiry_rules(last_patch)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("0.8.2.2", "0.9.0.0"),
        ("1.1", "2.0"),
        ("2.0", "2.1"),
        ("2.1.1", "2.2.0"),
        ("2.3", "2.4"),
        ("2.8.1", "2.8.2"),
        ("3.0.0", "3.0.1"),
        ("3.1.0", "3.1.1"),
        ("3.7", "3.7-java"),
        ("3.7-java", "3.8-java"),
        ("4.0.0", "4.0.1"),
        ("4.0", "4.1"),
        ("4.1", "4.2"),
        ("4.3", "4.4"),
    ],
)
def test_rules_changed_between(before, after):
    assert expiry_rules(before) != expiry_rules(after)


@pytest.mark.parametrize(
    ("one", "other"), [("3.2", "3.9"), ("2.8.1", "3.0.0"), ("4.0.1", "4.0.2"), ("4.2", "4.3.1"), ("v4.3", " 4.3 ")]
)
def test_rules_did_not_change_between(one, other):
    assert expiry_rules(one) == expiry_rules(other)


def test_three_of_the_new_coordinators_looked_at_open_transactions_in_three_ways():
    rules = [expiry_rules(release).open_transaction for release in ("3.7.0-java", "3.9.1-java", "4.1")]
    assert rules == [OpenTransactionRule.NEVER, OpenTransactionRule.IF_IT_HAS_OFFSETS, OpenTransactionRule.ALWAYS]


@pytest.mark.parametrize("release", ["", "x", "4", "4.5", "5.0", "0.7", "1.2", "2.9", "3.10", "3.6-java", "4.0-java"])
def test_an_unknown_release_is_refused(release):
    with pytest.raises(ValueError, match=r"is unknown: 0.8 to 0.11, .* 3.9-java"):
        expiry_rules(release)


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_that_can_be_replayed_has_expiry_rules(release):
    assert expiry_rules(release).default_retention_ms
