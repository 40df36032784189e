"""The lag of share partitions by the rule of the brokers."""

from __future__ import annotations


def share_lag(start_offset: int | None, delivery_complete_count: int | None, log_end_offset: int | None) -> int | None:
    """The number of records that a share group still has to finish, from 4.2 on; None: unknown.

    (GroupCoordinatorService.computeShareGroupLagAndBuildResponse, 4.3: with the end of read_uncommitted.)
    """
    if start_offset is None or delivery_complete_count is None or log_end_offset is None:
        return None
    return log_end_offset - start_offset - delivery_complete_count
