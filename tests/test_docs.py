"""README and docs/ say what is so: links lead somewhere, commands can be typed, screens and tables are ours."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import sqlglot

from docs import tables_page
from kgroups_spark.cli import COMMANDS, main, parse
from kgroups_spark.findings.finding import KINDS
from tests.cli.story_reader import story
from tests.pages import PAGES, ROOT, blocks


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(text: str) -> list[str]:
    """Lines that begin with kgroups, without their comments; those with ... leave something out."""
    lines = (line.strip().removeprefix(".venv/bin/") for line in text.splitlines())
    typed = (re.split(r" {2,}|\s#\s|\s>\s|\s\|\s|\s&&\s", line)[0] for line in lines if line.startswith("kgroups "))
    return [line for line in typed if not line.endswith("...")]


DOCUMENTED = [
    (page.name, line) for page in PAGES for block in blocks(str(page.relative_to(ROOT))) for line in commands(block)
]
TAUGHT = [(f"{command.NAME} --help", line) for command in COMMANDS for line in commands(command.EXAMPLES)]


def test_readme_is_a_page_of_150_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not link.startswith("https://"):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    """`audit/run.py` of the package, `tests/views`, or `run.py` wherever it stands; capitals stand for a name."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"`([a-z_][\w./-]*(?:\.(?:py|sql|json|md|conf|toml|ipynb|txt)|/))`", prose)
    places = (ROOT, ROOT / "kgroups_spark", page.parent)
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert [name for name in missing if "NAME" not in name and not [*ROOT.glob(f"kgroups_spark/**/{name}")]] == []


@pytest.mark.parametrize(("where", "line"), DOCUMENTED + TAUGHT, ids=lambda text: text)
def test_commands_can_be_typed(where: str, line: str) -> None:
    command = parse(shlex.split(line)[1:])
    assert command.command in line


def test_the_page_of_commands_has_every_command() -> None:
    rows = re.findall(r"^\| `kgroups ([\w-]+)", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(command.NAME for command in COMMANDS)


@pytest.mark.parametrize("command", ["history", "export_offsets"])
def test_the_incident_in_the_readme_is_what_the_commands_print(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(f"kgroups_spark.commands.{command}.open_lake", lambda _: story())
    monkeypatch.chdir(tmp_path)
    name = command.replace("_", "-")
    ((line, expected),) = [two for two in pairwise(blocks("README.md")) if two[0].startswith(f"kgroups {name} ")]
    assert main(shlex.split(line)[1:]) == 0
    files = [path.read_text() for path in tmp_path.iterdir()]
    assert (capsys.readouterr().out or files[0]) == expected


def test_the_page_of_tables_is_what_the_schemas_say() -> None:
    assert tables_page.PAGE.read_text() == tables_page.page(), "run make docs, and look at the difference"


def test_the_page_of_findings_has_each_with_its_severity() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| .{20}", (ROOT / "docs/findings.md").read_text(), re.MULTILINE)
    assert rows == [(name, kind.severity) for name, kind in KINDS.items()]


@pytest.mark.parametrize("engine", ["trino", "databricks"])
def test_queries_for_other_engines_find_what_ours_finds(engine: str) -> None:
    """Their SQL, as sqlglot reads it, over the demo's tables."""
    (query,) = blocks("docs/sql.md", engine)
    tree = sqlglot.parse_one(query, read=engine)
    for table in tree.find_all(sqlglot.exp.Table):
        table.replace(sqlglot.exp.to_table(re.split(r"[./]", table.name)[-1]))
    found = story().sql(tree.sql("duckdb"))
    ours = "SELECT * FROM group_events WHERE event = 'offset_rewound' AND log_timestamp >= '2026-11-10'"
    assert len(found) == len(story().sql(ours)) > 0
    assert {row["group_id"] for row in found} == {"email-sender", "invoice-export"}
