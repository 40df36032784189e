"""Java classes and collections through py4j, without py4j's usual cost.

For every step of a dotted name py4j asks the JVM whether it is a class, and the JVM looks for each name that is none in
all of Spark's some three hundred jars. An iteration over a Java collection ends with a Java exception, which PySpark
translates with thirty such names. Together that was nearly half of a small night.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import JavaPackage


class JavaClasses:
    """Classes of the driver's JVM by their full names, each looked up once."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._found: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        """The class; py4j's package of that name if there is no such class."""
        if name not in self._found:
            self._found[name] = getattr(self._jvm, name)
        return self._found[name]

    def has(self, name: str) -> bool:
        return not isinstance(self(name), JavaPackage)


def items_of(collection: Any) -> Iterator[Any]:
    """The elements of a java.util.Collection."""
    yield from collection.toArray()


def dict_of(java_map: Any) -> dict[str, Any]:
    """A java.util.Map of strings."""
    return {key: java_map[key] for key in items_of(java_map.keySet())}
