"""Commands on groups of small lakes in memory, and what they print: made_screens.txt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgroups_spark.cli.lag import trend
from tests.cli.golden import Screen, screen, screens
from tests.cli.group_questions import LAKES, Said


@pytest.mark.parametrize("wanted", screens("made_screens"), ids=lambda wanted: f"{wanted.lake}: {wanted.command}")
def test_a_command_prints_its_screen(wanted: Screen, kgroups: Callable[..., Said], pytestconfig: pytest.Config) -> None:
    wanted.check(screen(*kgroups(wanted.command, LAKES[wanted.lake]())), pytestconfig)


@pytest.mark.parametrize(
    ("lags", "expected"),
    [([], ""), ([0, 0], "▁▁"), ([-5, None, 7], "▁ █"), ([1, 1000, 500], "▂█▅"), ([None], " ")],
)
def test_a_trend_begins_at_zero(lags: list[int | None], expected: str) -> None:
    assert trend(lags) == expected
