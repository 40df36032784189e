from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.words import UNITS_MS, exact_duration, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("15m", 900_000),
        ("48h", 172_800_000),
        ("7d", 604_800_000),
        ("1d12h", 129_600_000),
        (" 7D ", 604_800_000),
        ("0s", 0),
        ("0", 0),
    ],
)
def test_a_duration_is_whole_numbers_with_units(text, duration_ms):
    assert parse_duration(text) == duration_ms


def test_a_bare_number_is_refused_with_advice():
    with pytest.raises(ValueError, match=r"'48' has no unit: use 48ms, 48s, 48m, 48h or 48d"):
        parse_duration("48")


@pytest.mark.parametrize("text", ["", "h", "-1h", "1.5h", "7 days", "7w", "1h-", "h1", "7d 3", "１h"])
def test_an_invalid_duration_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="use 15m, 48h or 7d"):
        parse_duration(text)


def test_a_duration_over_a_century_is_refused_as_too_long_for_a_timestamp():
    assert parse_duration("36500d") == 36_500 * UNITS_MS["d"]
    with pytest.raises(ValueError, match="longer than a hundred years"):
        parse_duration("36501d")


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (900_000, "15m"),
        (604_800_000, "7d"),
        (604_799_999, "6d 23h"),
        (604_980_000, "7d"),
        (3_723_004, "1h 2m"),
        (-900_000, "-15m"),
    ],
)
def test_a_duration_is_formatted_with_its_two_largest_units(duration_ms, text):
    assert format_duration(duration_ms) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(days=40, hours=2, seconds=5), "40d 2h 5s"),
        (timedelta(seconds=-3_723, milliseconds=-4), "-1h 2m 3s 4ms"),
        (timedelta(minutes=1, microseconds=1_250), "1m 1.25ms"),
    ],
)
def test_a_duration_is_exact_with_all_its_units(duration, text):
    assert exact_duration(duration) == text


@given(number=st.integers(0, 10_000), unit=st.sampled_from(list(UNITS_MS)))
def test_every_whole_number_of_a_unit_is_read_exactly(number, unit):
    assert parse_duration(f"{number}{unit}") == number * UNITS_MS[unit]
