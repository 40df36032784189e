"""Files and functions that the pages name exist, and each room of the package has a table of contents."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT

PACKAGE = ROOT / "kgroups_spark"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
# Blocks of code are no prose.
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# A path in backticks: with a file's ending, or a folder with a slash at its end, or in a folder that we have.
FILE = re.compile(r"`([a-z_][\w./-]*(?:\.(?:py|sql|json|md|conf|toml|ipynb|txt)|/))`")
IN_FOLDER = re.compile(rf"`((?:{'|'.join([*ROOMS, 'tests', 'docs', 'jobs', 'examples', 'notebooks'])})/[\w./-]+)`")
NAMED = re.compile(r"((?:`\w[\w.]*`, )*`\w[\w.]*`) in `([\w/]+\.py)`")
BEHIND = re.compile(r"`([\w/]+\.py)` \(((?:`\w[\w.]*`(?:, )?)+)")


def prose(page: Path) -> str:
    """The page without blocks of code; a paragraph, an item or a row of a table is one line."""
    return re.sub(r"(?<=[^\s|])\n *(?=[^\s|#-])", " ", BLOCK.sub("", page.read_text()))


def missing_files(page: Path, text: str) -> list[str]:
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
def defined(path: Path) -> set[str]:
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


def missing_names(text: str) -> list[str]:
    """Functions and constants that the text names with their file (`look` in `findings/finders.py`, `audit/run.py`
    (`run_audit`), or in the columns of a table) and that the file has not."""
    stops = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| ([^|]+) \|", text, re.MULTILINE)
    behind = [(names, path) for path, names in BEHIND.findall(text)]
    pairs = [*NAMED.findall(text), *behind, *((names, path) for path, names in stops)]
    named = [(path, name) for names, path in pairs for name in re.findall(r"`([\w.]+)`", names)]
    return [f"{path}: {name}" for path, name in named if name not in defined(PACKAGE / path)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    assert missing_files(page, prose(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_functions_exist(page: Path) -> None:
    assert missing_names(prose(page)) == []


def test_the_check_sees_what_is_missing() -> None:
    page = ROOT / "docs/design.md"
    assert missing_files(page, "`audit/gone.py` `run.py` `audit/run.py` `tests/gone` `gone/NAME.sql`") == [
        "audit/gone.py",
        "tests/gone",
    ]
    assert missing_names("`Claim.take`, `gone` in `lake/claim.py`\n| 1 | `audit/run.py` | `lost` |") == [
        "lake/claim.py: gone",
        "audit/run.py: lost",
    ]


def test_the_design_is_a_page_that_can_be_read() -> None:
    text = (ROOT / "docs/design.md").read_text()
    assert len(text.splitlines()) <= 300
    assert len(re.findall(r"^\| \d+ \| `", text, re.MULTILINE)) == 21  # the stops of an offset


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_a_table_of_contents(room: str) -> None:
    """5 to 20 lines that name every file and folder, and none that is gone; commands by their names alone."""
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    assert 5 <= len(text.splitlines()) <= 20
    own = [path for path in (PACKAGE / room).iterdir() if path.stem not in ("__init__", "__pycache__")]
    words = set(re.findall(r"[\w./-]+", text)) | set(re.findall(r"\w+", text.partition("The commands:")[2]))
    named = {path.stem if path.is_dir() else path.name for path in own}
    assert [name for name in named if not {name, f"{name}/", name.removesuffix(".py")} & words] == []
    gone = {word for word in words if word.endswith(".py") and "/" not in word} - named
    assert gone == set()
