"""Which layout the tables of a lake have, and which place is a path: what can be said of a lake without opening it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.tables.schemas import TABLES

# The layout of the tables: raised when they change in a way that older software would misread.
# How an older lake gets there: lake/migrations.py.
LAKE_VERSION = 11
LAKE_VERSION_PROPERTY = "kgroups.lakeVersion"

# Where tasks leave what is not yet in a table; Spark and Delta do not look into folders that begin with a low line.
WORK_FOLDER = "_work"

# Findings that had another name before layout 7: in rows of `findings` until the lake is migrated.
FINDINGS_BEFORE_7 = {
    "transaction_open_too_long": "hanging_transaction",
    "goes_when_emptied": "lost_when_emptied",
    "commit_time_off": "commit_time_skew",
}


def lake_version_in(properties: Mapping[str, str | None]) -> int:
    """The layout that a table's properties tell; 0: none, as a table `audits` of somebody else."""
    said = properties.get(LAKE_VERSION_PROPERTY) or ""
    return int(said) if said.isdecimal() else 0


def require_known_version(location: str, version: int) -> None:
    """Raises UsageError for a place that is no lake, KgroupsError for one that newer software made."""
    if version == 0:
        raise UsageError(
            f"{location} is no lake: its table audits has no property {LAKE_VERSION_PROPERTY}, "
            "which kgroups audit gives it; name another place"
        )
    if version > LAKE_VERSION:
        raise KgroupsError(
            f"the lake at {location} has layout {version}; this version of kgroups-spark knows up to "
            f"{LAKE_VERSION}: use the version that made it, or a newer one"
        )


def require_nothing_else(location: str, names: Iterable[str], an_empty_one: str) -> None:
    """Raises UsageError for a place of a new lake that holds more than what an earlier attempt left."""
    if strangers := sorted(set(names) - set(TABLES) - {WORK_FOLDER}):
        raise UsageError(
            f"{location} is no lake and not empty: it holds {', '.join(strangers[:3])}; name {an_empty_one}"
        )


def is_path(location: str) -> bool:
    """A path has a slash or a scheme, or is there; anything else is `catalog.schema`."""
    return "/" in location or ":" in location or Path(location).exists()
