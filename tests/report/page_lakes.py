"""Lakes made by hand, each for a part of the page: page.txt has what the page says of them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from kgroups_spark.report.page import groups_of, html
from kgroups_spark.report.sections import (
    Answers,
    Section,
    day_of,
    expiring_section,
    findings_section,
    groups_section,
    if_empty_section,
    lag_section,
    moves_section,
    offsets_topic_section,
    rebalances_section,
    removals_section,
    sections,
    share_groups_section,
    transactional_ids_section,
    transactions_section,
)
from tests.report.made_lakes import AS_OF, DAY, Row, audit_row, event_row, expiry_row, group_row, partition_read

Part = Callable[[Answers], Section | Sequence[Section | str]]


def parts(*some: Part) -> Part:
    def all_of(answers: Answers) -> list[Section | str]:
        made = (part(answers) for part in some)
        return [each for of_part in made for each in ([of_part] if isinstance(of_part, Section) else of_part)]

    return all_of


def head(title: str | None = None) -> Part:
    """The page's title, and the facts above its sections."""
    return lambda answers: [
        text for _, text in re.findall(r"<(title|h1|span)>(.*?)</", html(answers, "/srv/lake", title))
    ]


def each_group(answers: Answers) -> list[Section]:
    groups, _ = groups_of(answers, lambda _: True)
    return [Section(group.anchor, f"{group.name}: {group.facts}", [group.anchor], group.tables) for group in groups]


FINDING = {"finding": "ghost_member", "severity": "error", "detail": "d", "audit_id": 1}
# The second audit is maintenance.
LOOKED = [audit_row(rows_added={"findings": 1}), audit_row(audit_id=2, rows_added={})]


def moved(event: str, before: int, after: int | None, group_id: str = "g", **reported: Any) -> Row:
    placed = {"topic": "t", "partition": 0, "cause": "no_members", "offset_before": before, "offset_after": after}
    return event_row(event, group_id, **placed | reported)


def again(before: int, after: int, group_id: str = "g") -> list[Row]:
    """An offset that expired, and its first commit after that."""
    removed = moved("offset_removed", before, None, group_id, cause="expired", log_offset=0)
    return [removed, moved("offset_restarted", before, after, group_id)]


def due(now: int, within: int) -> dict[str, Any]:
    offsets = [expiry_row("a", partition=n, expires_at=AS_OF if n < now else AS_OF + DAY) for n in range(within)]
    return {"groups": [group_row("a")], "offset_expiry": offsets}


def transactions() -> dict[str, Any]:
    """Open ones with their own timeout, those that the coordinator aborted in the last 30 days, all by state."""
    began = {"start_timestamp": AS_OF - DAY, "last_update_timestamp": AS_OF - DAY, "timeout_ms": 60_000}
    written = [{"topic": "t", "partition": 0}, {"topic": "__consumer_offsets", "partition": 3}]
    opened = {
        "transactional_id": "pay-1",
        "producer_id": 4010,
        "state": "Ongoing",
        "topic_partitions": written,
        **began,
    }
    two_phase = opened | {"transactional_id": "pay-2", "producer_id": 4011, "timeout_ms": 2**31 - 1}
    ended = {"transactional_id": "pay-3", "state": "CompleteCommit", "timeout_ms": 1, "topic_partitions": []}
    event = {"log": "__transaction_state", "log_timestamp": AS_OF - DAY, "producer_id": 4012, "timeout_ms": 900_000}
    return {
        "transactional_ids": [opened, two_phase, ended],
        "pending_offsets": [
            {"producer_id": 4010, "group_id": "g", "topic": "t", "log_offset": 1, "offsets_partition": 3}
        ],
        "state_events": [
            event | {"event": "transaction_timed_out", "transactional_id": "late"},
            event | {"event": "producer_fenced", "transactional_id": "zombie", "log_timestamp": AS_OF - 2 * DAY},
            event | {"event": "producer_fenced", "transactional_id": "old", "log_timestamp": AS_OF - 40 * DAY},
            event | {"event": "share_offset_reset", "group_id": "g"},
        ],
    }


def hanging(*logs: str) -> dict[str, Any]:
    """A transaction that the last audit found to hang; it read these logs."""
    place = {"offsets_partition": 0, "producer_id": 2}
    found = {"finding": "hanging_transaction", "severity": "warning", "detail": "d", "log_offset": 2}
    return {
        "audits": [audit_row([partition_read(topic=log) for log in logs], rows_added={"findings": 1})],
        "open_transactions": [{**place, "transaction_start_offset": 2, "open_since": AS_OF - DAY}],
        "findings": [{**place, **found}],
    }


def share_groups(*, live: bool) -> dict[str, Any]:
    stored = {"group_id": "s", "topic_id": "A", "topic": "jobs", "init_state": "initialized", "log_timestamp": AS_OF}
    batch = {"group_id": "s", "topic_id": "A", "topic": "jobs", "partition": 0, "delivery_state": "available"}
    seen = {"topic": "jobs", "status": "ok", "seen_at": AS_OF}
    return {
        "share_partitions": [
            stored | {"partition": 0, "start_offset": 10, "delivery_complete_count": 3},
            stored | {"partition": 1, "start_offset": 7, "delivery_complete_count": None},
            stored | {"partition": 2, "start_offset": 10, "delivery_complete_count": 0},
        ],
        "share_batches": [
            batch | {"first_offset": 12, "last_offset": 13, "delivery_count": 4, "attempts_left": 1},
            batch | {"first_offset": 20, "last_offset": 20, "delivery_count": 1, "attempts_left": 4},
            batch | {"first_offset": 14, "last_offset": 18, "delivery_state": "archived", "delivery_count": 5},
        ],
        "topic_offsets": [
            seen | {"partition": p, "log_end_offset": end} for p, end in ((0, 40), (1, 90), (2, 1_010)) if live
        ],
    }


def lag() -> dict[str, Any]:
    """Three live audits; the topic has deleted what `slow` has not read."""
    ends = {1: (0, 100), 2: (0, 200), 3: (45, 300)}
    slot = {"offsets_partition": 0, "topic": "t", "partition": 0}
    groups = {"slow": 40, "fast": 300, "stored before": -1}
    return {
        "audits": [audit_row([{"offsets_partition": 0, "end_offset": 9}], audit_id=number) for number in ends],
        "group_traffic": [{"hour": AS_OF - 9 * DAY}],
        "topic_offsets": [
            {"topic": "t", "partition": 0, "status": "ok", "audit_id": number, "seen_at": AS_OF - (3 - number) * DAY}
            | {"log_start_offset": start, "log_end_offset": end}
            for number, (start, end) in ends.items()
        ],
        "committed_offsets": [slot | {"group_id": name, "committed_offset": offset} for name, offset in groups.items()],
        "offset_commits": [
            slot | {"group_id": name, "committed_offset": offset, "log_offset": at}
            for at, (name, offset) in enumerate(groups.items())
        ],
    }


def urgent() -> dict[str, Any]:
    hour, far = DAY / 24, {"topic": "t", "partition": 0, "offset_before": 9, "offset_after": 4, "cause": "unknown"}
    failing = {"offsets_partition": 0, "detail": "d", "coordinator_fails": True}
    stable = {"group_type": "consumer", "state": "Stable", "member_count": 1}
    return {
        "groups": [group_row("a"), group_row("b"), group_row("c", **stable)],
        "offset_expiry": [
            expiry_row("a", expires_at=AS_OF, decision="expire"),
            expiry_row("a", partition=1, expires_at=AS_OF + 7 * DAY),
            expiry_row("b", expires_at=AS_OF + 7 * DAY + hour),
            expiry_row("c", expires_at=None, reason="subscribed", expires_at_if_empty=AS_OF),
        ],
        "open_transactions": [
            {"offsets_partition": 0, "producer_id": 1, "transaction_start_offset": 3, "open_since": AS_OF - DAY / 96},
            {"offsets_partition": 0, "producer_id": 2, "transaction_start_offset": 2, "open_since": AS_OF - DAY / 95},
        ],
        "pending_offsets": [{"offsets_partition": 0, "producer_id": 2, "group_id": "p", "topic": "t", "log_offset": 2}],
        "group_events": [
            event_row("offset_rewound", "r", **far),
            # Eight days ago: reported below, but not a headline any more.
            event_row("offset_rewound", "old", **far) | {"event_timestamp": AS_OF - 8 * DAY},
        ],
        "findings": [
            {"finding": "idle_share_group", "severity": "notice", "detail": "d"},
            {"finding": "ghost_member", "severity": "warning", "detail": "d"},
            FINDING | {"audit_id": 0},
            {"finding": "hanging_transaction", "severity": "warning", "detail": "d"}
            | {"offsets_partition": 0, "producer_id": 2, "log_offset": 2},
        ],
        "quarantine": [
            failing | {"log_offset": 1, "record_count": 3, "reason": "corrupt_batch"},
            failing | {"log_offset": 9, "record_count": 1, "reason": "empty_value"},
        ],
    }


def runs(count: int, *others: str) -> dict[str, Any]:
    """Groups that were made for one run each, and others."""
    names = [*(f"report-{uuid.UUID(int=number << 64)}" for number in range(count)), *others]
    return {
        "groups": [group_row(name) for name in names],
        "offset_expiry": [expiry_row(name, expires_at=AS_OF + DAY) for name in names],
    }


def rebalance() -> dict[str, Any]:
    """A rebalance of 7.5 seconds."""
    moments = [AS_OF - 2 * DAY + n * DAY / 86_400 for n in (0, 7.5)]
    group = {"offsets_partition": 0, "group_id": "g", "group_type": "consumer", "is_removed": False}
    member = {"offsets_partition": 0, "group_id": "g", "member_id": "m-1", "client_id": "client-7", "is_removed": False}
    return {
        "groups": [group_row("g", group_type="consumer")],
        "group_versions": [
            group | {"log_offset": 1, "log_timestamp": moments[0], "group_epoch": 1, "member_count": 1}
            | {"state": "Reconciling"}
        ],
        "group_member_versions": [
            member | {"log_offset": 0, "log_timestamp": moments[0], "member_epoch": 0, "member_state": "STABLE"},
            member | {"log_offset": 2, "log_timestamp": moments[1], "member_epoch": 1, "member_state": "STABLE"},
        ],
        "group_records": [
            {"offsets_partition": 0, "group_id": "g", "record_type": 3, "log_offset": at, "log_timestamp": time}
            for at, time in enumerate([AS_OF - 9 * DAY, moments[0]])
        ],
        "group_traffic": [{"group_id": "g", "hour": AS_OF - 9 * DAY}],
    }  # fmt: skip


def waiting() -> dict[str, Any]:
    """A member waits for the partition that another one has."""
    in_group = {"offsets_partition": 0, "group_id": "g"}
    t_0 = [{"topic": "t", "topic_id": "T", "partition": 0, "assignment_epoch": None}]
    owner = in_group | {"member_id": "owner", "assigned_partitions": t_0, "target_partitions": []}
    waits = in_group | {"member_id": "waits", "assigned_partitions": [], "target_partitions": t_0}
    at = {"log_offset": 1, "log_timestamp": AS_OF - DAY, "is_removed": False}
    version = at | {"group_epoch": 1, "member_count": 2, "group_type": "consumer", "state": "Reconciling"}
    return {
        "groups": [group_row("g", group_type="consumer")],
        "group_members": [owner, waits],
        "group_versions": [in_group | version],
        "group_member_versions": [waits | at | {"log_offset": 0, "target_partitions": []}, waits | at],
        "group_records": [in_group | {"log_offset": 1, "log_timestamp": AS_OF - DAY, "record_type": 3}],
        "group_traffic": [{"group_id": "g", "hour": AS_OF - 9 * DAY}],
    }


def first_record() -> dict[str, Any]:
    """A log that begins within an hour, of which traffic is counted."""
    first = AS_OF - 3 * DAY - DAY / 288
    counts = {"transactional_commits": 0, "tombstones": 0, "other_records": 0, "bytes": 9}
    commit = {"offsets_partition": 0, "group_id": "g"}
    return {
        "audits": [audit_row([partition_read(records=2)], newest_log_timestamp=AS_OF)],
        "offset_commits": [commit | {"log_offset": n, "log_timestamp": at} for n, at in enumerate([first, AS_OF])],
        "group_traffic": [commit | counts | {"hour": at.replace(minute=0), "commits": 1_200} for at in (first, AS_OF)],
    }


def moves_since(begins: datetime, *days: datetime) -> dict[str, Any]:
    """An offset that moved on each of these days, in a log that begins then."""
    events = [moved("offset_rewound", 9, 4, event_timestamp=day, log_timestamp=day) for day in days]
    return {"group_traffic": [{"group_id": "g", "hour": begins}], "group_events": events}


def events_of_groups() -> dict[str, Any]:
    owned, far = {"topic": "t", "partition": 0}, {"cause": "unknown", "log_offset": 6}
    member = {"group_id": "a b", "member_id": "m-1", "client_id": "client-7", "client_host": "/10.0.0.7"}
    member |= {"log_offset": 3, "log_timestamp": AS_OF - DAY, "group_type": "classic", "is_removed": False}
    moves = ((0, 45_608, 41_719), (1, 60_247, 55_839), (2, 9, 3))
    changes = ("Stable", "Reconciling"), ("Reconciling", "Stable")
    return {
        "groups": [group_row("a b", state="Stable", member_count=1), group_row("quiet")],
        "offset_expiry": [
            expiry_row("a b", **owned, committed_offset=1234),
            expiry_row("a b", topic="t", partition=1),
            # No client sees a negative offset.
            expiry_row("a b", topic="t", partition=2, committed_offset=-1),
        ],
        "group_member_versions": [member | {"assigned_partitions": [owned | {"topic_id": None}]}],
        "group_events": [
            event_row("state_changed", "a b", value_before="Empty", value_after="Stable", log_offset=3),
            event_row("member_joined", "a b", member_id="m-1", log_offset=3, event_index=1),
            moved("offset_rewound", 9, 4, "a b", cause="unknown", log_offset=5),
            *(
                moved("offset_rewound", *offsets, "a b", topic="u", partition=p, event_index=p, **far)
                for p, *offsets in moves
            ),
            event_row("group_removed", "gone", cause="expired", value_before="Empty"),
            *(
                event_row("state_changed", "moody", value_before=before, value_after=after, log_offset=n)
                for n, (before, after) in enumerate(changes)
            ),
        ],
    }


def found_to_hang() -> dict[str, Any]:
    """Transactions of four producers, what two audits found about them, and maintenance since."""
    place = {"offsets_partition": 0, "severity": "warning", "detail": "d"}
    findings = [(1, "hanging_transaction", 1, 10), (2, "hanging_transaction", 2, 20)]
    findings += [(2, "two_open_producers", 3, 30), (2, "hanging_transaction", 4, 39)]
    named = ("audit_id", "finding", "producer_id", "log_offset")
    return {
        "audits": [
            audit_row(audit_id=1, rows_added={"findings": 1}),
            audit_row(audit_id=2, rows_added={"findings": 3}),
            audit_row(audit_id=3, rows_added={}),
        ],
        "open_transactions": [
            {"producer_id": n, "transaction_start_offset": 10 * n, "open_since": AS_OF - 300 * DAY} for n in range(1, 5)
        ],
        "findings": [place | dict(zip(named, each, strict=True)) for each in findings],
    }


MIDNIGHT = day_of(AS_OF)
BOTH = ({"offsets_partition": 0}, {"offsets_partition": 7})
CLUSTER = "kQ3X_-7bTfG"
MOVES = ("no_members", "self_assigned", "with_members", "transaction", "topic_recreated", "unknown")
REMOVALS = ("expired", "probably_expired", "group_deleted", "offset_deleted", "topic_deleted", "unknown")
LATE = {"expires_at": AS_OF + 89 * DAY, "expires_at_if_empty": AS_OF + 89 * DAY, "retention_ms": 90 * 86_400_000}
NEW_YEARS_EVE = datetime(9999, 12, 31, 12, tzinfo=UTC)
LAKES: dict[str, tuple[Part | None, dict[str, Any]]] = {
    "nothing": (sections, {}),
    "an audit of rules": (head(), {"audits": [audit_row(audit_id=12)]}),
    "a cluster": (head(), {"audits": [audit_row(cluster_id=CLUSTER)]}),
    "a cluster with a title": (head("orders, Frankfurt"), {"audits": [audit_row(cluster_id=CLUSTER)]}),
    "a log whose first record is within an hour": (parts(head(), offsets_topic_section), first_record()),
    "a log that is longer than the plot": (moves_section, moves_since(AS_OF - 90 * DAY, AS_OF - 29.9 * DAY, AS_OF)),
    "a log that begins at midnight": (moves_section, moves_since(MIDNIGHT - 3 * DAY, AS_OF - 3 * DAY, AS_OF)),
    "a log that begins after the audit": (moves_section, moves_since(AS_OF + 3 * DAY, AS_OF)),
    "a group in two offsets partitions": (
        parts(head(), if_empty_section, groups_section),
        {
            "groups": [group_row(state="Stable", member_count=1), group_row(offsets_partition=7)],
            "offset_expiry": [expiry_row(expires_at=None, expires_at_if_empty=AS_OF, **each) for each in BOTH],
        },
    ),
    "groups and their events": (each_group, events_of_groups()),
    "a group with many offsets and events": (
        each_group,
        {
            "groups": [group_row()],
            "offset_expiry": [expiry_row(partition=number) for number in range(40)],
            "group_events": [
                moved("offset_removed", 5, None, topic=f"t{n:02}", cause="expired", log_offset=n) for n in range(20)
            ],
        },
    ),
    "transactions that audits found to hang": (transactions_section, found_to_hang()),
    "findings before maintenance": (findings_section, {"audits": LOOKED, "findings": [FINDING]}),
    "no findings since": (
        findings_section,
        {"audits": [*LOOKED, audit_row(audit_id=3, rows_added={"findings": 0})], "findings": [FINDING]},
    ),
    "no audit that looked": (findings_section, {"audits": [audit_row(rows_added={})]}),
    "transactional ids": (transactional_ids_section, transactions()),
    "one open transactional id": (
        transactional_ids_section,
        {"transactional_ids": transactions()["transactional_ids"][::2]},
    ),
    "share groups of a live audit": (share_groups_section, share_groups(live=True)),
    "share groups of segments": (share_groups_section, share_groups(live=False)),
    "lag": (lag_section, lag()),
    "three offsets, none due": (None, due(0, 3)),
    "one offset, due": (None, due(1, 1)),
    "two offsets, both due": (None, due(2, 2)),
    "a retention of many months": (expiring_section, {"groups": [group_row()], "offset_expiry": [expiry_row(**LATE)]}),
    "the last day": (
        expiring_section,
        {
            "audits": [audit_row(as_of=NEW_YEARS_EVE)],
            "groups": [group_row()],
            "offset_expiry": [expiry_row(as_of=NEW_YEARS_EVE)],
        },
    ),
    "skipped, with an offset that expires": (
        None,
        {"group_events": [moved("offset_skipped", 5, 9)], **due(0, 1)},
    ),
    "skipped twice, once after an expiry, and rewound": (
        None,
        {"group_events": [moved("offset_rewound", 9, 5, "h"), *again(5, 9), moved("offset_skipped", 5, 8, "f")]},
    ),
    "begun lower after an expiry": (None, {"group_events": [*again(9, 5), *again(8, 2, "h")]}),
    "another topic of the name": (None, {"group_events": [moved("offset_rewound", 9, 5, cause="topic_recreated")]}),
    "moved long ago, or to no offset": (
        None,
        {
            "group_events": [
                moved("offset_skipped", 5, 9, event_timestamp=AS_OF - 8 * DAY),
                moved("offset_rewound", 9, -1, "h"),
            ]
        },
    ),
    "hanging by age": (transactions_section, hanging()),
    "hanging by Kafka's rule": (transactions_section, hanging("__transaction_state")),
    "everything urgent": (None, urgent()),
    "many groups of one run each": (None, runs(20, "billing", "")),
    "two groups of one run each": (None, runs(2)),
    "a rebalance": (rebalances_section, rebalance()),
    "a member that waits": (rebalances_section, waiting()),
    "every cause of a move": (
        moves_section,
        {"group_events": [moved("offset_rewound", 9, 4, f"g-{cause}", cause=cause) for cause in MOVES]},
    ),
    "every cause of a removal": (
        removals_section,
        {"group_events": [moved("offset_removed", 9, 4, cause=cause) for cause in REMOVALS]},
    ),
}
