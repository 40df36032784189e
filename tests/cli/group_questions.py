"""Lakes for commands on groups: tables in memory, and tables that are written into a folder."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.findings.finding import KINDS
from kgroups_spark.lake.last_finished import IS_FINISHED
from kgroups_spark.words import LAST_MS, to_datetime
from tests.cli.story_reader import ArrowReader
from tests.cli.written_lake import ledger, waiting
from tests.findings.logs import START, Log
from tests.lake.table_rows import MOMENT
from tests.lake.table_rows import rows_of as table_rows
from tests.nights.nights_here import audit
from tests.share_coordinator import histories as shares
from tests.views.recorded import tables_of


def share_group(name: str = "g", *, is_read: bool = True, records_lost: int = 0, start_offset: int = 27) -> ArrowReader:
    """A group with state of two partitions of the topic `orders` from second 3 on, and other start offsets from seconds
    5 and 7 on. `is_read`: the share coordinator's log was read, up to second 7; `records_lost`: how many;
    `start_offset`: the last one of partition 0."""
    listing = {"topicId": "A", "topicName": "orders", "partitions": [0, 1]}
    listed = {"initializingTopics": [], "initializedTopics": [listing], "deletingTopics": []}
    of_group = {"offsets_partition": 3, "group_id": name, "log_timestamp": second(1)}
    stored = {
        (0, 3): (0, shares.snapshot(start=20, complete=0)),
        (1, 3): (0, shares.snapshot(start=30, complete=0)),
        (0, 5): (1, shares.update([], start_offset, complete=0)),
        (1, 7): (1, shares.update([], 38, complete=1)),
    }
    records = [
        {"record_type": kind, "group_id": name, "topic_id": "A", "partition": partition, "log_offset": at}
        | {"log_timestamp": second(at), "value": json.dumps(value)}
        for (partition, at), (kind, value) in stored.items()
    ]
    entry = {"offsets_partition": 0, "topic": SHARE, "end_offset": 8, "records": 8 - records_lost}
    entry |= {"records_reread": 0, "newest_log_timestamp": second(7)}
    current = {"group_id": name, "topic_id": "A", "topic": "orders", "init_state": "initialized"}
    now = [
        {"partition": at, "start_offset": start, "delivery_complete_count": at}
        for at, start in enumerate((start_offset, 38))
    ]
    state = {"share_group_state_records": records, "share_partitions": [current | each for each in now]}
    ends = [{"audit_id": 1, "topic": "orders", "partition": at, "log_end_offset": 40} for at in (0, 1)]
    return reader_of(
        partitions=[entry] if is_read else [],
        groups=[group(3, group_id=name, group_type="share")],
        group_versions=[group(3, **PLACE, group_id=name, group_type="share", log_offset=2)],
        group_records=[of_group | {"record_type": 15, "log_offset": 1, "value": json.dumps(listed)}],
        topic_offsets=ends,
        **(state if is_read else {}),
    )


PLACE = {"audit_id": 1, "log_timestamp": to_datetime(1000)}


def group(partition: int, **more: Any) -> dict[str, Any]:
    return {"offsets_partition": partition, "group_id": "g", "group_type": "classic", "state": "Empty", **more}


def committed(offsets_partition: int, offset: int, at: datetime | None, **more: Any) -> dict[str, Any]:
    slot = {"group_id": "g", "topic": "t", "partition": 0, "metadata": ""}
    return {"offsets_partition": offsets_partition, "committed_offset": offset, "commit_timestamp": at, **slot, **more}


def reader_of(
    release_version: str = "4.3", partitions: Sequence[dict[str, Any]] = (), **tables: list[dict[str, Any]]
) -> ArrowReader:
    rows = {name: table_rows(name, *some) for name, some in tables.items()}
    return ArrowReader(rows, to_datetime(10_000), release_version, partitions)


SHARE, TRANSACTION = "__share_group_state", "__transaction_state"


def second(number: int) -> datetime:
    return to_datetime(10**12 + 1000 * number)


def gone(*, removed_at: datetime | None, events: list[dict[str, Any]]) -> ArrowReader:
    """A group that committed three offsets in second 1, lost one in 2 as its topic was deleted, one in 3, and was
    removed with the last one in 4."""
    place = {"audit_id": 1, "log_timestamp": second(1)}
    slots = [("dead", 0), ("t", 0), ("t", 1)]
    commits = [
        committed(3, 50 + n, second(1), topic=topic, partition=p, log_offset=n, record_type=1, value_version=3) | place
        for n, (topic, p) in enumerate(slots)
    ]
    tombstones = [
        {**row, "committed_offset": None, "log_offset": 10 + n, "log_timestamp": second(2 + n)}
        for n, row in enumerate(commits)
    ]
    versions = [
        group(3, log_offset=0, **place),
        group(3, log_offset=13, is_removed=True, audit_id=1, log_timestamp=removed_at),
    ]
    return reader_of(offset_commits=[*commits, *tombstones], group_versions=versions, group_events=events)


def removal(log_offset: int, in_second: int, event: str, cause: str, **more: Any) -> dict[str, Any]:
    facts = {"offsets_partition": 3, "group_id": "g", "log_offset": log_offset, "event": event, "cause": cause}
    return {"audit_id": 1, "log_timestamp": second(in_second), "event_timestamp": second(in_second), **facts, **more}


def gone_piece_by_piece() -> ArrowReader:
    events = [
        removal(1, 1, "offset_removed", "expired", topic="t", partition=1, offset_before=1),  # and committed again
        removal(10, 2, "offset_removed", "topic_deleted", topic="dead", partition=0, offset_before=50),
        removal(11, 3, "offset_removed", "expired", topic="t", partition=0, offset_before=51),
        removal(12, 4, "offset_removed", "expired", topic="t", partition=1, offset_before=52),
        removal(13, 4, "group_removed", "expired"),
    ]
    return gone(removed_at=second(4), events=events)


def beside_ends() -> ArrowReader:
    """Each group has an offset of a topic whose log has 10 to 29, and is called after it. The offset was committed
    before the audit saw the topic, or after it. The group `pending` waits for two offsets; no audit saw the partition
    of the second one."""
    end = {"audit_id": 1, "topic": "t", "partition": 0, "log_start_offset": 10, "log_end_offset": 30}
    offsets = {"beyond": 40, "below": 9, "none": -1, "at end": 30, "at start": 10, "beyond since": 40}
    waits = {"offsets_partition": 3, "group_id": "pending", "topic": "t", "producer_id": 7, "committed_offset": 5}
    return reader_of(
        groups=[group(3, group_id=name) for name in (*offsets, "pending")],
        committed_offsets=[
            committed(3, offset, to_datetime(9000 if name.endswith("since") else 1000), group_id=name)
            for name, offset in offsets.items()
        ],
        pending_offsets=[waits | {"partition": at} for at in (0, 1)],
        topic_offsets=[end | {"audit_id": 0, "log_end_offset": 31}, end | {"seen_at": to_datetime(5000)}],
    )


def empty_group(decision: str, offsets: int = 0) -> ArrowReader:
    """A group without members, of which this was decided."""
    return reader_of(
        groups=[group(3)],
        group_versions=[group(3, log_offset=0, **PLACE)],
        committed_offsets=[committed(3, 5, to_datetime(1))] * offsets,
        group_expiry=[{"offsets_partition": 3, "group_id": "g", "decision": decision}],
    )


def split_group() -> ArrowReader:
    """`g` hashes to partition 3 of 50; the other groups show that there are 50."""
    count = [group(21, group_id="y", is_misplaced=False), group(48, group_id=chr(0x130), is_misplaced=False)]
    offsets = [committed(3, 5, to_datetime(1)), committed(7, 9, to_datetime(2))]
    tables = reader_of(
        groups=[group(3, is_misplaced=False), group(7, is_misplaced=True), *count],
        group_versions=[group(3, **PLACE)],
        committed_offsets=offsets,
    ).tables
    return ArrowReader({**tables, "offset_expiry": waiting(tables["committed_offsets"])}, to_datetime(3))


def not_for_kafkas_tool() -> ArrowReader:
    """A negative offset counts neither where another offsets partition has one that is older, nor alone."""
    rows = [committed(3, -1, to_datetime(2)), committed(7, 9, None), committed(8, -1, None, partition=1)]
    names = ("plain", 'a, "b"', "two\nlines")
    rows += [committed(3, 5, None, group_id=name, partition=number) for number, name in enumerate(names)]
    return reader_of(committed_offsets=rows)


def only_a_negative_offset() -> ArrowReader:
    row = committed(3, -1, to_datetime(1))
    stored = row | {"log_offset": 0, "record_type": 1, "value_version": 3, **PLACE}
    return reader_of(group_versions=[group(3, log_offset=0, **PLACE)], committed_offsets=[row], offset_commits=[stored])


def many_groups() -> ArrowReader:
    rows = [committed(3, 5, None, group_id=f"g{number:02}") for number in range(25)]
    streams = [group(3, group_id="g07", group_type="streams", is_misplaced=False)]
    return reader_of(committed_offsets=rows, groups=streams)


def in_state_log(log: str, log_offset: int, in_second: int, event: str, **more: Any) -> dict[str, Any]:
    facts = {"log": log, "state_partition": 3, "log_offset": log_offset, "event": event, **more}
    return {"audit_id": 1, "log_timestamp": second(in_second), **facts}


def three_logs() -> ArrowReader:
    """Events of group `g` in all three logs. One of its share partitions is reset, the offsets of the other are
    deleted. It has offsets in two transactions of producer 7: one timed out, the other was fenced. The fence of
    producer 8 aborted nothing of any group."""
    of_shares = [
        ("share_partition_initialized", 0, 2, {"state_epoch_after": 1}),
        ("share_offset_reset", 0, 5, {"offset_before": 9, "offset_after": 4}),
        ("share_offsets_deleted", 1, 6, {"offset_before": 4}),
    ]
    of_transactions = [("transaction_timed_out", 7, 0, 3), ("producer_fenced", 7, 2, 4), ("producer_fenced", 8, 0, 7)]
    marker = {"outcome": "aborted", "transaction_start_offset": 1, "producer_id": 7}
    markers = [
        marker | {"producer_epoch": 1, "group_ids": ["g"], "log_offset": 20},
        marker | {"producer_epoch": 0, "group_ids": ["other"], "log_offset": 21},
        marker | {"producer_epoch": 1, "group_ids": ["other"], "outcome": "committed", "log_offset": 22},
    ]
    fenced = {"producer_id": 7, "producer_epoch": 2, "group_ids": ["g", "h"], "transaction_start_offset": 30}
    return reader_of(
        group_versions=[group(3, **PLACE)],
        group_events=[removal(5, 1, "offset_removed", "offset_deleted", topic="t", partition=0)],
        state_events=[
            in_state_log(SHARE, n, at, event, group_id="g", topic_id="A", partition=partition, **offsets)
            for n, (event, partition, at, offsets) in enumerate(of_shares)
        ]
        + [
            in_state_log(
                TRANSACTION, n, at, event, transactional_id=f"id-{producer}", producer_id=producer, producer_epoch=epoch
            )
            for n, (event, producer, epoch, at) in enumerate(of_transactions)
        ],
        topics=[{"topic_id": "A", "topic": "orders"}],
        share_partitions=[{"group_id": "g", "topic_id": "A", "topic": "orders"}],
        transaction_markers=markers,
        open_transactions=[fenced],
    )


def orphan() -> ArrowReader:
    """Offsets without a group; metadata of any length in other commits."""
    commits = [
        committed(3, 5, second(1), group_id="texts", partition=n, metadata=text, log_offset=n, value_version=3)
        | {"record_type": 1, **PLACE}
        for n, text in enumerate(["", "x" * 100, "y" * 4000])
    ]
    return reader_of(
        offset_commits=commits,
        committed_offsets=[committed(3, 5, to_datetime(1), is_orphan=True)],
        group_traffic=[{"group_id": name, "offsets_partition": 3} for name in ("g", "texts")],
    )


def reduced() -> ArrowReader:
    """History of partition 3 below log offset 3 has been reduced by maintain --keep."""
    facts = {"record_type": 1, "value_version": 3, "audit_id": 1}
    commits = [committed(3, at, second(at), log_offset=at, log_timestamp=second(at), **facts) for at in (1, 2, 3)]
    kept = [
        {"offsets_partition": 3, "log_offset": at, "reason": reason, "log": log}
        for at, reason, log in ((2, "keep", None), (3, "keep", None), (4, "night", None), (4, "keep", SHARE))
    ]
    kept.append({"offsets_partition": 5, "log_offset": 9, "reason": "night"})
    versions = [group(3, log_offset=1, **PLACE), group(5, group_id="other", log_offset=1, **PLACE)]
    return reader_of(offset_commits=commits, group_versions=versions, checkpoints=kept)


def live(assignors: str) -> ArrowReader:
    """A live audit saw the coordinator of `g`, and these assignors of the brokers."""
    facts = [
        {"audit_id": 1, "kind": "leader", "name": "3", "value": "one:9092", "broker": 1},
        {"audit_id": 2, "kind": "leader", "name": "3", "value": "two:9092", "broker": 2},
        {"audit_id": 2, "kind": "broker_config", "name": "group.consumer.assignors", "value": assignors, "broker": 2},
        {"audit_id": 2, "kind": "broker_config", "name": "group.consumer.session.timeout.ms", "value": "45000"},
    ]
    return reader_of(
        groups=[group(3, group_type="consumer"), group(4, group_id="h")],
        group_members=[{"offsets_partition": 3, "group_id": "g", "member_id": "m"}],
        group_versions=[group(3, log_offset=0, **PLACE, group_type="consumer")],
        cluster_facts=facts,
    )


def odd_names() -> ArrowReader:
    """Each of these names has a group with a topic of that name."""
    log = Log()
    for number, name in enumerate(
        ("orders", "orders ", "", "''", "CORP\\user", "a\x1bc", r"orders\x20", "it's", "--group")
    ):
        log.later(1).commit(name, name, offset=number)
    return ArrowReader(audit(log.files).tables(), to_datetime(START))


RUNS = [f"report-{uuid.UUID(int=number << 64)}" for number in range(12)]


def many_runs() -> ArrowReader:
    """Groups of one run each, one that is in use, and one without a name."""
    names = [*RUNS, "billing", ""]
    groups = [group(n % 3, group_id=name, member_count=int(name == "billing")) for n, name in enumerate(names)]
    slots = [
        {"offsets_partition": n % 3, "group_id": name, "topic": "t", "partition": 0, "expires_at": second(50 - n)}
        for n, name in enumerate(names)
    ]
    return reader_of(groups=groups, offset_expiry=slots)


def lagging() -> ArrowReader:
    """`slow` stays at 10 and 5 while its topic grows; `fast` keeps up; `gone` is removed before the last audit."""
    audits = [
        {"audit_id": number, "status": "finished", "partitions": [{"offsets_partition": 0, "end_offset": 10 * number}]}
        for number in (1, 2, 3)
    ]
    commits = [("slow", 1, 0, 10), ("slow", 2, 1, 5), ("fast", 3, 0, 20), ("gone", 4, 0, 20), ("fast", 15, 0, 50)]
    commits += [("fast", 25, 0, 80), ("gone", 26, 0, None)]
    seen = [(1, 0, 0, 20), (2, 0, 0, 50), (3, 0, 12, 80), *((audit, 1, 0, 5) for audit in (1, 2, 3))]
    of_topic = ("audit_id", "partition", "log_start_offset", "log_end_offset")
    reader = reader_of(
        group_versions=[
            {"offsets_partition": 0, "group_id": name, "log_offset": 0} for name in ("slow", "fast", "gone")
        ],
        offset_commits=[
            committed(0, offset, second(1), group_id=name, log_offset=at, partition=p, log_timestamp=second(1))
            for name, at, p, offset in commits
        ],
        topic_offsets=[
            dict(zip(of_topic, ends, strict=True))
            | {"topic": "t", "status": "ok", "seen_at": MOMENT + timedelta(days=ends[0])}
            for ends in seen
        ],
    )
    reader._views.register("audits", table_rows("audits", *audits))
    return reader


AT = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
HOUR, RETENTION_MS = timedelta(hours=1), 168 * 3_600_000


def decision(group_id: str, partition: int = 0, *, expires_at: Any = None, **more: Any) -> dict[str, Any]:
    base = {"base": "commit_timestamp", "base_timestamp": expires_at and expires_at - 168 * HOUR}
    decided = {"decision": "keep", "reason": "within_retention", "expires_at_if_empty": expires_at}
    slot = {"offsets_partition": 3, "group_id": group_id, "topic": "orders", "partition": partition}
    return slot | {"as_of": AT, "retention_ms": RETENTION_MS, "expires_at": expires_at} | base | decided | more


def expiring() -> ArrowReader:
    """Offsets that are due, soon, late (in two offsets partitions), and kept by the members of their group. One has a
    time of its own, which its client chose."""
    own = {"base": "expire_timestamp", "base_timestamp": AT + 12 * HOUR, "reason": "before_expire_timestamp"}
    late = decision("late", expires_at=AT + 100 * HOUR)
    rows = [
        decision("active", reason="group_active", base=None, expires_at_if_empty=AT + 168 * HOUR),
        late,
        decision("soon", expires_at=AT + 24 * HOUR),
        decision("soon", 1, expires_at=AT + 12 * HOUR, **own),
        decision("due", expires_at=AT - HOUR, decision="expire", reason="retention_passed"),
        late | {"offsets_partition": 4},
    ]
    slots = [{name: row[name] for name in ("offsets_partition", "group_id", "topic", "partition")} for row in rows]
    states = {(row["offsets_partition"], row["group_id"]): row["reason"] == "group_active" for row in rows}
    groups = [group(at, group_id=name, state="Stable" if active else "Empty") for (at, name), active in states.items()]
    tables = {"offset_expiry": rows, "committed_offsets": slots, "groups": groups}
    return ArrowReader({name: table_rows(name, *its) for name, its in tables.items()}, AT)


HERE, ELSEWHERE = {"topic": "__consumer_offsets", "partition": 3}, {"topic": "orders", "partition": 5}


def open_transactions(
    *opened: tuple[int, int | None, int, tuple[int, ...]],
    ids: Sequence[tuple[str, int, int, list[dict[str, Any]]]] = (),
    read: Sequence[int] = (),
    read_minutes_ago: int = 0,
) -> ArrowReader:
    """`opened`: a producer, since how many minutes, its offsets partition, and the partitions of its pending offsets.
    `ids`: a transactional id, its producer, its timeout in ms, and the partitions that its coordinator lists. `read`:
    the partitions of the coordinator's log."""
    # Producer 12 has committed six minutes later.
    committed_at = {
        producer: minutes and AT - timedelta(minutes=minutes - (6 if producer == 12 else 0))
        for producer, minutes, *_ in opened
    }
    tables: dict[str, list[dict[str, Any]]] = {
        "open_transactions": [
            {"offsets_partition": partition, "producer_id": producer, "producer_epoch": 5, "group_ids": ["billing"]}
            | {"transaction_start_offset": 100, "open_since": minutes and AT - timedelta(minutes=minutes)}
            | {"transactional_id": "billing-9" if producer == 9 else None}
            for producer, minutes, partition, _ in opened
        ],
        "pending_offsets": [
            {"offsets_partition": partition, "producer_id": producer, "group_id": "billing", "topic": "orders"}
            | {"partition": each, "committed_offset": 42, "log_offset": 101, "commit_timestamp": committed_at[producer]}
            for producer, _, partition, offsets in opened
            for each in offsets
        ],
        "transactional_ids": [
            {"transactional_id": name, "producer_id": producer, "state": "Ongoing", "timeout_ms": timeout_ms}
            | {"topic_partitions": partitions, "state_partition": 0, "log_offset": 9}
            for name, producer, timeout_ms, partitions in ids
        ],
    }
    until = {"topic": TRANSACTION, "newest_log_timestamp": AT - timedelta(minutes=read_minutes_ago)}
    partitions = [{"offsets_partition": 3, "end_offset": 400, "records": 200, "bytes": 30_000}]
    partitions += [{"offsets_partition": 4, "end_offset": 400, "records": 0, "bytes": 0}]
    partitions += [until | {"offsets_partition": each} for each in read]
    return ArrowReader({name: table_rows(name, *rows) for name, rows in tables.items()}, AT, "4.3", partitions)


class Looked(ArrowReader):
    """Findings, and audits of which some looked for them."""

    location = "./lake"

    def __init__(self, findings: list[dict[str, Any]], looked: Sequence[dict[str, int]]) -> None:
        audits = [
            {"audit_id": number, "status": "finished", "rows_added": rows, "as_of": AT}
            for number, rows in enumerate(looked, 1)
        ]
        audits.append({"audit_id": 9, "status": "running", "as_of": AT})
        named = {"findings": findings, "audits": audits, "groups": [{"group_id": "orders"}]}
        self.tables = {name: table_rows(name, *rows) for name, rows in named.items()}

    @property
    def audit_id(self) -> int:
        finished = self.table_rows("audits", ["audit_id"], [IS_FINISHED])
        return max(finished["audit_id"].to_pylist(), default=0)


def finding(audit_id: int, name: str, group_id: str | None, **columns: Any) -> dict[str, Any]:
    what = {"finding": name, "severity": KINDS[name].severity, "group_id": group_id}
    return {"audit_id": audit_id, **what, "detail": "What it is. Why it matters, and what to do.", **columns}


FINDINGS = [
    finding(2, "expiry_overdue", "billing"),
    finding(3, "throwaway_group", "app-1"),
    finding(3, "hanging_transaction", None, producer_id=7, offsets_partition=9, since=AT),
    finding(3, "topic_recreated", "orders", topic="t", partition=None, offsets_partition=4),
    finding(3, "committed_by_non_owner", "orders", topic="t", partition=2, member_id="m"),
]
# The first is of a version that did not look, the last one is maintenance.
LOOKED = [{"offset_commits": 5}, {"findings": 1}, {"findings": 4}, {}]
RANGE = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
# Lakes of made_screens.txt.
LAKES: dict[str, Callable[[], ArrowReader]] = {
    "beside the ends of topics": beside_ends,
    "of a group that goes": partial(empty_group, "delete"),
    "of a group that stays": partial(empty_group, "keep"),
    "of a group whose offset goes first": partial(empty_group, "delete", 1),
    "of a share group": share_group,
    "of a share group that lost records": partial(share_group, records_lost=1),
    "of a share group whose log was not read": partial(share_group, is_read=False),
    "of a share group at the lowest offset": partial(share_group, start_offset=-(2**63)),
    "of a group in two offsets partitions": split_group,
    "without groups": reader_of,
    "of another group": partial(reader_of, group_versions=[group(3, **PLACE, log_offset=1)]),
    "not for Kafka's tool": not_for_kafkas_tool,
    "of a negative offset": only_a_negative_offset,
    "of 25 groups": many_groups,
    "of three logs": three_logs,
    "of offsets without a group": orphan,
    "of a group that went piece by piece": gone_piece_by_piece,
    "of a group that went at an unknown time": partial(gone, removed_at=None, events=[]),
    "of a group that went without events": partial(gone, removed_at=second(4), events=[]),
    "that was reduced": reduced,
    "of brokers with uniform and range": partial(live, "uniform,range"),
    "of brokers with a class of Kafka": partial(live, RANGE),
    "of brokers with a class of their own": partial(live, "com.shop.OurAssignor,uniform"),
    "of groups of one run each": many_runs,
    "of odd names": odd_names,
    "of groups that lag": lagging,
    "of offsets that expire": expiring,
    "of open transactions": partial(
        open_transactions, (7, 2, 3, (1, 0)), (8, 20, 3, (5,)), (9, None, 3, ()), (10, 15, 3, ()), (7, 3, 4, (2,))
    ),
    "of listed transactions": partial(
        open_transactions,
        *((producer, 15 if producer == 11 else 20, 3, (0,)) for producer in (7, 8, 9, 10, 11, 12)),
        ids=[
            ("billing-7", 7, 60_000, [HERE, ELSEWHERE]),
            ("billing-8", 8, 60_000, [ELSEWHERE]),
            ("billing-10", 10, 2**31 - 1, []),
            ("billing-11", 11, 60_000, []),
        ],
        read=[0],
    ),
    "of transactions listed in part": partial(open_transactions, (7, 20, 3, (0,)), read=[0, 2]),
    "of transactions listed before": partial(open_transactions, (7, 20, 3, (0,)), read=[0], read_minutes_ago=30),
    "of a misplaced transactional id": partial(
        open_transactions, (7, 20, 3, (0,)), ids=[("billing-1", 8, 60_000, [])], read=[0, 1]
    ),
    "of findings": partial(Looked, FINDINGS, LOOKED),
    "never searched for findings": partial(Looked, [], LOOKED[:1]),
    "of an audit that found nothing": partial(Looked, FINDINGS, [*LOOKED, {"findings": 0}]),
}


Tables = dict[str, pa.Table]


def recording(**more: pa.Table) -> Tables:
    """A recorded log, read by one audit of segments."""
    return {**tables_of("kip848-4.3"), "audits": ledger({}), **more}


def nights(*reads: dict[str, Any], source: str = "segments", as_of: datetime | None = None, **more: pa.Table) -> Tables:
    """The recording, and audits that read partition 0 so."""
    tables = recording(**more)
    newest = pc.max(tables["offset_commits"]["log_timestamp"]).as_py()
    whole = {"offsets_partition": 0, "start_offset": 0, "end_offset": 50, "records": 50, "records_reread": 0}
    whole |= {"newest_log_timestamp": newest}
    common = {"source": source, "as_of": as_of or newest}
    audits = ({**common, "audit_id": n, "partitions": [whole | read]} for n, read in enumerate(reads, start=1))
    return tables | {"audits": ledger(*audits)}


# The log is read again from its start.
AGAIN, LAST_READ = {"records_reread": 50}, {"start_offset": 30, "records": 20}
LATER = datetime(2026, 11, 20, 18, tzinfo=UTC)
DAMAGE = table_rows("quarantine", {"offsets_partition": 0, "audit_id": 1, "reason": "corrupt_batch"})
KEPT = table_rows("checkpoints", *({"offsets_partition": 1, "log_offset": n, "reason": "keep"} for n in (50, 100)))
ENDS = {"topic": "t", "log_end_offset": 9, "status": "ok"}
# Lakes of written_screens.txt.
WRITTEN: dict[str, Callable[[], Tables]] = {
    "of a recording": recording,
    "that knows ends of topics": lambda: recording(topic_offsets=table_rows("topic_offsets", ENDS)),
    "whose first audit has not finished": lambda: {"audits": ledger({"status": "running", "finished_at": None})},
    "of an audit on the last day": lambda: {"audits": ledger({"as_of": to_datetime(LAST_MS)})},
    "of a log that is known": partial(nights, {}, AGAIN),
    "of a log that lacks offsets": partial(nights, {"records": 45}, AGAIN),
    "of a live log": partial(nights, {}, AGAIN, source="kafka", as_of=LATER),
    "of a damaged log": partial(nights, {}, AGAIN, quarantine=DAMAGE),
    "of a log that lost records": partial(nights, {"end_offset": 20, "records": 20}, LAST_READ),
    "of a log without its first segment": partial(nights, LAST_READ),
    "of a log that was reduced": partial(nights, {}, AGAIN, checkpoints=KEPT),
}
