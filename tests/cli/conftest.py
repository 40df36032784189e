"""Commands on groups, as fixtures."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from kgroups_spark.cli import main
from kgroups_spark.commands import describe, expiring, export_offsets, groups, history
from tests.cli.group_questions import Said
from tests.cli.story_reader import ArrowReader, story


@pytest.fixture
def kgroups(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs a command on tables in memory (default: the story); returns exit code, stdout and stderr."""

    def run(line: str, reader: ArrowReader | None = None) -> Said:
        for command in (describe, expiring, export_offsets, groups, history):
            monkeypatch.setattr(command, "open_lake", lambda _: reader or story())
        capsys.readouterr()
        code = main(shlex.split(line))
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def rows(kgroups: Callable[..., Said]) -> Callable[..., list[dict[str, Any]]]:
    def run(line: str, reader: ArrowReader | None = None) -> list[dict[str, Any]]:
        code, out, err = kgroups(f"{line} --format json", reader)
        assert code == 0, err
        return [json.loads(text) for text in out.splitlines()]

    return run
