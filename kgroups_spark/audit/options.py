"""The options of an audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgroups_spark.errors import UsageError
from kgroups_spark.words import DAY_MS

if TYPE_CHECKING:
    from kgroups_spark.cluster.client_properties import ClientProperties


def silent(_: str) -> None:
    """Progress without output."""


# The other logs by the names that they have on the command line.
STATE_LOGS = ("share-state", "transaction-state")


def parse_state_logs(text: str) -> tuple[str, ...]:
    """`share-state,transaction-state`, one of them, or `none`. Raises ValueError."""
    names = [] if text.strip() == "none" else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in STATE_LOGS:
            raise ValueError(f"{name!r} is unknown; use {', '.join(STATE_LOGS)} or none")
    return tuple(names)


def require_partition_count(count: int | None, partitions: Iterable[int]) -> None:
    """Raises UsageError if `__consumer_offsets` has more partitions than the given count (None: none was given)."""
    last = max(partitions, default=-1)
    if count is not None and last >= count:
        raise UsageError(f"--offsets-partitions {count}: there is a partition {last}, so there are {last + 1} at least")


@dataclass(frozen=True)
class AuditOptions:
    """The options of `kgroups audit`. Times and durations in ms; None: the default that the command's help names.
    `include`: which of STATE_LOGS are read, too, if they exist.

    The log to read: the folders `segments`, the archive `records`, or the cluster that `client` reaches.
    """

    lake: str
    segments: Sequence[str] = field(default_factory=list)
    records: str | None = None
    client: ClientProperties | None = None
    as_of: int | None = None
    retention_ms: int | None = None
    release_version: str | None = None
    partitions: Sequence[int] | None = None
    include: tuple[str, ...] = STATE_LOGS
    offsets_partitions: int | None = None
    share_delivery_count_limit: int | None = None
    full: bool = False
    accept_log_change: bool = False
    delete_retention_ms: int | None = None
    max_bytes_per_second: int | None = None
    take_over: bool = False
    progress: Callable[[str], None] = silent


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
    if vacuum_ms < LEAST_VACUUM_MS:
        raise UsageError(
            "--vacuum below 7d is refused: readers may still use files that young, and a running audit keeps the "
            "files of the last finished one until it finishes"
        )
