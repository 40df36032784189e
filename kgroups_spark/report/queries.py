"""The questions about a lake of the report and the notebooks, as SQL files that Spark and DuckDB both run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgroups_spark.package_data import names_in_package, package_text

Row = dict[str, Any]
# A query's rows: times as UTC datetimes, lists as lists.
Ask = Callable[[str], list[Row]]

NAMES = tuple(names_in_package("report/queries", ".sql"))
GROUP_NAMES = tuple(names_in_package("report/group_queries", ".sql"))


def query(name: str) -> str:
    """The text of one of NAMES. Raises FileNotFoundError for any other."""
    return package_text(f"report/queries/{name}.sql").strip()


def group_query(name: str) -> str:
    """The text of one of GROUP_NAMES, with the parameter :group_id; `offsets` and `rewound` also have :since,
    :until."""
    return package_text(f"report/group_queries/{name}.sql").strip()
