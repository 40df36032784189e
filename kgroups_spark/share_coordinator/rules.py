"""How each Kafka release replays `__share_group_state`: data only.

Sources: ShareCoordinatorShard, ShareGroupOffset and PersisterStateBatchCombiner of 4.0.2, 4.1.2, 4.2.1, 4.3.1, 4.4.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kgroups_spark.coordinator.releases import Release


@dataclass(frozen=True)
class ShareRules:
    """The replay rules of one release."""

    # Layout of version 0 of both values; early access (4.0) had other layouts.
    layout: str = ""
    # A tag that is new in 4.2. Without it the count is -1, unknown.
    has_delivery_complete_count: bool = True
    # 4.0 writes no tombstones, and fails at one.
    tombstone_removes: bool = True
    # The state epoch of a share partition whose snapshot the log no longer has.
    unknown_state_epoch: int = 0
    # How batches are combined. `pairs`: the combination of two batches may touch an equal batch before it and stay
    # separate until the next update. `sweep` (4.4): equal adjacent batches always become one.
    combines: Literal["pairs", "sweep"] = "sweep"

    def fails_at(self, reason: str) -> bool:
        """Whether its load fails at a record that cannot be decoded for that reason (messages/outcome.py).

        Every release skips types that it does not know (CoordinatorLoaderImpl), and nothing else.
        """
        return reason != "unknown_record_type"

    def reads_layout(self, layout: str) -> bool:
        """Whether it reads values in that layout: "" is that of 4.1 and newer; "?4.0" fits this one and 4.0's."""
        return layout == self.layout or layout.startswith("?")


_V4_4 = ShareRules()
_V4_2 = replace(_V4_4, combines="pairs")
_V4_1 = replace(_V4_2, has_delivery_complete_count=False)
_V4_0 = replace(_V4_1, layout="4.0", tombstone_removes=False, unknown_state_epoch=-1)
# The first version with these rules, newest first.
_SINCE = (((4, 4), _V4_4), ((4, 2), _V4_2), ((4, 1), _V4_1), ((4, 0), _V4_0))


def share_rules(release: Release) -> ShareRules | None:
    """The rules of a release. None: it has no share coordinator (before 4.0)."""
    return next((rules for first, rules in _SINCE if release.version >= first), None)
