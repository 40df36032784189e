"""The worked example of KIP-932, "Managing durable share-partition state": eleven operations, and what is stored after each.

Records in flight (Acquired) and the end of the window (SPEO) are never stored: an operation that only fetches writes
nothing, and a record in its first delivery is stored as available with delivery count 0, if at all.
"""  # noqa: E501  the sentence

from __future__ import annotations

import pytest

from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.share_shard import ShareCoordinatorShard, share_rules
from tests.share_coordinator.histories import KEYS, batch, snapshot, update

AVAILABLE, ACKNOWLEDGED = 0, 2
NOTHING = None

# Operation, the update that the share-partition leader writes, then start offset and batches as stored.
STEPS = [
    ("fetch 100-109", NOTHING, 100, []),
    ("acknowledge 100-109", update(start=110), 110, []),
    ("fetch 110-119: consumer 1 gets 110-112, consumer 2 113-118, consumer 3 119", NOTHING, 110, []),
    ("consumer 1 releases 110", update([batch(110, 110, AVAILABLE, 1)]), 110, ["110-110 available 1"]),
    (
        "consumer 3 acknowledges 119",
        update([batch(111, 118, AVAILABLE, 0), batch(119, 119, ACKNOWLEDGED, 1)]),
        110,
        ["110-110 available 1", "111-118 available 0", "119-119 acknowledged 1"],
    ),
    (
        "consumer 1 fetches 110, 120",
        NOTHING,
        110,
        ["110-110 available 1", "111-118 available 0", "119-119 acknowledged 1"],
    ),
    (
        "the locks of 111 and 112 time out",
        update([batch(111, 112, AVAILABLE, 1)]),
        110,
        ["110-112 available 1", "113-118 available 0", "119-119 acknowledged 1"],
    ),
    (
        "consumer 2 acknowledges 113-118",
        update([batch(113, 118, ACKNOWLEDGED, 1)]),
        110,
        ["110-112 available 1", "113-119 acknowledged 1"],
    ),
    ("consumer 3 fetches 111, 112", NOTHING, 110, ["110-112 available 1", "113-119 acknowledged 1"]),
    ("consumer 1 acknowledges 110", update(start=111), 111, ["111-112 available 1", "113-119 acknowledged 1"]),
    ("consumer 3 acknowledges 111, 112", update(start=120), 120, []),
]


@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2", "4.3", "4.4"])
def test_after_each_operation_the_state_is_that_of_the_kip(version):
    rules = share_rules(release(version))
    shard = ShareCoordinatorShard(rules, 0)
    shard.replay(0, None, 0, *KEYS[0], snapshot(start=100), rules.layout)
    assert len(STEPS) == 11
    for offset, (operation, written, start_offset, batches) in enumerate(STEPS, 1):
        if written is not NOTHING:
            shard.replay(offset, None, 1, *KEYS[0], written, rules.layout)
        (row,) = shard.share_partition_rows()
        rows = [
            f"{r.first_offset}-{r.last_offset} {r.delivery_state} {r.delivery_count}" for r in shard.share_batch_rows()
        ]
        assert (row.start_offset, rows) == (start_offset, batches), operation
