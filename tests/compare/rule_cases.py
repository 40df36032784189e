"""For each rule in which releases differ a log of one group, which shows it, as bytes of segments."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kgroups_spark.coordinator.releases import CONSUMER, TYPES_43, OpenTransactionRule
from tests.logs.dense_logs import CONTROL, TRANSACTIONAL, text
from tests.logs.log_files import Files
from tests.records.build import KeyValue, batch

DAY_MS = 86_400_000
NOW = 1_763_000_000_000
OLD = NOW - 2 * DAY_MS


def key(record_type: int, *names: str) -> bytes:
    return struct.pack(">h", record_type) + b"".join(map(text, names))


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def commit(group: str, topic: str = "t", at: int = NOW, offset: int = 5, expires: int | None = None) -> KeyValue:
    """A commit of value version 3; with `expires` (-1: none) of version 1."""
    slot = key(1, group, topic) + struct.pack(">i", 0)
    if expires is None:
        return slot, struct.pack(">hqi", 3, offset, -1) + text("") + struct.pack(">q", at)
    return slot, struct.pack(">hq", 1, offset) + text("") + struct.pack(">qq", at, expires)


def gone(record: KeyValue) -> KeyValue:
    return record[0], None


def snapshot(group: str, *members: str, topic: str = "t", at: int = -1, rebalance_timeout: int = 60_000) -> KeyValue:
    """A GroupMetadata of version 3. `at`: its state's timestamp."""
    subscription = struct.pack(">hi", 0, 1) + text(topic) + struct.pack(">i", -1)
    value = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 1)
    value += (text("range") + text(members[0])) if members else struct.pack(">hh", -1, -1)
    value += struct.pack(">qi", at, len(members))
    for member in members:
        value += (
            text(member) + struct.pack(">h", -1) + text("c") + text("/h") + struct.pack(">ii", rebalance_timeout, 9)
        )
        value += struct.pack(">i", len(subscription)) + subscription + struct.pack(">i", 0)
    return key(2, group), value


def consumer_group(group: str) -> KeyValue:
    return key(3, group), struct.pack(">hi", 0, 7) + b"\0"


def consumer_member(group: str) -> KeyValue:
    named = b"\0\0" + compact("c") + compact("/h") + b"\2" + compact("t") + compact("") + struct.pack(">i", 9) + b"\0"
    return key(5, group, "m"), struct.pack(">h", 0) + named + b"\1\0\1\0"


def share_group(group: str) -> KeyValue:
    return key(11, group), struct.pack(">hiq", 0, 7, 0) + b"\0"


def share_member(group: str) -> list[KeyValue]:
    """A member in the state UnrevokedPartitions that changes."""
    named = b"\0" + compact("c") + compact("/h") + b"\2" + compact("t") + b"\0"
    metadata = key(10, group, "m"), struct.pack(">h", 0) + named
    return [metadata, (key(14, group, "m"), struct.pack(">hiib", 0, 7, 6, 1) + b"\1\0"), metadata]


def streams_group(group: str, tags: bytes = b"\0") -> KeyValue:
    return key(17, group), struct.pack(">hiq", 0, 7, 0) + tags


def streams_member(group: str) -> KeyValue:
    named = b"\0\0" + compact("c") + compact("/h") + struct.pack(">ii", 9, 0) + compact("p") + b"\xff\1\0"
    return key(19, group, "m"), struct.pack(">h", 0) + named


def topology(group: str, epoch: int = 0) -> KeyValue:
    """One subtopology that reads topic t."""
    return key(23, group), struct.pack(">hi", 0, epoch) + b"\2" + compact("0") + b"\2" + compact(
        "t"
    ) + b"\1\1\1\1\1\0\0"


@dataclass
class Log:
    """One offsets partition's segment, batch by batch."""

    data: bytes = b""
    next_offset: int = 0

    def add(self, *records: KeyValue, **fields: Any) -> Log:
        self.data += batch(self.next_offset, records, base_timestamp=NOW, max_timestamp=NOW, **fields)
        self.next_offset += len(records)
        return self

    def pending(self, *records: KeyValue, producer: int = 1) -> Log:
        return self.add(*records, attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0)

    def end(self, control_type: int = 1, producer: int = 1) -> Log:
        marker = struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, 0)
        return self.add(marker, attributes=TRANSACTIONAL | CONTROL, producer_id=producer, producer_epoch=0)


@dataclass(frozen=True)
class Case:
    """`b`: the value of the rule on side B; side A has 4.4's, or `a`. `shows`: what differs, in order of the kinds.
    `partition`: cases that would disturb others have their own."""

    b: Any
    write: Callable[[Log, str], object]
    shows: tuple[tuple[str, str], ...]
    partition: int = 0
    a: dict[str, Any] = field(default_factory=dict)


COMMITTED, PENDING = ("committed_offset", "committed_offset"), ("pending_offset", "committed_offset")
EXPIRES, EXPIRES_AT = ("offset_expiry", "decision"), ("offset_expiry", "expires_at")
DELETED = ("group_expiry", "decision")

# Rules of the replay, then of expiry. Producers differ, so that no marker ends another case's transaction.
CASES: dict[str, Case] = {
    "record_types": Case(TYPES_43 - CONSUMER, lambda log, g: log.add(consumer_group(g)), (("group", "group"),)),
    "transactional_by": Case(
        "batch",
        lambda log, g: log.add(commit(g), producer_id=1, producer_epoch=0),
        (COMMITTED, PENDING, ("group_expiry", "deletes_at")),
    ),
    "tombstone_removes_pending": Case(
        "of_its_transaction",
        lambda log, g: log.pending(commit(g), producer=2).add(gone(commit(g))).end(producer=2),
        (COMMITTED, DELETED),
    ),
    "commit_needs_newer_record": Case(
        False,
        lambda log, g: log.pending(commit(g, offset=3), producer=3).add(commit(g)).end(producer=3),
        (COMMITTED,),
    ),
    "unknown_marker_ends_transaction": Case(
        True, lambda log, g: log.pending(commit(g), producer=4).end(9, producer=4), (PENDING, DELETED)
    ),
    "simple_groups_follow_offsets": Case(
        True, lambda log, g: log.add(commit(g)).add(gone(commit(g))), (("group", "group"),)
    ),
    "empty_group_keeps_protocol_type": Case(
        False, lambda log, g: log.add(snapshot(g, at=NOW - 1)), (("group", "protocol_type"),)
    ),
    "reads_state_timestamp_of_version_3": Case(
        False,
        lambda log, g: log.add(commit(g, at=OLD), snapshot(g, at=NOW - 1)),
        (("group", "current_state_timestamp"), EXPIRES, DELETED),
    ),
    "unset_rebalance_timeout_is_session_timeout": Case(
        False,
        lambda log, g: log.add(snapshot(g, "m", rebalance_timeout=-1)),
        (("member", "rebalance_timeout_ms"),),
    ),
    "fresh_epoch": Case(
        0,
        lambda log, g: log.add(consumer_member(g)),
        (("group", "state"), ("group", "group_epoch"), ("group", "assignment_epoch")),
    ),
    "share_member_keeps_state": Case(
        False, lambda log, g: log.add(share_group(g), *share_member(g)), (("member", "member_state"),)
    ),
    "unset_topology_epoch": Case(0, lambda log, g: log.add(streams_member(g), topology(g)), (("group", "state"),)),
    "depends_on_group": Case(False, lambda log, g: log.add(snapshot(g, "m", at=OLD), commit(g, at=OLD)), (EXPIRES,)),
    "subscription_states": Case(
        frozenset(),
        lambda log, g: log.add(snapshot(g, "m", topic="u", at=OLD), commit(g, at=OLD), commit(g, "u", OLD)),
        (EXPIRES,),
    ),
    "topology_unread_states": Case(
        frozenset({"Empty", "Dead", "NotReady"}),
        lambda log, g: log.add(streams_group(g), streams_member(g), topology(g), commit(g, at=OLD)),
        (EXPIRES,),
    ),
    "pending_transaction_spares": Case(
        False, lambda log, g: log.add(commit(g, at=OLD)).pending(commit(g), producer=5), (EXPIRES,)
    ),
    "honours_expire_timestamp": Case(False, lambda log, g: log.add(commit(g, expires=NOW - 1)), (EXPIRES, DELETED)),
    "v1_without_expire_timestamp_expired": Case(
        True, lambda log, g: log.add(commit(g, expires=-1)), (EXPIRES, DELETED)
    ),
    "is_strict": Case(True, lambda log, g: log.add(commit(g, at=NOW - DAY_MS)), (EXPIRES, DELETED)),
    "open_transaction": Case(
        OpenTransactionRule.NEVER,
        lambda log, g: log.add(commit(g, at=OLD)).pending(commit(g, "u"), producer=6),
        (DELETED,),
    ),
    "keeps_described_streams_groups": Case(
        False, lambda log, g: log.add(streams_group(g, b"\1\2\4\0\0\0\3")), (DELETED,)
    ),
    "deletes_share_groups": Case(True, lambda log, g: log.add(share_group(g)), (DELETED,)),
    "share_offsets_end_clean_up": Case(
        False,
        lambda log, g: log.add(share_group("share"), commit("share"), commit(g, at=OLD)),
        (EXPIRES, DELETED),
        partition=1,
    ),
}


def files() -> Files:
    """All cases in one log: each case is a group with the name of its rule."""
    logs: dict[int, Log] = {}
    for rule, case in CASES.items():
        case.write(logs.setdefault(case.partition, Log()), rule)
    return {f"__consumer_offsets-{n}/00000000000000000000.log": log.data for n, log in logs.items()}
