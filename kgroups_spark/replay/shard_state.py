"""The saved state of an offsets partition: a replay begins with one and ends with the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.offsets.state import OffsetState


@dataclass(frozen=True, eq=False)
class ShardState:
    """The state of an offsets partition at a log offset.

    removed_groups  groups known to be removed -> the log offset of their removal, the oldest first
    """

    offsets: OffsetState = field(default_factory=OffsetState.empty)
    groups: dict[str, Group] = field(default_factory=dict)
    removed_groups: dict[str, int] = field(default_factory=dict)
