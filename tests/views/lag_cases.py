"""Tables of the views lag and share_lag."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.lake.table_rows import rows_of
from tests.views.fixtures import tables_of

GREATEST = 2**63 - 1
# Topic id, partition, start offset, records that are done: the lag by the rule of the brokers, if it is a BIGINT.
SHARED = (
    ("A", 0, 40, 3),
    ("A", 0, None, 3),
    ("A", 0, 40, None),
    ("A", 1, 13, 0),
    ("A", 0, -GREATEST - 1, 0),
    ("A", 0, 100 - GREATEST, 0),
    ("of a topic created before", 0, 40, 3),
    ("A", 2, 5, 0),
    ("A", 9, 5, 0),
)
ENDS = {0: 100, 1: 12, 2: None}


def shared(number: int, topic_id: str, partition: int, start: int | None, done: int | None) -> dict[str, Any]:
    place = {"group_id": f"s{number}", "topic_id": topic_id, "topic": "jobs", "partition": partition}
    return place | {"start_offset": start, "delivery_complete_count": done}


def tables(live: bool = True) -> dict[str, pa.Table]:
    """Those of lag.sql and share partitions; without the ends of topics if no audit was live."""
    found = {name: rows for name, rows in tables_of("lag").items() if live or name != "topic_offsets"}
    return found | {"share_partitions": rows_of("share_partitions", *(shared(n, *row) for n, row in enumerate(SHARED)))}


def share_lag(start_offset: int | None, delivery_complete_count: int | None, log_end_offset: int | None) -> int | None:
    """The number of records that a share group still has to finish, from 4.2 on; None: unknown.

    (GroupCoordinatorService.computeShareGroupLagAndBuildResponse, 4.3: with the end of read_uncommitted.)
    """
    if start_offset is None or delivery_complete_count is None or log_end_offset is None:
        return None
    return log_end_offset - start_offset - delivery_complete_count
