"""The statements of Python's modules, without their expressions, which are most of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all statements in it, also those of functions and classes."""
    yield node
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, name, ()):
            yield from statements(each)
