"""Commands on groups, as fixtures."""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from pathlib import Path

import pytest

from kgroups_spark.cli import describe, expiring, export_offsets, findings, groups, history, lag, pending
from kgroups_spark.cli.main import main
from kgroups_spark.sql import by_duckdb
from tests.cli.story_reader import story

DuckDbLake = by_duckdb.DuckDbLake


def lake_opened_once(location):
    """As DuckDbLake, but a lake is opened once as long as its tables' logs stay as they are: a command opens 29 tables,
    and a database in which it makes views, and most lakes are read by many commands."""
    files = Path(location).glob("*/_delta_log/*")
    return lake_with(location, frozenset((str(at), *stat_of(at.stat())) for at in files))


@lru_cache(maxsize=8)
def lake_with(location, _):
    return DuckDbLake(location)


def stat_of(stat):
    """The same for the same file as long as nobody writes it."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


@pytest.fixture(autouse=True)
def lakes_opened_once(monkeypatch):
    monkeypatch.setattr(by_duckdb, "DuckDbLake", lake_opened_once)


@pytest.fixture
def kgroups(monkeypatch, capsys):
    """Runs a command on tables in memory (default: the story); returns exit code, stdout and stderr."""

    def run(line, reader=None):
        for command in (describe, expiring, export_offsets, findings, groups, history, lag, pending):
            monkeypatch.setattr(command, "open_lake", lambda _: reader or story())
        capsys.readouterr()
        code = main(shlex.split(line))
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def rows(kgroups):
    def run(line, reader=None):
        code, out, err = kgroups(f"{line} --format json", reader)
        assert code == 0, err
        return [json.loads(text) for text in out.splitlines()]

    return run
