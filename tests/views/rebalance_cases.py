"""Logs of groups made by hand, and the rebalances in them: each case is an offsets partition of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from tests.views.group_logs import (
    NO_TARGET,
    PLACEHOLDER,
    GroupLog,
    classic_member,
    current,
    current_tasks,
    epoch,
    generation,
    member,
    streams_member,
    tables_of,
    target,
)


class Reported(NamedTuple):
    """One row. Times are seconds after T0; `before`, `after`: counts of members."""

    number: int
    cause: str
    outcome: str
    started: float | None
    finished: float | None
    slowest: str | None
    before: int | None
    after: int


def classic(number: int, cause: str, finished: float, before: int | None, after: int) -> Reported:
    """A rebalance of a classic group: the log has only its end."""
    return Reported(number, cause, "finished", None, finished, None, before, after)


@dataclass(frozen=True)
class Case:
    name: str
    log: Callable[[GroupLog], object]
    reported: tuple[Reported, ...]
    release: str = "4.3"


def first_member(log: GroupLog, member_id: str = "a", number: int = 2, group: str = "g") -> GroupLog:
    """A consumer group's first member gets everything in one write."""
    log.record(5, group, member(), member_id).record(3, group, epoch(number)).record(7, group, NO_TARGET, member_id)
    return log.record(6, group, target(number)).record(8, group, current(number), member_id)


def two_members(log: GroupLog, instance: str | None = None) -> GroupLog:
    """Members a and b, at epoch 3 both: b joined at 1 s and got there at 2 s, a at 2.5 s."""
    first_member(log.at(0))
    log.at(1).record(5, "g", member(instance=instance), "b").record(3, "g", epoch(3)).record(8, "g", current(2), "b")
    log.at(1.5).record(7, "g", NO_TARGET, "b").record(6, "g", target(3))
    return log.at(2).record(8, "g", current(3), "b").at(2.5).record(8, "g", current(3), "a")


TWO_MEMBERS = (
    Reported(2, "member_joined", "finished", 0, 0, "a", 0, 1),
    Reported(3, "member_joined", "finished", 1, 2.5, "a", 1, 2),
)


def gone(log: GroupLog, member_id: str) -> GroupLog:
    """A member's tombstones, in their order."""
    return log.record(8, "g", None, member_id).record(7, "g", None, member_id).record(5, "g", None, member_id)


def removed(log: GroupLog, *member_ids: str) -> GroupLog:
    """The tombstones of a group, in their order."""
    for number in (8, 7):
        for member_id in member_ids:
            log.record(number, "g", None, member_id)
    log.record(6, "g", None)
    for member_id in member_ids:
        log.record(5, "g", None, member_id)
    return log.record(4, "g", None).record(3, "g", None)


def changed(log: GroupLog, **now: str) -> GroupLog:
    """Member a says something new of itself at 10 s, and all are there at 11 s."""
    log.at(10).record(5, "g", member(**now), "a").record(3, "g", epoch(4)).record(6, "g", target(4))
    return log.at(11).record(8, "g", current(4), "a").record(8, "g", current(4), "b")


def waits_for_a(log: GroupLog) -> GroupLog:
    """Epoch 4, which b has reached and a has not heard of."""
    two_members(log).at(10).record(5, "g", member("u"), "b").record(3, "g", epoch(4))
    return log.record(6, "g", target(4)).at(11).record(8, "g", current(4), "b")


CHANGED = ("finished", 10, 11, "b", 2, 2)
CLASSIC_AB = (classic(1, "member_joined", 0, 0, 1), classic(2, "member_joined", 5, 1, 2))


def classic_ab(log: GroupLog) -> GroupLog:
    """A classic group with members a and b at generation 2."""
    log.at(0).record(2, "g", PLACEHOLDER).record(2, "g", generation(1, classic_member("a", "t:0 t:1")))
    both = generation(2, classic_member("a", "t:0"), classic_member("b", "t:1"))
    return log.at(5).record(2, "g", both)


def to_consumer(log: GroupLog) -> GroupLog:
    """Conversion of the classic group while it runs, by the join of c; its generation is the epoch."""
    log.at(10).record(2, "g", None)
    for each in "ab":
        log.record(5, "g", member(), each)
    log.record(3, "g", epoch(2)).record(7, "g", NO_TARGET, "a").record(6, "g", target(2))
    for each in "ab":
        log.record(8, "g", current(2), each)
    log.record(5, "g", member(), "c").record(3, "g", epoch(3)).record(6, "g", target(3))
    for second, each in ((11, "c"), (12, "a"), (13, "b")):
        log.at(second).record(8, "g", current(3), each)
    return log


CASES = (
    # ---- consumer groups
    Case("two members", two_members, TWO_MEMBERS),
    Case(
        "the last one leaves",
        lambda log: gone(first_member(log).at(3), "a").record(3, "g", epoch(3, 0)),
        (TWO_MEMBERS[0], Reported(3, "member_left", "finished", 3, 3, None, 1, 0)),
    ),
    Case(
        "one leaves, and the other is reported later",
        lambda log: (
            gone(two_members(log).at(4), "b")
            .record(3, "g", epoch(4))
            .at(5)
            .record(6, "g", target(4))
            .at(6)
            .record(8, "g", current(4), "a")
        ),
        (*TWO_MEMBERS, Reported(4, "member_left", "finished", 4, 6, "a", 2, 1)),
    ),
    Case(
        "a member that still has to give up or waits has not finished",
        lambda log: (
            two_members(log)
            .at(4)
            .record(3, "g", epoch(4, 8))
            .record(6, "g", target(4))
            .at(5)
            .record(8, "g", current(4, 2), "a")
            .at(6)
            .record(8, "g", current(3, 1), "b")
            .at(7)
            .record(8, "g", current(4), "b")
            .at(8)
            .record(8, "g", current(4), "a")
        ),
        (*TWO_MEMBERS, Reported(4, "topic_metadata_changed", "finished", 4, 8, "a", 2, 2)),
    ),
    Case(
        "nobody has heard of it yet",
        waits_for_a,
        (*TWO_MEMBERS, Reported(4, "subscription_changed", "running", 10, None, None, 2, 2)),
    ),
    Case(
        "the next one begins before all are there",
        lambda log: (
            waits_for_a(log)
            .at(12)
            .record(5, "g", member(), "c")
            .record(3, "g", epoch(5))
            .record(6, "g", target(5))
            .record(8, "g", current(5), "c")
            .record(8, "g", current(5), "b")
            .at(13)
            .record(8, "g", current(5), "a")
        ),
        (
            *TWO_MEMBERS,
            Reported(4, "subscription_changed", "superseded", 10, None, None, 2, 2),
            Reported(5, "member_joined", "finished", 12, 13, "a", 2, 3),
        ),
    ),
    Case(
        "who keeps the others waiting leaves",
        lambda log: gone(waits_for_a(log).at(12), "a").record(3, "g", epoch(5)).at(13).record(8, "g", current(5), "b"),
        (
            *TWO_MEMBERS,
            Reported(4, "subscription_changed", "superseded", 10, None, None, 2, 2),
            Reported(5, "member_left", "finished", 12, 13, "b", 2, 1),
        ),
    ),
    Case(
        "a static member that is away is waited for",
        lambda log: (
            two_members(log)
            .at(5)
            .record(8, "g", current(-2), "b")
            .at(6)
            .record(5, "g", member("u"), "a")
            .record(3, "g", epoch(4))
            .record(6, "g", target(4))
            .record(8, "g", current(4), "a")
        ),
        (*TWO_MEMBERS, Reported(4, "subscription_changed", "running", 6, None, None, 2, 2)),
    ),
    Case(
        "a static member comes back under another id: no rebalance, and the next one is somebody else's",
        lambda log: (
            gone(two_members(log, instance="i").at(6), "b")
            .record(5, "g", member(instance="i"), "c")
            .record(8, "g", current(3), "c")
            .at(7)
            .record(5, "g", member("u"), "a")
            .record(3, "g", epoch(4))
            .record(6, "g", target(4))
            .at(8)
            .record(8, "g", current(4), "a")
            .record(8, "g", current(4), "c")
        ),
        (*TWO_MEMBERS, Reported(4, "subscription_changed", "finished", 7, 8, "c", 2, 2)),
    ),
    Case(
        "other topics",
        lambda log: changed(two_members(log), topics="t u"),
        (*TWO_MEMBERS, Reported(4, "subscription_changed", *CHANGED)),
    ),
    Case(
        "another expression",
        lambda log: changed(two_members(log), regex="t.*"),
        (*TWO_MEMBERS, Reported(4, "subscription_changed", *CHANGED)),
    ),
    Case(
        "another assignor",
        lambda log: changed(two_members(log), assignor="range"),
        (*TWO_MEMBERS, Reported(4, "assignor_changed", *CHANGED)),
    ),
    Case(
        "nothing that the log tells",
        lambda log: changed(two_members(log)),
        (*TWO_MEMBERS, Reported(4, "unknown", *CHANGED)),
    ),
    Case(
        "the topics' partitions are reported by a record of their own until 4.0",
        lambda log: changed(two_members(log).record(4, "g", {"topics": []})),
        (*TWO_MEMBERS, Reported(4, "topic_metadata_changed", *CHANGED)),
    ),
    Case(
        "its tombstone, which 4.1 and newer write, tells nothing of them",
        lambda log: changed(two_members(log).record(4, "g", None)),
        (*TWO_MEMBERS, Reported(4, "unknown", *CHANGED)),
    ),
    Case(
        "a member that joined without an epoch of its own, as for an expression",
        lambda log: (
            first_member(log)
            .at(1)
            .record(5, "g", member("", regex="u.*"), "b")
            .record(8, "g", current(2), "b")
            .at(3)
            .record(3, "g", epoch(3, 8))
            .record(6, "g", target(3))
            .record(8, "g", current(3), "b")
            .at(4)
            .record(8, "g", current(3), "a")
        ),
        (TWO_MEMBERS[0], Reported(3, "member_joined", "finished", 3, 4, "a", 1, 2)),
    ),
    Case(
        "a member that came and left again",
        lambda log: (
            gone(two_members(log).at(5).record(5, "g", member(), "c").record(8, "g", current(3), "c").at(6), "c")
            .record(3, "g", epoch(4))
            .record(6, "g", target(4))
            .at(7)
            .record(8, "g", current(4), "a")
            .record(8, "g", current(4), "b")
        ),
        (*TWO_MEMBERS, Reported(4, "members_changed", "finished", 6, 7, "b", 2, 2)),
    ),
    Case(
        "a group that was deleted and created again starts again",
        lambda log: first_member(
            removed(gone(first_member(log).at(3), "a").record(3, "g", epoch(3, 0)).at(9)).at(20), "z"
        ),
        (
            TWO_MEMBERS[0],
            Reported(3, "member_left", "finished", 3, 3, None, 1, 0),
            Reported(2, "member_joined", "finished", 20, 20, "z", 0, 1),
        ),
    ),
    Case(
        "what the cleaner has taken before is not known",
        lambda log: (
            log.record(5, "g", member(), "a")
            .at(1)
            .record(5, "g", member(), "b")
            .at(10)
            .record(3, "g", epoch(4))
            .record(6, "g", target(4))
            .at(11)
            .record(8, "g", current(4), "a")
            .record(8, "g", current(4), "b")
        ),
        (Reported(4, "unknown", "finished", 10, 11, "b", None, 2),),
    ),
    Case(
        "records without a time",
        lambda log: (
            first_member(log.at(None)).at(3).record(3, "g", epoch(3, 8)).at(None).record(8, "g", current(3), "a")
        ),
        (
            Reported(2, "member_joined", "finished", None, None, "a", 0, 1),
            Reported(3, "topic_metadata_changed", "finished", 3, None, "a", 1, 1),
        ),
    ),
    Case(
        "epochs of 4.2 and before begin at 1",
        lambda log: first_member(log, number=1),
        (Reported(1, "member_joined", "finished", 0, 0, "a", 0, 1),),
        release="4.2",
    ),
    # ---- share and streams groups
    Case(
        "a share group, and its partitions that have been initialised",
        lambda log: (
            log.record(10, "s", member(), "a")
            .record(11, "s", epoch(2))
            .record(12, "s", target(2))
            .record(14, "s", current(2), "a")
            .at(1)
            .record(15, "s", {"initializingTopics": [], "initializedTopics": [], "deletingTopics": []})
            .at(2)
            .record(11, "s", epoch(3))
            .record(12, "s", target(3))
            .at(3)
            .record(14, "s", current(3), "a")
        ),
        (
            Reported(2, "member_joined", "finished", 0, 0, "a", 0, 1),
            Reported(3, "share_partitions_initialized", "finished", 2, 3, "a", 1, 1),
        ),
    ),
    Case(
        "a streams group, and its new topology",
        lambda log: (
            log.record(19, "s", streams_member(), "a")
            .record(17, "s", epoch(2))
            .record(20, "s", target(2))
            .at(1)
            .record(22, "s", current_tasks(2), "a")
            .at(2)
            .record(23, "s", {"epoch": 1, "subtopologies": []})
            .record(17, "s", epoch(3))
            .at(4)
            .record(22, "s", current_tasks(3, 2), "a")
            .at(5)
            .record(22, "s", current_tasks(3), "a")
        ),
        (
            Reported(2, "member_joined", "finished", 0, 1, "a", 0, 1),
            Reported(3, "topology_changed", "finished", 2, 5, "a", 1, 1),
        ),
    ),
    # ---- classic groups
    Case("a classic group", classic_ab, CLASSIC_AB),
    Case(
        "all leave",
        lambda log: classic_ab(log).at(9).record(2, "g", generation(3)),
        (*CLASSIC_AB, classic(3, "member_left", 9, 2, 0)),
    ),
    Case(
        "one leaves and one joins",
        lambda log: (
            classic_ab(log).at(9).record(2, "g", generation(3, classic_member("a", "t:0"), classic_member("c", "t:1")))
        ),
        (*CLASSIC_AB, classic(3, "members_changed", 9, 2, 2)),
    ),
    Case(
        "cooperative: what one gave up is handed on in the next",
        lambda log: (
            log.record(2, "g", generation(1, classic_member("a", "t:0 t:1"), protocol="cooperative-sticky"))
            .at(5)
            .record(
                2, "g", generation(2, classic_member("a", "t:0"), classic_member("b"), protocol="cooperative-sticky")
            )
            .at(6)
            .record(
                2,
                "g",
                generation(3, classic_member("a", "t:0"), classic_member("b", "t:1"), protocol="cooperative-sticky"),
            )
        ),
        (*CLASSIC_AB, classic(3, "partitions_revoked", 6, 2, 2)),
    ),
    Case(
        "a topic that grew",
        lambda log: (
            classic_ab(log)
            .at(9)
            .record(2, "g", generation(3, classic_member("a", "t:0 t:2"), classic_member("b", "t:1")))
        ),
        (*CLASSIC_AB, classic(3, "topic_metadata_changed", 9, 2, 2)),
    ),
    Case(
        "a topic that is gone",
        lambda log: (
            classic_ab(log).at(9).record(2, "g", generation(3, classic_member("a"), classic_member("b", "t:1")))
        ),
        (*CLASSIC_AB, classic(3, "topic_metadata_changed", 9, 2, 2)),
    ),
    Case(
        "partitions change hands and nothing else",
        lambda log: (
            classic_ab(log).at(9).record(2, "g", generation(3, classic_member("a", "t:1"), classic_member("b", "t:0")))
        ),
        (*CLASSIC_AB, classic(3, "unknown", 9, 2, 2)),
    ),
    Case(
        "other topics of a classic member",
        lambda log: (
            classic_ab(log)
            .at(9)
            .record(2, "g", generation(3, classic_member("a", "t:0", "t u"), classic_member("b", "t:1")))
        ),
        (*CLASSIC_AB, classic(3, "subscription_changed", 9, 2, 2)),
    ),
    Case(
        "another protocol",
        lambda log: (
            classic_ab(log)
            .at(9)
            .record(2, "g", generation(3, classic_member("a", "t:0"), classic_member("b", "t:1"), protocol="sticky"))
        ),
        (*CLASSIC_AB, classic(3, "assignor_changed", 9, 2, 2)),
    ),
    Case(
        "a static member under another id, within a generation and in a new one",
        lambda log: (
            log.record(2, "g", generation(1, classic_member("a", "t:0", instance="i")))
            .at(5)
            .record(2, "g", generation(1, classic_member("b", "t:0", instance="i")))
            .at(6)
            .record(2, "g", generation(2, classic_member("b", "t:0", instance="i"), classic_member("c", "t:1")))
            .at(7)
            .record(2, "g", generation(3, classic_member("d", "t:0", instance="i"), classic_member("c", "t:1")))
        ),
        (
            classic(1, "member_joined", 0, 0, 1),
            classic(2, "member_joined", 6, 1, 2),
            classic(3, "member_replaced", 7, 2, 2),
        ),
    ),
    Case(
        "a static member replaced again and again, until its session ends",
        lambda log: (
            log.record(2, "g", PLACEHOLDER)
            .record(2, "g", generation(1, classic_member("a", "t:0", instance="i")))
            .at(5)
            .record(2, "g", generation(1, classic_member("b", "t:0", instance="i")))
            .at(6)
            .record(2, "g", generation(1, classic_member("c", "t:0", instance="i")))
            .at(7)
            .record(2, "g", generation(2))
        ),
        (classic(1, "member_joined", 0, 0, 1), classic(2, "member_left", 7, 1, 0)),
    ),
    Case(
        "a static member comes back after its instance had left",
        lambda log: (
            log.record(2, "g", PLACEHOLDER)
            .record(2, "g", generation(1, classic_member("a", "t:0", instance="i"), classic_member("x", "t:1")))
            .at(5)
            .record(2, "g", generation(2, classic_member("x", "t:0 t:1")))
            .at(6)
            .record(2, "g", generation(3, classic_member("b", "t:0", instance="i"), classic_member("x", "t:1")))
        ),
        (
            classic(1, "member_joined", 0, 0, 2),
            classic(2, "member_left", 5, 2, 1),
            classic(3, "member_joined", 6, 1, 2),
        ),
    ),
    Case(
        "generations that never got an assignment left no record",
        lambda log: classic_ab(log).at(9).record(2, "g", generation(7, classic_member("a", "t:0 t:1"))),
        (*CLASSIC_AB, classic(7, "member_left", 9, 2, 1)),
    ),
    Case(
        "the first generation to be logged, behind the placeholder and without one",
        lambda log: (
            log.record(2, "g", PLACEHOLDER)
            .record(2, "g", generation(2, classic_member("a"), classic_member("b")))
            .record(2, "h", generation(2, classic_member("a"), classic_member("b")))
        ),
        (classic(2, "member_joined", 0, 0, 2), classic(2, "unknown", 0, None, 2)),
    ),
    # ---- conversions
    Case(
        "a classic group becomes a consumer group while it runs",
        lambda log: to_consumer(classic_ab(log)),
        (*CLASSIC_AB, Reported(3, "group_type_changed", "finished", 10, 13, "b", 2, 3)),
    ),
    Case(
        "a consumer group becomes a classic group while it runs",
        lambda log: (
            removed(waits_for_a(log).at(20), "a", "b")
            .record(2, "g", generation(4, classic_member("a", "t:0")))
            .at(21)
            .record(2, "g", generation(5, classic_member("a", "t:0 t:1")))
        ),
        (
            *TWO_MEMBERS,
            Reported(4, "subscription_changed", "removed", 10, None, None, 2, 2),
            classic(5, "group_type_changed", 21, 2, 1),
        ),
    ),
    Case(
        "an empty classic group becomes a consumer group, whose epoch happens to be its generation",
        lambda log: first_member(
            log.record(2, "g", generation(1, classic_member("a")))
            .at(5)
            .record(2, "g", generation(2))
            .at(9)
            .record(2, "g", None)
        ),
        (
            classic(1, "member_joined", 0, 0, 1),
            classic(2, "member_left", 5, 1, 0),
            Reported(2, "group_type_changed", "finished", 9, 9, "a", 0, 1),
        ),
    ),
    Case(
        "a group of another type that is made later is a new group",
        lambda log: first_member(
            log.record(2, "g", generation(1, classic_member("a")))
            .at(5)
            .record(2, "g", generation(2))
            .at(9)
            .record(2, "g", None)
            .at(20)
        ),
        (
            classic(1, "member_joined", 0, 0, 1),
            classic(2, "member_left", 5, 1, 0),
            Reported(2, "member_joined", "finished", 20, 20, "a", 0, 1),
        ),
    ),
    Case(
        "what was before a group's first record is not known because it has committed",
        lambda log: log.commit("g").at(9).record(2, "g", generation(2, classic_member("a"), classic_member("b"))),
        (classic(2, "unknown", 9, None, 2),),
    ),
    Case(
        "a consumer group in the place of a simple one is a new group",
        lambda log: first_member(log.record(2, "g", PLACEHOLDER).record(2, "g", None)),
        (TWO_MEMBERS[0],),
    ),
    Case(
        "the same, after there had been another group of that name",
        lambda log: first_member(
            log.record(2, "g", generation(1, classic_member("a")))
            .at(4)
            .record(2, "g", generation(2))
            .at(5)
            .record(2, "g", None)
            .at(20)
            .record(2, "g", PLACEHOLDER)
            .at(30)
            .record(2, "g", None)
        ),
        (
            classic(1, "member_joined", 0, 0, 1),
            classic(2, "member_left", 4, 1, 0),
            Reported(2, "member_joined", "finished", 30, 30, "a", 0, 1),
        ),
    ),
    Case(
        "a classic group of whose predecessor it is known that it went",
        lambda log: (
            log.commit("g")
            .at(5)
            .record(2, "g", None)
            .at(9)
            .record(2, "g", generation(2, classic_member("a"), classic_member("b")))
        ),
        (classic(2, "member_joined", 9, 0, 2),),
    ),
    Case(
        "a classic group takes the place of a consumer group whose tombstones are gone",  # T32
        lambda log: two_members(log).at(9).record(2, "g", generation(1, classic_member("z"))),
        (*TWO_MEMBERS, classic(1, "group_type_changed", 9, 2, 1)),
    ),
    Case(
        "who joins an empty group without an epoch of its own was not waited for",
        lambda log: (
            gone(first_member(log).at(3), "a")
            .record(3, "g", epoch(3, 0))
            .at(8)
            .record(5, "g", member("", regex="u.*"), "b")
            .record(8, "g", current(3), "b")
        ),
        (TWO_MEMBERS[0], Reported(3, "member_left", "finished", 3, 3, None, 1, 0)),
    ),
)


def tables_of_cases() -> dict[str, pa.Table]:
    """The tables of a lake with all of them."""
    logs = [GroupLog(number, case.release) for number, case in enumerate(CASES)]
    for log, case in zip(logs, CASES, strict=True):
        case.log(log)
    return tables_of(*logs)
