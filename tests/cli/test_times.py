"""Times and durations, as they are typed and as they are printed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.cli.form import time_value
from kgroups_spark.words import (
    UNITS_MS,
    FromAsOf,
    exact_duration,
    format_duration,
    format_time,
    format_time_for_people,
    parse_duration,
    parse_moment,
    parse_time,
    to_datetime,
    to_epoch_ms,
)

SIX_THIRTY = 1_794_810_600_000  # 2026-11-16T06:30:00Z


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-16T06:30", SIX_THIRTY),
        ("2026-11-16 06:30", SIX_THIRTY),
        ("2026-11-16T06:30Z", SIX_THIRTY),
        ("2026-11-16T07:30+01:00", SIX_THIRTY),
        ("2026-11-16T06:30:15", SIX_THIRTY + 15_000),
        ("2026-11-16 06:30:15.25Z", SIX_THIRTY + 15_250),
        ("2026-11-16", SIX_THIRTY - 6 * 3_600_000 - 30 * 60_000),
        ("1794810600000", SIX_THIRTY),
        (" 2026-11-16T06:30 ", SIX_THIRTY),
    ],
)
def test_a_time_is_iso_8601_in_utc_or_epoch_milliseconds(text, time_ms):
    assert parse_time(text) == time_ms


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "16.11.2026", "06:30", "-1794810600000", "2026-11-16T25:00"]
)
def test_an_invalid_time_is_refused_with_examples(text):
    with pytest.raises(ValueError, match=r"use 2026-11-16T06:30, "):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("1794810600", "for seconds, append 000"), ("20261116", "a date is 2026-11-16"), ("0", "for seconds, append 000")],
)
def test_seconds_and_dates_without_dashes_are_not_taken_for_milliseconds(text, meant):
    with pytest.raises(ValueError, match=rf"too few digits for epoch milliseconds \(13 today\); {meant}$"):
        parse_time(text)


def test_microseconds_are_refused():
    with pytest.raises(ValueError, match="too many digits"):
        parse_time("1794810600000000")


@pytest.mark.parametrize("text", ["0001-01-01T00:00+00:01", "9999-12-31T23:59-00:01"])
def test_a_time_whose_zone_moves_it_out_of_the_years_1_to_9999_is_refused(text):
    with pytest.raises(ValueError, match="is not in the years 1 to 9999 of UTC"):
        parse_time(text)


def test_times_are_printed_to_the_millisecond_in_utc():
    in_berlin = datetime(2026, 11, 16, 7, 30, 0, 5_999, tzinfo=timezone(timedelta(hours=1)))
    assert format_time(in_berlin) == "2026-11-16T06:30:00.005Z"
    assert format_time(SIX_THIRTY + 650) == "2026-11-16T06:30:00.650Z"
    assert format_time_for_people(SIX_THIRTY + 650) == "2026-11-16 06:30:00"


@given(time_ms=st.integers(100_000_000_000, 253_402_300_799_999))
def test_every_millisecond_survives_all_forms(time_ms):
    assert to_epoch_ms(to_datetime(time_ms)) == time_ms
    assert parse_time(format_time(time_ms)) == time_ms
    assert parse_time(str(time_ms)) == time_ms
    assert to_datetime(time_ms).tzinfo is UTC


DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize(
    ("text", "after_ms"),
    [("2d", -2 * DAY_MS), ("-2d", -2 * DAY_MS), (" +1d12h", 36 * 3_600_000), ("-6H", -6 * 3_600_000), ("500ms", -500)],
)
def test_a_duration_is_a_time_before_or_after_that_of_the_audit(text, after_ms):
    moment = parse_moment(text)
    assert isinstance(moment, FromAsOf)
    assert moment == after_ms


@pytest.mark.parametrize("text", ["2026-11-16T06:30", "20261116T0630Z", "1794810600000"])
def test_a_time_is_no_duration(text):
    moment = parse_moment(text)
    assert not isinstance(moment, FromAsOf)
    assert moment == SIX_THIRTY


@pytest.mark.parametrize("text", ["-6", "+2", "2w", "--2d", "d", "-2d6"])
def test_what_is_neither_is_refused_as_a_time(text):
    with pytest.raises(ValueError, match=r"epoch milliseconds"):
        parse_moment(text)


def test_without_an_audit_a_relative_time_is_from_now():
    now = to_epoch_ms(datetime.now(UTC))
    assert 0 <= time_value("-6h") - (now - 6 * 3_600_000) < 60_000
    assert not isinstance(time_value("-6h"), FromAsOf)


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
