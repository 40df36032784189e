"""The rules that a release name selects, and milliseconds where no TIMESTAMP holds them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from kgroups_spark.coordinator.releases import expiry_rules
from kgroups_spark.offsets.expiry import NONE, first_known, later, times_in, timestamp, timestamps
from kgroups_spark.tables.columns import TIMESTAMP
from tests.expiry.twin_cases import NOW

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


LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)


@pytest.mark.parametrize("retention_ms", [1, 1 << 62, (1 << 63) - 1])
def test_a_retention_of_any_length_leads_to_a_later_time(retention_ms: int) -> None:
    assert later(np.array([NOW]), retention_ms)[0] > NOW
    assert later(np.array([NONE]), retention_ms).tolist() == [NONE]


def test_a_time_after_the_year_9999_is_its_last_millisecond() -> None:
    late = later(np.array([NOW, NONE]), (1 << 63) - 1)
    assert timestamps(late).to_pylist() == [LAST, None]
    assert timestamp(int(late[0])).as_py() == LAST


def test_times_of_a_table_are_rounded_down_to_milliseconds() -> None:
    column = pa.chunked_array([pa.array([1_999, None, -1], pa.int64()).cast(TIMESTAMP)])
    assert times_in(column).tolist() == [1, NONE, -1]


def test_the_first_column_with_a_time_counts() -> None:
    assert first_known(np.array([7, NONE, NONE]), np.array([8, 9, NONE])).tolist() == [7, 9, NONE]
