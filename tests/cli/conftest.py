"""Commands on groups, as fixtures."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from kgroups_spark.cli import main
from kgroups_spark.commands import describe, expiring, export_offsets, groups, history
from kgroups_spark.views import duckdb_views
from tests.cli.group_questions import Said
from tests.cli.story_reader import ArrowReader, story

open_table = duckdb_views._table
# By the files of its log: the table, and its version when it was opened, for a reader may have gone back.
opened: dict[tuple[str, frozenset[tuple[str, int, int, int]]], tuple[DeltaTable, int]] = {}


def table_opened_once(location: str, name: str, storage_options: dict[str, str] | None) -> DeltaTable | None:
    """As duckdb_views._table, but a table is opened once as long as its log stays as it is: a command opens all 29 of
    a lake, and most lakes are read by many commands."""
    log = f"{location.rstrip('/')}/{name}/_delta_log"
    try:
        files = frozenset((at.name, *stat_of(at.stat())) for at in os.scandir(log))
    except OSError:
        return open_table(location, name, storage_options)
    table, version = opened.get((log, files), (None, -1))
    if table is None or table.version() != version:
        table = open_table(location, name, storage_options)
        if table is not None:
            opened[log, files] = table, table.version()
    return table


def stat_of(stat: os.stat_result) -> tuple[int, int, int]:
    """The same for the same file as long as nobody writes it."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


@pytest.fixture(autouse=True)
def tables_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_views, "_table", table_opened_once)


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
