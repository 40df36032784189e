"""View rebalances: logs with known answers, then recorded ones, against the state machine and against their stories."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from functools import cache
from typing import Any

import pytest

from tests.chosen import one_of
from tests.views.arrow_tables import in_duckdb
from tests.views.rebalance_cases import CASES, T0, Case, Reported, tables_of_cases, topic_id
from tests.views.recorded import LOGS, audited_log
from tests.views.recorded import tables_of as tables_of_log

ALL = "SELECT * FROM rebalances ORDER BY offsets_partition, group_id, log_offset"
Row = dict[str, Any]


def rebalances(tables: Any) -> list[Row]:
    with in_duckdb(tables) as connection:
        found: list[Row] = connection.sql(ALL).to_arrow_table().to_pylist()
    return found


@cache
def handmade() -> dict[str, list[Row]]:
    """The rows of each case. All are in one lake, most with the same group id in another partition."""
    rows = rebalances(tables_of_cases())
    return {case.name: [row for row in rows if row["offsets_partition"] == n] for n, case in enumerate(CASES)}


@cache
def recorded(log: str) -> list[Row]:
    return rebalances(tables_of_log(log))


def seconds(time: datetime | None) -> float | None:
    return None if time is None else (time - T0).total_seconds()


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        ("a topic has a new partition", [None, [topic_id("u")], None]),
        ("a topic is gone, and another one changes hands", [None, [topic_id("u")]]),
        ("only racks changed", [None, None]),
    ],
)
def test_changed_topics_have_partitions_that_nobody_had_or_that_nobody_has_now(case: str, changed: list[Any]) -> None:
    assert [row["changed_topics"] for row in handmade()[case]] == changed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_log(case: Case) -> None:
    reported = [
        Reported(
            row["number"],
            row["cause"],
            row["outcome"],
            seconds(row["started_timestamp"]),
            seconds(row["finished_timestamp"]),
            row["slowest_member_id"],
            row["members_before"],
            row["members_after"],
        )
        for row in handmade()[case.name]
    ]
    assert reported == list(case.reported)


def test_every_cause_has_a_log() -> None:
    assert {row["cause"] for rows in handmade().values() for row in rows} == {
        *("group_type_changed", "members_changed", "member_joined", "member_left", "subscription_changed"),
        *("assignor_changed", "member_replaced", "topology_changed", "topic_metadata_changed"),
        *("share_partitions_initialized", "partitions_revoked", "unknown"),
    }


def test_a_row_says_who_when_and_where() -> None:
    row = dict(handmade()["one leaves, and the other is reported later"][-1])
    assert row.pop("offsets_partition") == [case.name for case in CASES].index(
        "one leaves, and the other is reported later"
    )
    times = {name: seconds(row.pop(name)) for name in list(row) if name.endswith("_timestamp")}
    assert times.pop("rebalance_timestamp") == 4
    assert times == {"started_timestamp": 4, "joined_timestamp": None, "assigned_timestamp": 5, "finished_timestamp": 6}
    assert row == {
        "group_id": "g",
        "group_type": "consumer",
        "number": 4,
        "cause": "member_left",
        "duration_ms": 2000,
        "outcome": "finished",
        "slowest_member_id": "a",
        "members_before": 2,
        "members_after": 1,
        "joined_member_ids": [],
        "left_member_ids": ["b"],
        "changed_topics": None,
        "log_offset": 15,
        "finished_log_offset": 17,
    }


def test_a_classic_rebalance_has_the_time_at_which_all_had_joined() -> None:
    rows = handmade()["all leave"]
    joined = [seconds(row["joined_timestamp"]) for row in rows]
    assert joined == [58, 118, None]
    assert [row["duration_ms"] for row in rows] == [None] * 3
    assert [row["joined_member_ids"] for row in rows] == [["a"], ["b"], []]
    assert [row["left_member_ids"] for row in rows] == [[], [], ["a", "b"]]


def test_a_static_member_under_another_id_neither_joined_nor_left() -> None:
    rows = handmade()["a static member replaced again and again, until its session ends"]
    assert [(row["joined_member_ids"], row["left_member_ids"]) for row in rows] == [(["a"], []), ([], ["c"])]
    *_, row = handmade()["a static member under another id, within a generation and in a new one"]
    assert (row["joined_member_ids"], row["left_member_ids"]) == ([], [])


def test_a_rebalance_without_members_takes_no_time_and_where_the_clock_is_set_back_none_is_known() -> None:
    assert [row["duration_ms"] for row in handmade()["the last one leaves"]] == [0, 0]
    assert [row["duration_ms"] for row in handmade()["the clock is set back while it lasts"]] == [0, 1500, None]


# ---- recorded logs


def versions(log: str, name: str) -> dict[tuple[int, str], list[Row]]:
    """Version rows of each group of a log, in their order."""
    found = defaultdict(list)
    for row in audited_log(log).rows(name):
        found[row["offsets_partition"], row["group_id"]].append(row)
    return found


some_logs = pytest.mark.parametrize("log", one_of(*LOGS))


@some_logs
def test_every_generation_and_every_epoch_is_reported_once(log: str) -> None:
    """Read from the records' own values, one after the other."""
    numbers = defaultdict(list)
    for row in audited_log(log).rows("group_records"):
        if row["record_type"] not in (2, 3, 11, 17) or row["value"] is None:
            continue
        value = json.loads(row["value"])
        number, has_members = value.get("generation", value.get("epoch")), bool(value.get("members", True))
        known = numbers[row["offsets_partition"], row["group_id"]]
        kind = "classic" if row["record_type"] == 2 else "modern"
        # Once more under the same number: of the same type, or converted with its members.
        again = bool(known) and known[-1][0] == number and (known[-1][1] == kind or known[-1][2])
        if again:
            known[-1] = (number, kind, has_members)
        elif number > 0:
            known.append((number, kind, has_members))
    reported = defaultdict(list)
    for row in recorded(log):
        reported[row["offsets_partition"], row["group_id"]].append(row["number"])
    assert reported == {group: [number for number, _, _ in its] for group, its in numbers.items() if its}
    assert reported or log == "share-4.3"


def causes(log: str, group_id: str) -> list[str]:
    return [row["cause"] for row in recorded(log) if row["group_id"] == group_id]


# The recordings' scripts did this to these groups.
JOINED, LEFT = "member_joined", "member_left"
DONE = {
    ("classic-4.3", "audit-1042ba"): [JOINED] * 3,
    ("classic-4.3", "billing-108845"): [JOINED, JOINED, JOINED, LEFT],  # a static one was replaced, one removed
    ("classic-4.3", "mail-110f26"): [JOINED, LEFT],
    ("classic-4.3", "report-114d60"): [JOINED, "subscription_changed"],
    ("classic-4.3", "orders-12248a"): [JOINED, JOINED, "partitions_revoked", JOINED, "partitions_revoked", LEFT],
    ("classic-4.3", "orders-12baa1"): [JOINED, LEFT],  # a session timeout
    ("classic-4.3", "shipping-12ead9"): [JOINED, LEFT],  # a session timeout
    ("kip848-4.3", "shipping-103bb0"): [JOINED, JOINED, JOINED, LEFT, "subscription_changed"],
    ("kip848-4.3", "search-11a28d"): [JOINED, "group_type_changed", LEFT, LEFT],  # an upgrade while it runs
    ("kip848-4.3", "billing-123e24"): [JOINED, JOINED, "group_type_changed"],  # a downgrade while it runs
    ("kip848-4.3", "mail-1268fb"): [JOINED, LEFT, "group_type_changed"],  # an upgrade while it was empty
    ("kip848-4.3", "search-12984d"): [JOINED, LEFT, "group_type_changed", LEFT],  # and a downgrade
    ("streams-4.3", "wordcount-104bb0"): [JOINED, "topic_metadata_changed", LEFT],  # its internal topics were made
    ("share-4.3", "shipping-1086fb"): [JOINED, "share_partitions_initialized", LEFT],
}


@pytest.mark.parametrize("recording", one_of(*{log: None for log, _ in DONE}))
def test_causes_agree_with_the_scripts_of_the_recordings(recording: str) -> None:
    for log, group_id in DONE:
        if log == recording:
            assert causes(log, group_id) == DONE[log, group_id], group_id
