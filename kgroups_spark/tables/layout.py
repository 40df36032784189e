"""The layout of a lake's tables, and whether its location is a path: all that is known without opening it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.tables.schemas import TABLES

# The layout of the tables: raised when they change in a way that older software would misread.
LAKE_VERSION = 1
LAKE_VERSION_PROPERTY = "kgroups.lakeVersion"

# The folder for task output that is not yet in a table. Spark and Delta ignore folders that begin with an underscore.
WORK_FOLDER = "_work"


def lake_version_in(properties: Mapping[str, str | None]) -> int:
    """The layout in a table's properties; 0: none, as for a foreign table `audits`."""
    said = properties.get(LAKE_VERSION_PROPERTY) or ""
    return int(said) if said.isdecimal() else 0


def require_known_version(location: str, version: int) -> None:
    """Raises UsageError for a location that is not a lake, KgroupsError for a lake of another version."""
    if version == 0:
        raise UsageError(
            f"{location} is not a lake: its table audits has no property {LAKE_VERSION_PROPERTY}, which kgroups audit "
            "sets; name another location"
        )
    if version != LAKE_VERSION:
        raise KgroupsError(
            f"the lake at {location} has layout {version}; this version of kgroups-spark knows {LAKE_VERSION}: "
            "use the version that wrote it"
        )


def require_nothing_else(location: str, names: Iterable[str], an_empty_one: str) -> None:
    """Raises UsageError for the location of a new lake that holds more than an earlier attempt left."""
    if strangers := sorted(set(names) - set(TABLES) - {WORK_FOLDER}):
        raise UsageError(
            f"{location} is neither a lake nor empty: it holds {', '.join(strangers[:3])}; name {an_empty_one}"
        )


def is_path(location: str) -> bool:
    """A path has a slash or a scheme, or exists; anything else is `catalog.schema`."""
    return "/" in location or ":" in location or Path(location).exists()
