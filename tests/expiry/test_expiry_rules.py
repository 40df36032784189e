"""The rules that a release name selects."""

import pytest

from kgroups_spark.coordinator.releases import expiry_rules

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("release", "days"), [("0.8", 1), ("0.8.2.2", 1), ("1.1", 1), ("2.0", 7), ("3.9-java", 7), ("4.3", 7)]
)
def test_default_retention_became_a_week_with_2_0(release, days):
    assert expiry_rules(release).default_retention_ms == days * DAY_MS


@pytest.mark.parametrize(
    ("bare", "last_patch"),
    [("4.0", "4.0.2"), ("2.1", "2.1.1"), ("2.8", "2.8.2"), ("3.0", "3.0.2"), ("3.1", "3.1.2"), ("v4.3", " 4.3 ")],
)
def test_without_a_patch_number_the_last_patch_release_is_meant(bare, last_patch):
    assert expiry_rules(bare) == expiry_rules(last_patch)


@pytest.mark.parametrize("release", ["", "x", "4", "4.5", "5.0", "0.7", "1.2", "2.9", "3.10", "3.6-java", "4.0-java"])
def test_an_unknown_release_is_refused(release):
    with pytest.raises(ValueError, match=r"is unknown: 0.8 to 0.11, .* 3.9-java"):
        expiry_rules(release)
