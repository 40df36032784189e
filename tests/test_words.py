"""People read one word for one thing: docs/glossary.md has the words, and those that they replace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT

GLOSSARY = ROOT / "docs/glossary.md"
CODE = sorted([*(ROOT / "kgroups_spark").rglob("*.py"), *(ROOT / "jobs").glob("*.py"), *(ROOT / "docs").glob("*.py")])
AROUND = sorted(
    path for name in ("tests", "benchmarks") for path in (ROOT / name).rglob("*.py") if path != Path(__file__)
)
HEADS = sorted((ROOT / "kgroups_spark/views/sql").glob("*.sql"))
# At the beginning of a text, a paragraph, an item or a cell, or behind another sentence. A question may begin so.
NOUN = re.compile(r"(?:^|[.!?] |\| |- )((?:Of|What|Who|Whose|Whom|Whoever) [A-Za-z0-9`_][^.!?|]*[.!?]?)", re.MULTILINE)
BLOCK_OR_CODE = re.compile(r"^```.*?^```$|``[^`]+``|`[^`]*`|^#.*?$", re.MULTILINE | re.DOTALL)
# Lines that hold nothing else, or the end of one.
COMMENT = re.compile(r"(?:^ *# [^\n]*\n)+|(?<=  )# [^\n]*", re.MULTILINE)


def replaced_words() -> list[str]:
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| ([^|]+) \|$", GLOSSARY.read_text(), re.MULTILINE)
    return [word for row in rows[1:] for word in row.split(", ")]


REPLACED = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, replaced_words()))})(?![\w-])", re.IGNORECASE)


def complaints(text: str) -> list[str]:
    """Replaced words, and sentences that begin with a clause as a noun, outside of code."""
    prose = BLOCK_OR_CODE.sub(lambda code: "`" if code[0][0] == "`" else "", text)
    unbroken = re.sub(r"(?<=\S)\n *(?=\S)", " ", prose)
    nouns = [found for found in NOUN.findall(unbroken) if not found.endswith("?")]
    return REPLACED.findall(unbroken) + nouns


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """Every text of a module that a person may read, with its line: docstrings, messages, help, comments."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
    yield from comments(path, text)


def texts_around(path: Path) -> Iterator[tuple[str, str]]:
    """Docstrings, comments and names of tests; their other strings are data."""
    text = path.read_text()
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            name = "" if isinstance(node, ast.Module) else node.name.replace("_", " ")
            line = 1 if isinstance(node, ast.Module) else node.lineno
            yield f"{path.relative_to(ROOT)}:{line}", f"{name}\n\n{ast.get_docstring(node) or ''}"
    yield from comments(path, text)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all statements in it: definitions stand among them, and expressions are most of a module."""
    yield node
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, name, ()):
            yield from statements(each)


def comments(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """Comments; those on lines of their own that follow each other are one."""
    for found in COMMENT.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{path.relative_to(ROOT)}:{line}", re.sub(r"^\s*# ?", "", found[0], flags=re.MULTILINE)


def test_the_glossary_is_in_order_and_names_what_it_replaces() -> None:
    words = re.findall(r"^\| (\w[^|]+) \|", GLOSSARY.read_text(), re.MULTILINE)[1:]
    assert words == sorted(words, key=str.lower)
    assert {"tables of now", "told", "anew", "shall"} <= set(replaced_words())


@pytest.mark.parametrize("page", [page for page in PAGES if page != GLOSSARY], ids=lambda page: page.name)
def test_pages_use_the_glossarys_words(page: Path) -> None:
    assert complaints(page.read_text()) == []


def test_help_messages_docstrings_and_comments_use_them() -> None:
    found = {where: complaints(text) for path in CODE for where, text in texts(path)}
    found |= {where: complaints(text) for path in AROUND for where, text in texts_around(path)}
    assert {where: words for where, words in found.items() if words} == {}


def said(path: Path) -> str:
    """What the head of a view says of it and of its columns, a paragraph each."""
    head = path.read_text().split("\n\n")[0]
    return re.sub(r"^-- ?(?:(?:argument )?\w+(?: [A-Z ]+)?(?: = .*?)?: )?", "\n", head, flags=re.MULTILINE)


def test_comments_of_views_use_them() -> None:
    heads = {path.name: complaints(said(path)) for path in HEADS}
    assert {name: words for name, words in heads.items() if words} == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The tables of now are decided anew.", ["tables of now", "anew"]),
        ("Of a group the offsets.", ["Of a group the offsets."]),
        ("It is so. What stands there is old.", ["What stands there is old."]),
        ("| a | What it does |", ["What it does "]),
        ("What is told?", ["told"]),
        ("The name `told`, and\n```\nof now\n```\nno more", []),
        ("Retold, as of nowhere: `What is so`.", []),
    ],
)
def test_the_check_sees_words_and_sentences(text: str, words: list[str]) -> None:
    assert complaints(text) == words
