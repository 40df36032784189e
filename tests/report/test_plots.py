"""The plots: their axes reach the top of the bars, dates are below the bars, a bar says what it counts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from kgroups_spark.report.figures import (
    BLUE,
    PARTIAL,
    RED,
    Axes,
    days_chart,
    numbered_chart,
    svg,
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


def test_axes_have_titles_and_numbers_up_to_the_top() -> None:
    drawing = drawn([bar(0, 1200), bar(0, 300, "due now"), bar(1, 700)])
    said = texts(drawing)
    assert [said.count(title) for title in ("day (UTC)", "offsets")] == [1, 1]
    assert {"0", "500", "1k", "1.5k"} <= set(said)


def test_a_small_bar_has_whole_numbers_beside_it_and_its_date_below() -> None:
    said = texts(drawn([bar(0, 1), bar(7, 1)]))
    assert [text for text in said if text.replace(".", "").isdigit()] == ["0", "1"]
    assert {"16 Nov", "22 Nov"} <= set(said)


def test_a_bar_says_its_day_and_what_it_counts() -> None:
    drawing = drawn([bar(0, 4, "due now"), bar(1, 1)], partial={FIRST: "until 06:41 UTC"})
    said = re.findall(r'aria-label="(\d+ Nov[^"]*)"', drawing)
    assert said == ["16 Nov 2026, until 06:41 UTC: 4 offsets, due now", "17 Nov 2026: 1 offset, later"]


def test_a_numbered_bar_says_its_number_and_its_unit() -> None:
    rows = [{"at": "7d", "series": "at once", "value": 1200}]
    drawing = svg(numbered_chart(rows, [("at once", BLUE)], Axes("retention", "offsets", "offset")))
    assert 'aria-label="retention 7d: 1,200 offsets, at once"' in drawing
    assert {"retention", "offsets", "7d"} <= set(texts(drawing))


def test_the_bars_of_a_day_that_is_not_whole_are_pale() -> None:
    drawing = drawn([bar(0, 4), bar(1, 4)], partial={day(1): "until 06:41 UTC"})
    paths = [path for path in re.findall("<path[^>]*>", drawing) if "Nov 2026" in path]
    assert [f'opacity="{PARTIAL}"' in path for path in paths] == [False, True]
