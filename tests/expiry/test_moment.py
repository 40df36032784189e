"""Milliseconds of columns, where they have no time or no TIMESTAMP holds them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from kgroups_spark.offsets.expiry import NONE, first_known, later, times_in, timestamp, timestamps
from kgroups_spark.tables.columns import TIMESTAMP
from tests.expiry.twin_cases import NOW

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
