"""`kgroups demo`: what its screen says is in the lake, and each command on it shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroups_spark.cli.demo import CONTENTS, STORY, program_name
from kgroups_spark.cli.main import main
from kgroups_spark.words import format_time_for_people, group_count
from tests.cli.golden import screens
from tests.pages import blocks


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder with the lake, and the screen of a terminal of 80 columns."""
    folder, before = tmp_path_factory.mktemp("demo"), Path.cwd()
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as screen:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        lines: list[str] = []
        screen.setattr("kgroups_spark.cli.demo.show", lines.append)
        assert main(["demo", "--engine", "local"]) == 0
    assert Path.cwd() == before
    return folder, "\n".join(lines)


def test_it_is_a_story_of_40_lines_at_80_columns(demo):
    lines = demo[1].splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    [in_readme] = [block for block in blocks("README.md") if block.startswith("A small shop")]
    assert [line for line in in_readme.splitlines() if line not in lines] == ["..."] * 2


def test_each_command_can_be_pasted_and_has_a_golden_screen(demo):
    commands = [command for _, command in STORY if not command.startswith("report")]
    assert set(commands) <= {wanted.command for wanted in screens("narrow_screens")}
    for name, _, rest in (command.partition(" ") for command in commands):
        assert f"  kgroups {name} --lake ./lake {rest}".rstrip() in demo[1].splitlines()


def test_its_numbers_are_those_of_the_lake(demo, monkeypatch):
    from kgroups_spark import open_lake

    lake = open_lake(demo[0] / "lake")

    def one(query):
        return next(iter(lake.rows(query)[0].values()))

    [known] = lake.rows("SELECT begins, ends FROM known_history")
    begins, ends = (format_time_for_people(known[name])[:16] for name in ("begins", "ends"))
    offsets = one("SELECT count(*) FROM committed_offsets")
    groups = group_count(lake.rows("SELECT * FROM groups"))
    assert f": {groups} groups, {offsets} committed offsets, {begins} to {ends} UTC" in CONTENTS
    story = "\n".join(what for what, _ in STORY)
    moved = "SELECT sum({}) FROM group_events WHERE group_id = '{}' AND event = '{}'"
    back = one(moved.format("offset_before - offset_after", "invoice-export", "offset_rewound"))
    skipped = one(moved.format("offset_after - offset_before", "carrier-feedback", "offset_restarted"))
    given_up = one("SELECT sum(records) FROM dead_letters")
    due = "SELECT count(DISTINCT group_id) FROM offset_expiry WHERE expires_at <= (SELECT as_of FROM last_audit)"
    soon = f"{due} + INTERVAL 7 DAY"
    assert f"sent {back:,} invoices twice" in story
    assert f"never reads {skipped:,} records" in story
    assert f"gave up {given_up} records" in story
    assert f"{one(soon)} groups lose their offsets within a week, {one(due)} of them" in story


def test_a_second_run_reads_nothing_new_and_says_the_same(demo, monkeypatch, capsys):
    monkeypatch.chdir(demo[0])
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", "--engine", "local"]) == 0
    assert capsys.readouterr().out.splitlines() == demo[1].splitlines()


def test_commands_name_a_program_that_the_shell_finds(tmp_path, monkeypatch):
    command = tmp_path / "venv" / "bin" / "kgroups"
    command.parent.mkdir(parents=True)
    command.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert program_name(str(command)) == "venv/bin/kgroups"
    assert program_name("../elsewhere/kgroups") == "../elsewhere/kgroups"
    assert program_name("/usr/lib/spark/jobs/nightly_audit.py") == "kgroups"
    monkeypatch.setenv("PATH", str(command.parent))
    assert program_name(str(command)) == "kgroups"
