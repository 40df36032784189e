"""The questions about a lake of the report and the notebooks, as SQL files that Spark and DuckDB both run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
# A query's rows: times as UTC datetimes, lists as lists.
Ask = Callable[[str], list[Row]]

_FOLDER = Path(__file__).parent / "queries"
_OF_A_GROUP = Path(__file__).parent / "group_queries"
NAMES = tuple(sorted(path.stem for path in _FOLDER.glob("*.sql")))
GROUP_NAMES = tuple(sorted(path.stem for path in _OF_A_GROUP.glob("*.sql")))


def query(name: str) -> str:
    """The text of one of NAMES. Raises FileNotFoundError for any other."""
    return (_FOLDER / f"{name}.sql").read_text().strip()


def group_query(name: str) -> str:
    """The text of one of GROUP_NAMES, with the parameter :group_id; `offsets` and `rewound` also have :since,
    :until."""
    return (_OF_A_GROUP / f"{name}.sql").read_text().strip()
