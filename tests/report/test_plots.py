"""The plots: their axes reach the top of the bars, dates are below the bars, a bar says what it counts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kgroups_spark.report.figures import (
    BLUE,
    PARTIAL,
    RED,
    Axes,
    days_chart,
    labelled_days,
    numbered_chart,
    svg,
    ticks_up_to,
)

FIRST = datetime(2026, 11, 16, tzinfo=UTC)
SERIES = [("due now", RED), ("later", BLUE)]
OFFSETS = Axes("day (UTC)", "offsets", "offset")


def day(number: int) -> datetime:
    return FIRST + timedelta(days=number)


def bar(number: int, value: int, series: str = "later") -> dict[str, Any]:
    return {"day": day(number), "series": series, "value": value}


def drawn(rows: list[dict[str, Any]], days: int = 8, partial: dict[datetime, str] | None = None) -> str:
    return svg(days_chart(rows, SERIES, OFFSETS, FIRST, days, partial or {}))


def texts(drawing: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing)


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (4, [0, 1, 2, 3, 4]),
        (6, [0, 2, 4, 6]),
        (18, [0, 5, 10, 15, 20]),
        (18.5, [0, 5, 10, 15, 20]),
        (1731, [0, 500, 1000, 1500, 2000]),
        (0.9, [0, 1]),
        (51, [0, 20, 40, 60]),
    ],
)
def test_the_last_tick_is_not_below_the_highest_bar(highest: float, ticks: list[int]) -> None:
    assert ticks_up_to(highest) == ticks


@pytest.mark.parametrize("highest", [number / 7 for number in range(1, 5000, 250)])
def test_ticks_are_few_and_none_is_needless(highest: float) -> None:
    ticks = ticks_up_to(highest)
    assert 2 <= len(ticks) <= 6
    assert ticks[-2] < highest <= ticks[-1]


def test_axes_have_titles_and_numbers_up_to_the_top() -> None:
    drawing = drawn([bar(0, 1200), bar(0, 300, "due now"), bar(1, 700)])
    said = texts(drawing)
    assert [said.count(title) for title in ("day (UTC)", "offsets")] == [1, 1]
    assert [text for text in said if text in ("0", "500", "1k", "1.5k", "2k")] == ["0", "500", "1k", "1.5k"]


def test_each_of_few_bars_has_its_date() -> None:
    heights = {day(0): 4.0, day(1): 8.0, day(6): 3.0, day(7): 3.0}
    assert labelled_days([day(number) for number in range(8)], heights) == [*heights]
    assert {"16 Nov", "17 Nov", "22 Nov", "23 Nov"} <= set(texts(drawn([bar(0, 4), bar(1, 8), bar(6, 3), bar(7, 3)])))


def test_where_dates_have_no_room_beside_each_other_the_higher_bar_has_its_own() -> None:
    shown = [day(number) for number in range(30)]
    assert labelled_days(shown, {day(9): 1.0, day(10): 5.0}) == [day(0), day(10), day(29)]


def test_every_nth_of_many_bars_and_the_last_have_a_date() -> None:
    shown = [day(number) for number in range(22)]
    assert labelled_days(shown, dict.fromkeys(shown, 1.0)) == shown[::3]
    assert labelled_days(shown[1:], dict.fromkeys(shown, 1.0))[-1] == shown[-1]


def test_a_bar_says_its_day_and_what_it_counts() -> None:
    drawing = drawn([bar(0, 4, "due now"), bar(1, 1)], partial={FIRST: "until 06:41 UTC"})
    said = re.findall(r'aria-label="(\d+ Nov[^"]*)"', drawing)
    assert said == ["16 Nov 2026, until 06:41 UTC: 4 offsets, due now", "17 Nov 2026: 1 offset, later"]


def test_a_numbered_bar_says_its_number_and_its_unit() -> None:
    rows = [{"at": "7", "series": "commits an hour", "value": 12.25}]
    drawing = svg(numbered_chart(rows, [("commits an hour", BLUE)], Axes("partition", "commits an hour", None)))
    assert 'aria-label="partition 7: 12.2 commits an hour"' in drawing
    assert {"partition", "commits an hour", "7"} <= set(texts(drawing))


def test_the_bars_of_a_day_that_is_not_whole_are_pale() -> None:
    drawing = drawn([bar(0, 4), bar(1, 4)], partial={day(1): "until 06:41 UTC"})
    paths = [path for path in re.findall("<path[^>]*>", drawing) if "Nov 2026" in path]
    assert [f'opacity="{PARTIAL}"' in path for path in paths] == [False, True]
