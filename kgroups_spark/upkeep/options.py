"""The options of maintenance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kgroups_spark.audit.options import silent
from kgroups_spark.durations import DAY_MS
from kgroups_spark.errors import UsageError

# Delta's own limit. Younger files may still be needed: by a running query, by time travel, or as the last finished
# audit's tables while another audit rewrites the current tables.
LEAST_VACUUM_MS = 7 * DAY_MS


@dataclass(frozen=True)
class MaintainOptions:
    """The options of `kgroups maintain`; durations in ms. `keep_ms` None: history is not reduced."""

    lake: str
    optimize: bool = True
    vacuum_ms: int = LEAST_VACUUM_MS
    keep_ms: int | None = None
    dry_run: bool = False
    take_over: bool = False
    progress: Callable[[str], None] = silent


def require_vacuum_allowed(vacuum_ms: int) -> None:
    """Raises UsageError below LEAST_VACUUM_MS."""
    if vacuum_ms < LEAST_VACUUM_MS:
        raise UsageError(
            "--vacuum below 7d is refused: readers may still use files that young, and a running audit keeps the "
            "files of the last finished one until it finishes"
        )
