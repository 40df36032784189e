"""Each cause that a removal, a move or a take-over of a member has: a log in which it is right, and a log as similar as
possible in which the product must not say it."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest

from kgroups_spark.cli.describe import REMOVAL_CAUSES
from kgroups_spark.cli.history import MOVE_CAUSES
from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.releases import release
from kgroups_spark.replay.groups import facts_of
from kgroups_spark.words import to_datetime
from tests.cli.story_reader import ArrowReader
from tests.lake.table_rows import rows_of
from tests.logs.handmade_logs import (
    DAY,
    HOUR,
    MINUTE,
    T0,
    Log,
    Member,
    at_epoch,
    classic,
    commit,
    commit_of_id,
    consumer,
    epoch,
    files_of,
    gone,
    removed,
)
from tests.nights.nights_here import How, audit

A, B = Member("a"), Member("b")
STATIC_A, STATIC_B = Member("a", "i"), Member("b", "i")


class Case(NamedTuple):
    """`logs`: the partitions. `reported`: the events of group g from record `since` on, each with its cause."""

    name: str
    logs: tuple[Log, ...]
    reported: list[tuple[str, str | None]]
    since: int = 0
    release: str = "4.3"
    is_alone: bool = False  # no other case may write while its brokers are off


def emptied() -> Log:
    """Group g had a member, is Empty, and committed 50: three records."""
    return Log().add(0, classic(0, 1, A)).add(MINUTE, commit(MINUTE, 50)).add(2 * MINUTE, classic(2 * MINUTE, 2))


def assigns_itself() -> Log:
    """Group g never has members: two records."""
    return Log().add(0, commit(0, 40)).add(MINUTE, commit(MINUTE, 50))


def goes(log: Log, at: int) -> Log:
    """The group is removed with its offset, in one act."""
    return log.add(at, commit(at, None), gone())


def static(*later: tuple[int, Member]) -> Log:
    """A group with a static member, of generation 1, then of these generations: one record each."""
    log = Log().add(0, classic(0, 1, STATIC_A, Member("x")))
    for number, (generation, member) in enumerate(later, 1):
        log.add(number * MINUTE, classic(0, generation, member, Member("x")))
    return log


def consumers(instance: str | None) -> Log:
    """A consumer group with one member a: three records."""
    return Log().add(0, consumer(Member("a", instance)), epoch(1), at_epoch("a", 1))


GONE = [("offset_removed", "{}"), ("group_removed", "{}")]


def both(cause: str) -> list[tuple[str, str | None]]:
    return [("offset_removed", cause), ("group_removed", cause)]


WEEK = 7 * DAY
OTHERS = (commit(0, 1, "h", "t"), commit(0, 1, "h", "u"))
ANOTHER = [("generation_changed", None)]
CASES = (
    # ---- removals
    Case("expired", (goes(emptied(), WEEK + 10 * MINUTE),), both("expired"), 3),
    Case("ten minutes after the commit: deleted", (goes(emptied(), 12 * MINUTE),), both("group_deleted"), 3),
    Case(
        "a check removes a group without offsets",
        (Log().add(0, classic(0, 1, A)).add(MINUTE, classic(MINUTE, 2)).add(5 * MINUTE, gone()),),
        [("group_removed", "expired")],
        2,
    ),
    Case(
        "a group without offsets that an open transaction keeps is not checked",
        (
            Log()
            .add(0, classic(0, 1, A))
            .add(MINUTE, classic(MINUTE, 2))
            .add(MINUTE, commit(MINUTE, 5), producer=7)
            .add(5 * MINUTE, gone()),
        ),
        [("group_removed", "group_deleted")],
        3,
    ),
    Case(
        "the brokers were off when it was due",
        (goes(emptied(), 100 * DAY), Log()),
        both("probably_expired"),
        3,
        is_alone=True,
    ),
    Case(
        "the brokers were off, and other partitions are written at once when they are back",
        (goes(emptied(), 100 * DAY), Log().add(100 * DAY, commit(0, 1, "h"))),
        both("probably_expired"),
        3,
    ),
    Case(
        "another partition was written in the gap: the brokers ran, and did not remove it",
        (goes(emptied(), 100 * DAY), Log().add(50 * DAY, commit(0, 1, "h"))),
        both("unknown"),
        3,
    ),
    Case(
        "its own partition was written two days after it was due",
        (goes(emptied().add(WEEK + 2 * DAY, commit(0, 1, "h")), 100 * DAY),),
        both("unknown"),
        4,
        is_alone=True,
    ),
    Case(
        "a group without offsets goes when the brokers are back",
        (Log().add(0, classic(0, 1, A)).add(MINUTE, classic(MINUTE, 2)).add(90 * DAY, gone()),),
        [("group_removed", "probably_expired")],
        2,
        is_alone=True,
    ),
    Case(
        "a group without offsets goes long after, while another partition is written",
        (
            Log().add(0, classic(0, 1, A)).add(MINUTE, classic(MINUTE, 2)).add(90 * DAY, gone()),
            Log().add(50 * DAY, commit(0, 1, "h")),
        ),
        [("group_removed", "unknown")],
        2,
    ),
    Case(
        "an offset of a topic that another group still has",
        (emptied().add(MINUTE, *OTHERS).add(HOUR, commit(0, None)),),
        [("offset_removed", "offset_deleted")],
        5,
    ),
    Case(
        "an offset of a topic that no other group has: the topic may be gone",
        (emptied().add(HOUR, commit(0, None)),),
        [("offset_removed", "unknown")],
        3,
    ),
    Case(
        "a topic of several groups",
        (emptied().add(MINUTE, OTHERS[0]).add(HOUR, commit(0, None), commit(0, None, "h")),),
        [("offset_removed", "topic_deleted")],
        4,
    ),
    Case(
        "a topic that an active group subscribes to",
        (Log().add(0, classic(0, 1, A)).add(0, commit(0, 5)).add(HOUR, commit(0, None)),),
        [("offset_removed", "topic_deleted")],
        2,
    ),
    Case(
        "a topic that an active group does not subscribe to",
        (Log().add(0, classic(0, 1, Member("a", None, ("u",)))).add(0, commit(0, 5)).add(HOUR, commit(0, None)),),
        [("offset_removed", "unknown")],
        2,
    ),
    Case(
        "the log does not have the removed offset", (Log().add(HOUR, commit(0, None)),), [("offset_removed", "unknown")]
    ),
    Case(
        "Scala: all offsets of a simple group",
        (assigns_itself().add(0, commit(0, 5, partition=1)).add(HOUR, commit(0, None), commit(0, None, partition=1)),),
        [("offset_removed", "unknown"), ("offset_removed", "unknown"), ("group_removed", "unknown")],
        3,
        "2.8",
    ),
    Case(
        "Scala before 2.4, which deletes no single offsets: all of a simple group, whose topic another has",
        (assigns_itself().add(0, OTHERS[0]).add(HOUR, commit(0, None)),),
        both("group_deleted"),
        3,
        "2.2",
    ),
    # ---- moves
    Case(
        "an admin resets an Empty group", (emptied().add(HOUR, commit(HOUR, 7)),), [("offset_rewound", "no_members")], 3
    ),
    Case(
        "an admin skips ahead in an Empty group",
        (emptied().add(HOUR, commit(HOUR, 70)),),
        [("offset_skipped", "no_members")],
        3,
    ),
    Case(
        "a group that assigns itself falls back",
        (assigns_itself().add(HOUR, commit(HOUR, 7)),),
        [("offset_rewound", "self_assigned")],
        2,
    ),
    Case("a group that assigns itself reads on", (assigns_itself().add(HOUR, commit(HOUR, 70)),), [], 2),
    Case(
        "4.3 writes a placeholder of a simple group: it has no protocol type",
        (Log().add(0, classic(0, 0, protocol_type=""), commit(0, 50)).add(HOUR, commit(HOUR, 7)),),
        [("offset_rewound", "self_assigned")],
        2,
    ),
    Case(
        "deleted while its consumer goes on",
        (goes(assigns_itself(), 3 * MINUTE).add(4 * MINUTE, commit(0, 60)),),
        [("group_created", None), ("offset_restarted", "self_assigned")],
        4,
    ),
    Case(
        "members come back after the offset was removed",
        (
            emptied()
            .add(MINUTE, *OTHERS)
            .add(HOUR, commit(0, None))
            .add(HOUR, classic(0, 3, A))
            .add(HOUR, commit(0, 9)),
        ),
        [("offset_restarted", "with_members")],
        7,
    ),
    Case(
        "a member falls back",
        (Log().add(0, classic(0, 1, A)).add(0, commit(0, 50)).add(HOUR, commit(HOUR, 7)),),
        [("offset_rewound", "with_members")],
        2,
    ),
    Case(
        "a transaction falls back",
        (assigns_itself().add(HOUR, commit(HOUR, 7), producer=5).ends(HOUR, 5, commits=True),),
        [("offset_rewound", "transaction")],
        2,
    ),
    Case(
        "an aborted transaction does not",
        (assigns_itself().add(HOUR, commit(HOUR, 7), producer=5).ends(HOUR, 5, commits=False),),
        [],
        2,
    ),
    Case(
        "the topic was created again",
        (Log().add(0, commit_of_id(0, 50, 1)).add(HOUR, commit_of_id(HOUR, 7, 2)),),
        [("topic_recreated", None), ("offset_rewound", "topic_recreated")],
        1,
    ),
    Case(
        "one of the commits does not name the topic's id",
        (Log().add(0, commit(0, 50)).add(HOUR, commit_of_id(HOUR, 7, 2)),),
        [("offset_rewound", "self_assigned")],
        1,
    ),
    Case(
        "-1 is no offset, so nothing falls back to it, or climbs from it",
        (emptied().add(HOUR, commit(HOUR, -1)).add(2 * HOUR, commit(HOUR, 9)),),
        [("offset_unset", None)],
        3,
    ),
    Case("0 is an offset", (emptied().add(HOUR, commit(HOUR, 0)),), [("offset_rewound", "no_members")], 3),
    Case(
        "-1 was removed: the next commit is no move",
        (
            emptied()
            .add(MINUTE, *OTHERS)
            .add(HOUR, commit(HOUR, -1))
            .add(2 * HOUR, commit(0, None))
            .add(3 * HOUR, commit(0, 9)),
        ),
        [("offset_removed", "offset_deleted")],
        6,
    ),
    # ---- members
    Case("a static member under another id", (static((1, STATIC_B)),), [("member_replaced", None)], 1),
    Case(
        "a member without an instance id under another id",
        (Log().add(0, classic(0, 1, A)).add(0, classic(0, 1, B)),),
        [("member_left", None), ("member_joined", None)],
        1,
    ),
    Case(
        "another instance id",
        (static((2, Member("b", "j"))),),
        [*ANOTHER, ("member_left", None), ("member_joined", None)],
        1,
    ),
    Case(
        "a static member whose session had ended",
        (static((2, Member("y")), (3, STATIC_B)),),
        [
            *ANOTHER,
            ("member_left", None),
            ("member_joined", None),
            *ANOTHER,
            ("member_left", None),
            ("member_joined", None),
        ],
        1,
    ),
    Case(
        "KIP-848: a static member that was away under another id",
        (
            consumers("i")
            .add(MINUTE, at_epoch("a", -2))
            .add(2 * MINUTE, *removed("a"), consumer(STATIC_B), at_epoch("b", 1)),
        ),
        [("member_replaced", None)],
        4,
    ),
    Case(
        "KIP-848: a member without an instance id",
        (consumers(None).add(2 * MINUTE, *removed("a"), consumer(B), at_epoch("b", 1)),),
        [("member_left", None), ("member_joined", None)],
        3,
    ),
)


def reader(*cases: Case, **tables: Any) -> ArrowReader:
    """A lake with the partitions of these cases, which are of one release."""
    logs = [log for case in cases for log in case.logs]
    audited = audit(files_of(*logs), How(cases[0].release, retention_ms=WEEK))
    return ArrowReader({**audited.tables(), **tables}, to_datetime(T0 + 101 * DAY), cases[0].release)


def has_company(case: Case) -> bool:
    return not case.is_alone and case.release == "4.3" and len(case.logs) == 1


TOGETHER = [case for case in CASES if has_company(case)]


@cache
def together() -> list[dict[str, Any]]:
    """The events of all cases that may share a lake: each is an offsets partition."""
    columns = ("offsets_partition", "log_offset", "event", "cause")
    return reader(*TOGETHER).sql(f"SELECT {', '.join(columns)} FROM all_events WHERE group_id = 'g' ORDER BY ALL")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_event_has_the_cause_that_the_log_shows(case: Case, rows: Any) -> None:
    number = 0
    if has_company(case):
        number, found = TOGETHER.index(case), together()
    else:
        found = rows("history --group g", reader(case))
    reported = [
        (row["event"], row["cause"])
        for row in found
        if row["offsets_partition"] == number and row["log_offset"] >= case.since and row["event"] != "state_changed"
    ]
    assert sorted(reported, key=str) == sorted(case.reported, key=str)


@pytest.mark.parametrize(("protocol_type", "is_self_assigned"), [("consumer", False), ("", True)])
def test_a_release_that_forgets_the_protocol_type_of_an_empty_group(protocol_type: str, is_self_assigned: bool) -> None:
    value = {"protocolType": protocol_type, "members": []}
    assert facts_of(ClassicGroup(release("0.11"), "g", value)).is_self_assigned is is_self_assigned


def test_every_cause_has_a_case() -> None:
    causes = {cause for case in CASES for _, cause in case.reported} - {None}
    assert causes == {*REMOVAL_CAUSES, *MOVE_CAUSES}


@pytest.mark.parametrize("command", ["history", "describe", "describe --state"])
def test_a_group_whose_offsets_were_all_deleted_goes_at_the_next_check(command: str, kgroups: Any) -> None:
    said = "Group 'g' has no committed offsets: the brokers delete it at their next check."
    left = emptied().add(MINUTE, commit(0, 5, partition=1)).add(HOUR, commit(0, None))
    assert said not in kgroups(f"{command} --group g", reader(Case("", (left,), [])))[2]
    left.add(2 * HOUR, commit(0, None, partition=1))
    lake = reader(Case("", (left,), []))
    assert said in kgroups(f"{command} --group g", lake)[2]
    moment = "--until" if command == "history" else "--as-of"
    assert said not in kgroups(f"{command} --group g {moment} 2026-09-21T13:50", lake)[2]
    with_member = left.add(3 * HOUR, classic(0, 3, A))
    assert said not in kgroups(f"{command} --group g", reader(Case("", (with_member,), [])))[2]


@pytest.mark.parametrize(
    ("status", "cause"), [("unknown_topic", "topic_deleted"), ("ok", "unknown"), ("not_authorized", "unknown")]
)
def test_a_topic_that_the_cluster_no_longer_has_was_deleted(status: str, cause: str, rows: Any) -> None:
    case = next(case for case in CASES if case.name.startswith("an offset of a topic that no other group has"))
    seen = rows_of(
        "topic_offsets", {"audit_id": 1, "topic": "t", "partition": 0, "status": status, "seen_at": to_datetime(T0)}
    )
    (row,) = rows("history --group g --event offset_removed", reader(case, topic_offsets=seen))
    assert row["cause"] == cause


def test_a_removed_group_is_no_deleted_topic_even_if_that_is_gone_too(rows: Any) -> None:
    case = next(case for case in CASES if case.name.startswith("Scala: all offsets"))
    seen = [
        {"audit_id": 1, "topic": "t", "partition": number, "status": "unknown_topic", "seen_at": to_datetime(T0)}
        for number in (0, 1)
    ]
    found = rows("history --group g", reader(case, topic_offsets=rows_of("topic_offsets", *seen)))
    assert {row["cause"] for row in found if row["event"].endswith("removed")} == {"unknown"}
