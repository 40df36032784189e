"""The tables, views and functions of a lake that a query needs."""

from __future__ import annotations

from kgroups_spark.sql.views import needed_for


def test_functions_in_an_arguments_default_are_needed_too() -> None:
    functions = ["java_hash", "offsets_partition_count", "offsets_partition_of"]
    assert [
        name for name in needed_for("SELECT offsets_partition_of(group_id) FROM groups") if name in functions
    ] == functions
