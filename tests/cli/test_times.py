"""Times and durations, as they are typed and as they are printed: times.txt. `pytest --regen` writes it again, and a
person reads the difference."""

from __future__ import annotations

import ast
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

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

TIMES = Path(__file__).parent / "times.txt"


def moment(text):
    found = parse_moment(text)
    return f"{exact_duration(timedelta(milliseconds=found))} after as_of" if isinstance(found, FromAsOf) else found


def shown(text):
    return f"{format_duration(int(float(text)))}, exactly {exact_duration(timedelta(milliseconds=float(text)))}"


MEANINGS = {"time": parse_time, "moment": moment, "duration": parse_duration, "shown": shown}


def meaning(line):
    """The line of times.txt, up to its arrow, with what the text after its first word means."""
    asked = line.partition(" => ")[0]
    kind, _, text = asked.partition(" ")
    if kind not in MEANINGS:
        return line
    try:
        return f"{asked} => {MEANINGS[kind](ast.literal_eval(text))}"
    except ValueError as error:
        return f"{asked} => {error}"


def test_times_and_durations_mean_what_times_txt_says(pytestconfig):
    lines = TIMES.read_text().splitlines()
    now = [meaning(line) for line in lines]
    if pytestconfig.getoption("regen"):
        TIMES.write_text("".join(f"{line}\n" for line in now))
    else:
        assert now == lines


def test_times_are_printed_to_the_millisecond_in_utc():
    in_berlin = datetime(2026, 11, 16, 7, 30, 0, 5_999, tzinfo=timezone(timedelta(hours=1)))
    assert format_time(in_berlin) == "2026-11-16T06:30:00.005Z"
    assert format_time_for_people(in_berlin) == "2026-11-16 06:30:00"


@given(time_ms=st.integers(100_000_000_000, 253_402_300_799_999))
def test_every_millisecond_survives_all_forms(time_ms):
    assert to_epoch_ms(to_datetime(time_ms)) == time_ms
    assert parse_time(format_time(time_ms)) == time_ms
    assert parse_time(str(time_ms)) == time_ms
    assert to_datetime(time_ms).tzinfo is UTC


def test_without_an_audit_a_relative_time_is_from_now():
    now = to_epoch_ms(datetime.now(UTC))
    assert 0 <= time_value("-6h") - (now - 6 * 3_600_000) < 60_000
    assert not isinstance(time_value("-6h"), FromAsOf)


@given(number=st.integers(0, 10_000), unit=st.sampled_from(list(UNITS_MS)))
def test_every_whole_number_of_a_unit_is_read_exactly(number, unit):
    assert parse_duration(f"{number}{unit}") == number * UNITS_MS[unit]
