"""What an audit is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kgroups_spark.audit.delete_retention import DEFAULT_DELETE_RETENTION_MS
from kgroups_spark.coordinator.releases import NEWEST


def silent(_: str) -> None:
    """Progress that nobody is told of."""


@dataclass(frozen=True)
class AuditOptions:
    """The options of `kgroups audit`. Times and durations in ms; None: the default that the command's help names."""

    lake: str
    segments: list[str] = field(default_factory=list)
    as_of: int | None = None
    retention_ms: int | None = None
    release_version: str = NEWEST
    partitions: list[int] | None = None
    offsets_partitions: int | None = None
    full: bool = False
    delete_retention_ms: int = DEFAULT_DELETE_RETENTION_MS
    strict: bool = False
    writer: str = "auto"
    take_over: bool = False
    progress: Callable[[str], None] = silent
