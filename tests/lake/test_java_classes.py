"""Java's classes and collections through py4j, without costly requests to the JVM."""

from __future__ import annotations

import pytest
from py4j.java_gateway import JavaClass, JVMView

from kgroups_spark.lake.kernel import JavaClasses, Kernel, dict_of, items_of

pytestmark = pytest.mark.spark


@pytest.fixture
def java(spark):
    return JavaClasses(spark._jvm)


@pytest.fixture
def asked(monkeypatch):
    """The names that the JVM is asked for."""
    names = []
    ask = JVMView.__getattr__

    def reported(view, name):
        names.append(name)
        return ask(view, name)

    monkeypatch.setattr(JVMView, "__getattr__", reported)
    return names


def test_a_class_is_looked_up_once_by_its_full_name(java, asked):
    assert isinstance(java("java.util.ArrayList"), JavaClass)
    assert java("java.util.ArrayList") is java("java.util.ArrayList")
    assert java.has("java.util.ArrayList")
    assert not java.has("no.such.Class")
    assert asked == ["java.util.ArrayList", "no.such.Class"]


def test_collections_end_without_an_exception(java, asked):
    names = java("java.util.LinkedHashMap")()
    for number, name in enumerate("ab"):
        names.put(name, str(number))
    java("java.util.TreeSet")
    asked.clear()
    assert dict_of(names) == {"a": "0", "b": "1"}
    assert list(items_of(java("java.util.TreeSet")(names.keySet()))) == ["a", "b"]
    # PySpark looks up some thirty names to translate an exception.
    assert asked == []


def test_reading_a_table_looks_up_no_packages(spark, tmp_path, asked):
    kernel = Kernel(spark)
    table = kernel.table(kernel.qualified(str(tmp_path / "table")))
    schema = '{"type":"struct","fields":[{"name":"audit_id","type":"long","nullable":false,"metadata":{}}]}'
    table.create(schema, "a table", {"delta.checkpointInterval": "100"})
    table.files()
    table.properties()
    asked.clear()
    assert table.properties() == {"delta.checkpointInterval": "100"}
    assert table.refusal() is None
    assert table.files() == []
    assert asked == []
