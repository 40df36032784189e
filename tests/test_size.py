"""The project's size only goes down. A capability that needs more lines pays with others, or its commit says why not.

A line of code is one that is not blank, a comment, a docstring or an import; SQL counts.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# To be lowered with each change that deletes.
LARGEST = {
    "kgroups_spark": {"code": 29_499, "lines": 45_979, "files": 149, "folders": 15},
    "tests": {"code": 31_480, "lines": 46_886, "files": 287, "folders": 33},
}
LONGEST_FILE = 770


def lines_of_code(path: Path) -> int:
    text = path.read_text()
    if path.suffix == ".sql":
        return sum(bool(line.strip()) and not line.strip().startswith("--") for line in text.splitlines())
    counted = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            counted -= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            counted -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(counted)


def files(name: str) -> list[Path]:
    return [path for suffix in ("*.py", "*.sql") for path in (ROOT / name).rglob(suffix)]


@pytest.mark.parametrize("name", LARGEST)
def test_the_project_grows_no_more(name: str) -> None:
    found = files(name)
    size = {
        "code": sum(map(lines_of_code, found)),
        "lines": sum(len(path.read_text().splitlines()) for path in found),
        "files": sum(path.suffix == ".py" for path in found),
        "folders": len({path.relative_to(ROOT / name).parts[0] for path in found if path.parent != ROOT / name}),
    }
    assert {what: count for what, count in size.items() if count > LARGEST[name][what]} == {}


def test_no_file_is_longer_than_the_longest() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in files("kgroups_spark")}
    assert [str(path) for path, length in lengths.items() if length > LONGEST_FILE] == []


def test_comments_docstrings_imports_and_blank_lines_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    head = '"""A module.\n\nIts reason.\n"""\n\nimport re\n\n# A comment.\nX = 1  # one\n\n\n'
    path.write_text(head + 'def f():\n    """A function."""\n    return X\n')
    assert lines_of_code(path) == 3
