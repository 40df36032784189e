"""Options that need not be typed: kgroups.toml, or [tool.kgroups] in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroups_spark.cli.main import configured, main, parse
from kgroups_spark.errors import UsageError

EXAMPLE = Path(__file__).parents[2] / "examples/kgroups.toml"
FILE = """
lake = "s3://bucket/kgroups"
[audit]
bootstrap-server = "broker1:9092"
command-config = "client.properties"
retention = "14d"
partition = ["1", "2,3"]
strict = true
full = false
[expiring]
within = "48h"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KGROUPS_LAKE", raising=False)
    (tmp_path / "kgroups.toml").write_text(FILE)
    return tmp_path


def test_a_nightly_is_kgroups_audit():
    found = parse(["audit"])
    assert (found.lake, found.bootstrap_server, found.command_config) == (
        *("s3://bucket/kgroups", "broker1:9092", "client.properties"),
    )
    assert (found.retention, found.partitions, found.strict, found.full) == (14 * 86_400_000, [1, 2, 3], True, False)
    assert parse(["expiring"]).within == 2 * 86_400_000
    assert parse(["dump", "x"]).command == "dump"


def test_the_command_line_counts_and_the_environment():
    assert parse(["audit", "--retention", "7d", "--lake", "mine"]).retention == 7 * 86_400_000
    assert parse(["audit", "--lake", "mine"]).lake == parse(["--lake", "mine", "audit"]).lake == "mine"
    assert parse(["--lake=mine", "expiring"]).within == 2 * 86_400_000
    other = parse(["audit", "--segments=copy", "--partition", "7"])
    assert (other.bootstrap_server, other.command_config, other.segments) == (None, None, ["copy"])
    assert (other.partitions, other.strict) == ([7], True)


def test_a_lake_of_the_environment_counts_and_the_demo_has_its_own(monkeypatch):
    assert configured(["demo"]) == ["demo"]
    monkeypatch.setenv("KGROUPS_LAKE", "other")
    assert not any(word.startswith("--lake") for word in configured(["audit"]))


def test_a_project_may_have_it_in_its_own_file(folder):
    (folder / "kgroups.toml").unlink()
    assert configured(["groups"]) == ["groups"]
    (folder / "pyproject.toml").write_text("[tool.kgroups]\nlake = 'ours'\n[tool.kgroups.groups]\nstate = 'Empty'\n")
    assert configured(["groups"]) == ["--lake=ours", "groups", "--state=Empty"]
    (folder / "pyproject.toml").write_text("[tool.other")
    assert configured(["groups"]) == ["groups"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lakes = 'x'", "kgroups.toml: lakes is neither the lake nor the table of a command; did you mean lake"),
        ("[lake]", "kgroups.toml: lake is neither"),
        ("audit = 7", "kgroups.toml: audit is neither"),
        ("x =", "kgroups.toml is no TOML"),
        ("[audit]\nretnetion = '7d'", "unknown option --retnetion; did you mean --retention"),
        ("[audit]\nretention = 7", "--retention: "),
    ],
)
def test_a_wrong_file_is_refused(text, said, folder, capsys):
    (folder / "kgroups.toml").write_text(text)
    assert main(["audit", "--segments", "copy"]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_command_is_refused_as_ever():
    with pytest.raises(UsageError, match="unknown command"):
        parse(["audti"])


def test_the_example_is_right(folder):
    (folder / "kgroups.toml").write_text(EXAMPLE.read_text())
    assert parse(["audit"]).strict and parse(["expiring"]).within == 2 * 86_400_000
