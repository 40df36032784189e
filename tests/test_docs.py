"""README and docs/ are up to date: links have targets, commands parse, screens and tables are those of the code."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from itertools import pairwise

import duckdb
import pytest
import sqlglot
from deltalake import DeltaTable
from sqlglot import exp

from docs import tables_page
from kgroups_spark import open_lake
from kgroups_spark.cli.form import help_of
from kgroups_spark.cli.main import NAMES, command_named, main, parse
from kgroups_spark.findings.finding import KINDS
from tests.cli.story_reader import story
from tests.cli.written_lake import add, ledger, write_lake
from tests.lake.table_rows import MOMENT, rows_of
from tests.pages import PAGES, ROOT, blocks


def anchors(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(text):
    """Lines that begin with kgroups, without their comments; those with ... leave something out."""
    lines = (line.strip().removeprefix(".venv/bin/") for line in text.splitlines())
    typed = (re.split(r" {2,}|\s#\s|\s>\s|\s\|\s|\s&&\s", line)[0] for line in lines if line.startswith("kgroups "))
    return [line for line in typed if not line.endswith("...")]


DOCUMENTED = [
    (page.name, line) for page in PAGES for block in blocks(str(page.relative_to(ROOT))) for line in commands(block)
]
TAUGHT = [(f"{name} --help", line) for name in NAMES for line in commands(help_of(command_named(name))["epilog"])]


def test_readme_is_a_page_of_150_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not link.startswith("https://"):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize(("where", "line"), DOCUMENTED + TAUGHT, ids=lambda text: text)
def test_commands_on_pages_parse(where, line):
    command = parse(shlex.split(line)[1:])
    assert command.command in line


def test_the_page_of_commands_has_every_command():
    rows = re.findall(r"^\| `kgroups ([\w-]+)", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(NAMES)


@pytest.mark.parametrize("command", ["history", "export_offsets"])
def test_the_incident_in_the_readme_equals_the_commands_output(command, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(f"kgroups_spark.cli.{command}.open_lake", lambda _: story())
    monkeypatch.chdir(tmp_path)
    name = command.replace("_", "-")
    ((line, expected),) = [two for two in pairwise(blocks("README.md")) if two[0].startswith(f"kgroups {name} ")]
    assert main(shlex.split(line)[1:]) == 0
    files = [path.read_text() for path in tmp_path.iterdir()]
    assert (capsys.readouterr().out or files[0]) == expected


def test_the_page_of_tables_agrees_with_the_schemas():
    assert tables_page.PAGE.read_text() == tables_page.page(), "run make docs, and look at the difference"


def test_the_page_of_findings_lists_each_finding_with_its_severity():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| .{20}", (ROOT / "docs/findings.md").read_text(), re.MULTILINE)
    assert rows == [(name, kind.severity) for name, kind in KINDS.items()]


@pytest.fixture(scope="module")
def cut_lake(tmp_path_factory):
    """A lake whose second audit has replaced what the first one read of partition 2 from log offset 10 on, and of
    another log all. A third one has not finished."""
    folder = tmp_path_factory.mktemp("cut") / "lake"
    replaced = {"offsets_partition": 2, "from_offset": 10, "to_offset": 20, "audit_id": 2}
    ranges = [replaced, replaced | {"from_offset": 0, "topic": "__share_group_state"}]
    audits = ledger({}, {"audit_id": 2, "replaced_ranges": ranges}, {"audit_id": 3, "status": "running"})
    event = {"event": "offset_rewound", "offsets_partition": 2, "log_timestamp": MOMENT}
    events = [event | {"audit_id": audit, "log_offset": at} for audit, at in ((1, 5), (1, 12), (2, 12))]
    write_lake(folder, {"audits": audits, "group_events": rows_of("group_events", *events)})
    add(folder, "group_events", rows_of("group_events", event | {"audit_id": 3, "log_offset": 30}), audit_id=3)
    return folder


def tables_in(lake):
    """Its tables as any reader of Delta sees them, all rows of them."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in ("audits", "group_events"):
        connection.register(name, DeltaTable(lake / name).to_pyarrow_table())
    return connection


def in_duckdb(engine):
    """The documented query for the engine, as sqlglot reads it, over tables by their names alone."""
    (query,) = blocks("docs/sql.md", engine)
    tree = sqlglot.parse_one(query, read=engine)
    for table in tree.find_all(exp.Table):
        table.set("this", exp.to_identifier(re.split(r"[./]", table.name)[-1]))
        table.set("db", None)
        table.set("catalog", None)
    for unnest in tree.find_all(exp.Unnest):
        if engine == "trino":  # a column for each field
            fields = sqlglot.select(f"unnest({unnest.expressions[0]}, recursive := true)", dialect="duckdb").subquery()
            fields.set("alias", unnest.args["alias"].copy())
            unnest.replace(fields)
    return tree.sql("duckdb")


ENGINES = ["trino", "databricks"]
OURS = "SELECT * FROM group_events WHERE event = 'offset_rewound' AND log_timestamp >= '2026-11-10' ORDER BY log_offset"


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_for_other_engines_find_the_same_rows_as_ours(engine):
    """Over the demo's tables."""
    found = story().sql(in_duckdb(engine))
    assert len(found) == len(story().sql(OURS)) > 0
    assert {row["group_id"] for row in found} == {"email-sender", "invoice-export"}


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_for_other_engines_leave_out_rows_that_do_not_count(engine, cut_lake):
    tables = tables_in(cut_lake)
    found = tables.sql(in_duckdb(engine)).to_arrow_table()
    ours = open_lake(cut_lake).sql(OURS).select(found.column_names)
    assert found.to_pylist() == ours.to_pylist()
    assert sorted(tables.sql(OURS).to_arrow_table()["audit_id"].to_pylist()) == [1, 1, 2, 3]
    assert len(ours) == 2


# Files and functions that the pages name exist, and each room of the package has a table of contents.
PACKAGE = ROOT / "kgroups_spark"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
# Blocks of code are no prose.
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# A path in backticks: with a file's ending, or a folder with a slash at its end, or in a folder that we have.
FILE = re.compile(r"`([a-z_][\w./-]*(?:\.(?:py|sql|json|md|conf|toml|ipynb|txt)|/))`")
IN_FOLDER = re.compile(rf"`((?:{'|'.join([*ROOMS, 'tests', 'docs', 'jobs', 'examples', 'notebooks'])})/[\w./-]+)`")
NAMED = re.compile(r"((?:`\w[\w.]*`, )*`\w[\w.]*`) in `([\w/]+\.py)`")
BEHIND = re.compile(r"`([\w/]+\.py)` \(((?:`\w[\w.]*`(?:, )?)+)")


def prose(page):
    """The page without blocks of code; a paragraph, an item or a row of a table is one line."""
    return re.sub(r"(?<=[^\s|])\n *(?=[^\s|#-])", " ", BLOCK.sub("", page.read_text()))


def missing_files(page, text):
    """Paths in the text that are neither in the repository, nor in the package, nor beside the page; a name without a
    folder may be anywhere in the package. Capitals stand for a name."""
    named = dict.fromkeys([*FILE.findall(text), *IN_FOLDER.findall(text)])
    wanted = [name for name in named if not re.search(r"[A-Z]{4}", name)]
    return [
        name
        for name in wanted
        if not any((top / name).exists() for top in (ROOT, PACKAGE, page.parent))
        and ("/" in name.rstrip("/") or not [*PACKAGE.rglob(name.rstrip("/"))])
    ]


@cache
def defined(path):
    """The functions, classes, methods and constants of a module."""
    found = set[str]()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                methods = [each.name for each in body if isinstance(each, ast.FunctionDef)]
                fields = [
                    each.target.id
                    for each in body
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                ]
                found |= {name, *methods, *fields, *(f"{name}.{method}" for method in methods)}
            case ast.Assign(targets=targets):
                found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


def missing_names(text):
    """Functions and constants that the text names with their file (`look` in `findings/finders.py`, `audit/run.py`
    (`run_audit`), or in the columns of a table) and that the file has not."""
    stops = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| ([^|]+) \|", text, re.MULTILINE)
    behind = [(names, path) for path, names in BEHIND.findall(text)]
    pairs = [*NAMED.findall(text), *behind, *((names, path) for path, names in stops)]
    named = [(path, name) for names, path in pairs for name in re.findall(r"`([\w.]+)`", names)]
    return [f"{path}: {name}" for path, name in named if name not in defined(PACKAGE / path)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page):
    assert missing_files(page, prose(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_functions_exist(page):
    assert missing_names(prose(page)) == []


def test_the_check_sees_what_is_missing():
    page = ROOT / "docs/design.md"
    assert missing_files(page, "`audit/gone.py` `run.py` `audit/run.py` `tests/gone` `gone/NAME.sql`") == [
        "audit/gone.py",
        "tests/gone",
    ]
    assert missing_names("`Claim.take`, `gone` in `lake/claim.py`\n| 1 | `audit/run.py` | `lost` |") == [
        "lake/claim.py: gone",
        "audit/run.py: lost",
    ]


def test_the_design_is_a_page_that_can_be_read():
    text = (ROOT / "docs/design.md").read_text()
    assert len(text.splitlines()) <= 300
    assert len(re.findall(r"^\| \d+ \| `", text, re.MULTILINE)) == 21  # the stops of an offset


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_a_table_of_contents(room):
    """5 to 20 lines that name every file and folder, and none that is gone; commands by their names alone."""
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    assert 5 <= len(text.splitlines()) <= 20
    own = [path for path in (PACKAGE / room).iterdir() if path.stem not in ("__init__", "__pycache__")]
    words = set(re.findall(r"[\w./-]+", text)) | set(re.findall(r"\w+", text.partition("The commands:")[2]))
    named = {path.stem if path.is_dir() else path.name for path in own}
    assert [name for name in named if not {name, f"{name}/", name.removesuffix(".py")} & words] == []
    gone = {word for word in words if word.endswith(".py") and "/" not in word} - named
    assert gone == set()
