"""All that a shard's state holds."""

from __future__ import annotations

from tests.coordinator.records import (
    Log,
    X,
    classic,
    classic_member,
    consumer_member,
    current,
    epoch,
    share_member,
    streams_current,
    streams_member,
    streams_target,
    target,
    target_epoch,
    topology,
)


def everything(version: str = "4.3") -> Log:
    """A log with something of every kind in its state."""
    log = Log(version).commit(1, topic_id=X).commit(2, "u", producer=1).commit(9, producer=2).tombstone()
    log.record(2, classic([classic_member("m1")]), group="classic").commit(5, group="classic")
    log.record(2, classic(), group="gone").commit(6, group="gone").record(2, None, group="gone")
    log.record(5, consumer_member(), "m", group="c").record(7, target(0), "m", group="c")
    log.record(8, current(1, 0), "m", group="c").record(16, {"topics": ["t"]}, "r", group="c")
    log.record(10, share_member(), "m", group="s").record(14, current(1, 0), "m", group="s")
    log.record(13, target(1), "m", group="s").record(12, target_epoch(3), group="s")
    log.record(19, streams_member(), "m", group="st").record(23, topology(1), group="st")
    log.record(17, epoch(2, validatedTopologyEpoch=1), group="st").record(22, streams_current(2, 0), "m", group="st")
    return log.record(21, streams_target(0), "m", group="st")
