"""People read one word for one thing: docs/glossary.md has the words, and those that they replace."""

from __future__ import annotations

import ast
import json
import re
import string
from functools import cache
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, nodes, statements

GLOSSARY = ROOT / "docs/glossary.md"
CODE = sorted([*(ROOT / "kgroups_spark").rglob("*.py"), *(ROOT / "jobs").glob("*.py"), *(ROOT / "docs").glob("*.py")])
AROUND = sorted(
    path for name in ("tests", "benchmarks") for path in (ROOT / name).rglob("*.py") if path != Path(__file__)
)
OTHERS = {
    "pages": [page for page in PAGES if page != GLOSSARY],
    "notebooks": sorted((ROOT / "notebooks").glob("*.ipynb")),
    "templates": sorted((ROOT / "kgroups_spark/report/page").iterdir()),
    "queries": sorted((ROOT / "kgroups_spark").rglob("*.sql")),
    "settings": [ROOT / "Makefile", *sorted((ROOT / "conf").iterdir()), *sorted((ROOT / "examples").iterdir())],
}
# At the beginning of a text, a paragraph, an item or a cell, or behind another sentence. A question may begin so.
NOUN = re.compile(r"(?:^|[.!?] |\| |- )((?:Of|What|Who|Whose|Whom|Whoever) [A-Za-z0-9`_][^.!?|]*[.!?]?)", re.MULTILINE)
BEGINNING = re.compile(r"(?:Of|What|Who|Whose|Whom|Whoever)\s")
BLOCK_OR_CODE = re.compile(r"^```.*?^```$|``[^`]+``|`[^`]*`|^#.*?$", re.MULTILINE | re.DOTALL)
# Lines that hold nothing else, or the end of one.
COMMENT = re.compile(r"(?:^ *# [^\n]*\n)+|(?<=  )# [^\n]*", re.MULTILINE)
SQL_COMMENT = re.compile(r"(?:^ *-- [^\n]*\n)+", re.MULTILINE)
# Comments of scripts and styles; markup and placeholders, between which the words of a page are.
PAGE_COMMENT = re.compile(r"(?<!:)// ([^\n]*)|/\*(.*?)\*/", re.DOTALL)
MARKUP = re.compile(r"<style>.*?</style>|<[^>]*>|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
PART_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


def replaced_words():
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| ([^|]+) \|$", GLOSSARY.read_text(), re.MULTILINE)
    return [word for row in rows[1:] for word in row.split(", ")]


def squashed(text):
    return text.lower().translate(NO_WORDS)


NO_WORDS = str.maketrans("", "", string.punctuation + string.whitespace)
SQUASHED = tuple(map(squashed, replaced_words()))
REPLACED = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, replaced_words()))})(?![\w-])", re.IGNORECASE)


def complaints(text):
    """Replaced words, and sentences that begin with a clause as a noun, outside of code."""
    prose = BLOCK_OR_CODE.sub(lambda code: "`" if code[0][0] == "`" else "", text)
    unbroken = re.sub(r"(?<=\S)\n *(?=\S)", " ", prose)
    nouns = [found for found in NOUN.findall(unbroken) if not found.endswith("?")]
    return REPLACED.findall(unbroken) + nouns


def may_complain(text):
    """Whether a module may have one of the words in its texts or its names, or such a sentence. Only these modules are
    parsed: it takes ten times as long."""
    all_in_one = squashed(text)
    return any(word in all_in_one for word in SQUASHED) or BEGINNING.search(text) is not None


@cache
def suspects(*paths):
    return [path for path in paths if may_complain(path.read_text())]


@cache
def texts_and_names(path):
    """The texts of a module and the names that it gives, of functions, classes, arguments, variables and attributes;
    with their lines."""
    texts, names = [], []
    for node in nodes(ast.parse(path.read_text())):
        match node:
            case ast.Constant(value=str(text)):
                texts.append((node.lineno, text))
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                names.append((node.lineno, name))
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.append((node.lineno, name))
    return texts, names


@cache
def place(path):
    """The path as a complaint names it."""
    return str(path.relative_to(ROOT))


def texts(path):
    """Every text of a module that a person may read, with its line: docstrings, messages, help, comments."""
    for line, text in texts_and_names(path)[0]:
        yield f"{place(path)}:{line}", text
    yield from comments(path, path.read_text())


def texts_around(path):
    """Docstrings, comments and names of tests; their other strings are data."""
    text = path.read_text()
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            name = "" if isinstance(node, ast.Module) else node.name.replace("_", " ")
            line = 1 if isinstance(node, ast.Module) else node.lineno
            yield f"{place(path)}:{line}", f"{name}\n\n{ast.get_docstring(node) or ''}"
    yield from comments(path, text)


def names(path):
    """Every name that a module gives, in words."""
    for line, name in texts_and_names(path)[1]:
        yield f"{place(path)}:{line}", " ".join(PART_OF_NAME.findall(name))


def comments(path, text):
    """Comments; those on lines of their own that follow each other are one."""
    for found in COMMENT.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{place(path)}:{line}", re.sub(r"^\s*# ?", "", found[0], flags=re.MULTILINE)


def test_the_glossary_is_in_order_and_names_what_it_replaces():
    words = re.findall(r"^\| (\w[^|]+) \|", GLOSSARY.read_text(), re.MULTILINE)[1:]
    assert words == sorted(words, key=str.lower)
    assert {"tables of now", "told", "anew", "shall"} <= set(replaced_words())


def test_help_messages_docstrings_and_comments_use_them():
    found = {where: complaints(text) for path in suspects(*CODE) for where, text in texts(path)}
    found |= {where: complaints(text) for path in suspects(*AROUND) for where, text in texts_around(path)}
    assert {where: words for where, words in found.items() if words} == {}


def prose(path):
    """The words of a file that is no module of Python, a paragraph each: those of pages, and the comments of others."""
    text = path.read_text()
    match path.suffix:
        case ".md":
            return text
        case ".ipynb":
            return "\n\n".join(map(cell_text, json.loads(text)["cells"]))
        case ".html":
            return MARKUP.sub("\n\n", text)
        case ".js" | ".css":
            return "\n\n".join(line or block for line, block in PAGE_COMMENT.findall(text))
        case ".sql":
            head, _, body = text.partition("\n\n")
            said = re.sub(r"^-- ?(?:(?:argument )?\w+(?: [A-Z ]+)?(?: = .*?)?: )?", "\n", head, flags=re.MULTILINE)
            found = [re.sub(r"^ *-- ?", "", each, flags=re.MULTILINE) for each in SQL_COMMENT.findall(body)]
            return "\n\n".join([said if path.parent.name in ("definitions", "queries") else "", *found])
        case _:
            return "\n\n".join(comment for _, comment in comments(path, text))


def cell_text(cell):
    """The prose of a notebook's cell: all of a text, the comments of code."""
    source = "".join(cell["source"])  # type: ignore[arg-type]
    return source if cell["cell_type"] == "markdown" else "\n\n".join(re.findall(r"# (.*)", source))


@pytest.mark.parametrize("kind", ["pages", "notebooks", "templates", "queries", "settings"])
def test_other_files_use_them(kind):
    found = {place(path): complaints(prose(path)) for path in OTHERS[kind]}
    assert {where: words for where, words in found.items() if words} == {}


def test_names_in_the_package_use_them():
    named = (each for path in suspects(*CODE) for each in names(path))
    found = [(where, words) for where, name in named if (words := REPLACED.findall(name))]
    assert found == []


def test_the_check_sees_planted_words(tmp_path):
    module = tmp_path / "planted.py"
    module.write_text(
        "class MadeAgain:\n    def decided_anew(self, told: int) -> None:\n        self.oddities = told\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.test_words.ROOT", tmp_path)
        found = [REPLACED.findall(name) for _, name in names(module)]
    assert suspects(module) == [module]
    assert sorted(found) == [[], ["Made Again"], ["anew"], ["oddities"], ["told"]]
    assert complaints(cell_text({"cell_type": "code", "source": ["x = 1  # told\n", "told = 2\n"]})) == ["told"]
    for suffix, text, words in (
        (".html", "<p class='told'>{{ told }} anew</p>", ["anew"]),
        (".js", "told(); // anew\n/* shall */", ["anew", "shall"]),
        (".sql", "-- told\n\nSELECT told\n-- anew\n", ["anew"]),
    ):
        planted = tmp_path / f"planted{suffix}"
        planted.write_text(text)
        assert complaints(prose(planted)) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The tables of now are decided anew.", ["tables of now", "anew"]),
        ("Of a group the offsets.", ["Of a group the offsets."]),
        ("It is so. What stands there is old.", ["What stands there is old."]),
        ("| a | What it does |", ["What it does "]),
        ("What is told?", ["told"]),
        ("The marker that stands behind it came after it.", ["stands behind"]),
        ("The name `told`, and\n```\nof now\n```\nno more", []),
        ("Retold, as of nowhere: `What is so`.", []),
    ],
)
def test_the_check_sees_words_and_sentences(text, words):
    assert complaints(text) == words
    assert may_complain(text) or not words
