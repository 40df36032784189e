"""README and the pages of docs/, as tests read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str = "") -> list[str]:
    """The page's blocks of code in this language, in their order. `page`: its path from the root."""
    return [text for found, text in _BLOCK.findall((ROOT / page).read_text()) if found == language]


# The nodes of Python's modules, and the statements alone: expressions are most of a module.


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all statements in it, also those of functions and classes."""
    yield node
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, name, ()):
            yield from statements(each)


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The node and all nodes in it, as ast.walk in a third of its time: without contexts and operators."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        # Not vars(node), which has positions, too.
        for name in node._fields:
            value = getattr(node, name, None)
            if type(value) is list:
                waiting += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:
                waiting.append(value)
