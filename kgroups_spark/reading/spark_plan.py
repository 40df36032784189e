"""Spark's plans from Python: every node of a tree, wherever Catalyst keeps it.

Catalyst keeps trees in more places than `children`: plans in expressions (sub-queries), expressions in plans, and both
in lists, options, pairs and maps (the relations of WITH, the windows of WINDOW). All of them are elements of their
owner, which is a Scala product, so a walk over elements misses none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from py4j.java_gateway import JavaObject

# An object's kind: the first matching class.
_KINDS = (
    ("org.apache.spark.sql.types.DataType", "leaf"),
    ("org.apache.spark.sql.catalyst.trees.TreeNode", "tree"),
    ("scala.collection.Iterable", "elements"),
    ("scala.Product", "product"),
)


class Plans:
    """Walks plans of one JVM. It looks up the kind of each class once; a walk takes about four calls a node."""

    def __init__(self, jvm: Any) -> None:
        self._is_instance = getattr(jvm, "py4j.reflection.TypeUtil").isInstanceOf
        self._kinds: dict[str, str] = {}

    def nodes(self, plan: JavaObject, is_leaf: Callable[[str, JavaObject], bool]) -> Iterator[tuple[str, JavaObject]]:
        """Each node of plans and expressions, with its class's full name; owners come first. Nodes for which `is_leaf`
        is true are not entered."""
        waiting: list[Any] = [plan]
        while waiting:
            value = waiting.pop()
            if not isinstance(value, JavaObject):
                continue
            name = value.getClass().getName()
            kind = self._kind(name, value)
            if kind == "tree":
                yield name, value
                if not is_leaf(name, value):
                    waiting += elements(value)
            elif kind == "elements":
                sequence = value.toSeq()
                waiting += [sequence.apply(index) for index in range(sequence.size())]
            elif kind == "product":
                waiting += elements(value)

    def is_plan(self, value: Any) -> bool:
        plan = "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"
        return isinstance(value, JavaObject) and bool(self._is_instance(plan, value))

    def _kind(self, name: str, value: JavaObject) -> str:
        if name not in self._kinds:
            found = (kind for class_name, kind in _KINDS if self._is_instance(class_name, value))
            self._kinds[name] = next(found, "leaf")
        return self._kinds[name]


def elements(product: JavaObject) -> list[Any]:
    """The parts of a Scala product, in the order of its constructor."""
    return [product.productElement(index) for index in range(product.productArity())]


def strings(sequence: JavaObject) -> list[str]:
    return [str(sequence.apply(index)) for index in range(sequence.size())]
