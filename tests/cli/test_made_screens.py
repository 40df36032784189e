"""Commands on groups of small lakes in memory, and what they print: made_screens.txt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.golden import Screen, screen, screens
from tests.cli.group_questions import LAKES, Said


@pytest.mark.parametrize("wanted", screens("made_screens"), ids=lambda wanted: f"{wanted.lake}: {wanted.command}")
def test_a_command_prints_its_screen(wanted: Screen, kgroups: Callable[..., Said], pytestconfig: pytest.Config) -> None:
    wanted.check(screen(*kgroups(wanted.command, LAKES[wanted.lake]())), pytestconfig)
