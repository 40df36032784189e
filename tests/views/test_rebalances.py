"""View rebalances over recorded logs, against the state machine and their stories; rebalances.txt has its cases."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache

import pytest

from tests.chosen import one_of
from tests.logs.corpora import ANSWERS
from tests.views.arrow_tables import in_duckdb
from tests.views.recorded import LOGS, STORY, audited_log, tables_of

ALL = "SELECT * FROM rebalances ORDER BY offsets_partition, group_id, log_offset"


@cache
def recorded(log):
    with in_duckdb(tables_of(log)) as connection:
        return connection.sql(ALL).to_arrow_table().to_pylist()


def versions(log, name):
    """Version rows of each group of a log, in their order."""
    found = defaultdict(list)
    for row in audited_log(log).rows(name):
        found[row["offsets_partition"], row["group_id"]].append(row)
    return found


some_logs = pytest.mark.parametrize("log", one_of(*LOGS))


@some_logs
def test_every_generation_and_every_epoch_is_reported_once(log):
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


@some_logs
def test_a_consumer_group_has_finished_when_the_coordinator_calls_it_stable(log):
    """Stable, or Empty, for the first time at the epoch: what the state machine makes of all members together. Unless
    it was the last one behind that left: a record later the next epoch begins."""
    states, members = versions(log, "group_versions"), versions(log, "group_member_versions")
    for row in recorded(log):
        if row["group_type"] != "consumer":
            continue
        group = (row["offsets_partition"], row["group_id"])
        left = {version["log_offset"] for version in members[group] if version["is_removed"]}
        behind = [version for version in states[group] if version["log_offset"] >= row["log_offset"]]
        epoch = []
        for version in behind:
            if version["is_removed"] or version["group_epoch"] != row["number"]:
                break
            epoch.append(version)
        ends = [v for v in epoch if v["state"] in ("Stable", "Empty") and v["log_offset"] not in left]
        assert row["finished_log_offset"] == (ends[0]["log_offset"] if ends else None)
        assert row["finished_timestamp"] == (ends[0]["log_timestamp"] if ends else None)
        at_once = ends and ends[0]["state"] == "Empty"
        assert (row["slowest_member_id"] is None) == (not ends or at_once)
        assigned = [v["log_timestamp"] for v in epoch if v["assignment_epoch"] == row["number"]]
        assert row["assigned_timestamp"] == (assigned[0] if assigned else None)
        assert row["outcome"] == ("finished" if ends else "running" if len(epoch) == len(behind) else row["outcome"])
        assert row["outcome"] in ("finished", "running", "superseded", "removed")


@some_logs
def test_members_that_joined_and_left_agree_with_their_versions(log):
    """Members by their versions, at one rebalance and at the next. A static member under another id is the same."""
    members = versions(log, "group_member_versions")
    static = {v["member_id"]: v["group_instance_id"] for each in members.values() for v in each if not v["is_removed"]}
    before = {}
    for row in recorded(log):
        group = (row["offsets_partition"], row["group_id"])
        there = set()
        for version in members[group]:
            if version["log_offset"] <= row["log_offset"]:
                (there.discard if version["is_removed"] else there.add)(version["member_id"])
        assert row["members_after"] == len(there)
        if row["members_before"] is not None:
            was_there = before.get(group, set()) if row["members_before"] else set()
            assert row["members_before"] == len(was_there)
            joined, left = set(row["joined_member_ids"]), set(row["left_member_ids"])
            came, went = there - was_there, was_there - there
            stayed = {static[member] for member in came} & {static[member] for member in went} - {None}
            came, went = ({member for member in each if static[member] not in stayed} for each in (came, went))
            assert (joined - left, left - joined) == (came, went)
        before[group] = there


def causes(log, group_id):
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
def test_causes_agree_with_the_scripts_of_the_recordings(recording):
    for log, group_id in DONE:
        if log == recording:
            assert causes(log, group_id) == DONE[log, group_id], group_id


def test_a_rebalance_that_waits_for_a_member_is_still_running():
    (row,) = [row for row in recorded("kip848-4.3") if row["outcome"] == "running"]
    assert row["group_id"] == "ledger-1363b6"
    assert ANSWERS["kip848-4.3"]["groups"]["ledger-1363b6"]["state"] == "Reconciling"


# The causes that may be reported of each kind of event in the story.
STORY_CAUSES = {
    "started": {JOINED},
    "visitor": {JOINED, LEFT},
    "deploy": {JOINED, LEFT, "member_replaced"},
    "unsubscribed": {JOINED, LEFT},  # by a deploy, whose members subscribe to less
    "member_flaps": {JOINED, LEFT},
    "member_lost": {JOINED, LEFT},
    "stopped": {LEFT},
    "last_member_left": {LEFT},
    "upgraded": {JOINED, LEFT, "group_type_changed"},
    "downgraded": {JOINED, LEFT, "group_type_changed"},
    "instance_fenced": {"member_replaced"},
    # Consumers of the classic protocol said that they no longer subscribe to the deleted topic. That one has a new id
    # that their records do not have.
    "reassigned": {"subscription_changed", "topic_metadata_changed", "unknown"},
}


# Causes in the last hour: two pods fight over a static member, two members join.
LAST_HOUR = {"fraud-scoring": {"member_replaced"}, "returns-sync": {JOINED}}


def test_every_rebalance_of_the_story_is_reported_and_no_other():
    events = {(e["offsets_partition"], place): e for e in STORY["events"] for place in e["log_offsets"]}
    reported = defaultdict(set)
    for row in recorded("story"):
        event = events.get((row["offsets_partition"], row["log_offset"]))
        if event is None:
            assert row["cause"] in LAST_HOUR[row["group_id"]]
            continue
        assert event["group"] == row["group_id"]
        assert row["cause"] in STORY_CAUSES[event["what"]], (event, row)
        reported[event["scene"]].add(row["cause"])
    # None joined or left: committed without members, and static members that came back, of which KIP-848 makes none.
    quiet = {e["scene"] for e in STORY["events"] if e["cause"] == "assign and commit, no members"}
    quiet |= {e["scene"] for e in STORY["events"] if (e["what"], e["group"]) == ("deploy", "payments-monitor-b")}
    scenes = {event["scene"] for event in STORY["events"] if event["what"] in STORY_CAUSES and event["log_offsets"]}
    assert scenes - quiet == set(reported)
    by_what = defaultdict(set)
    for event in STORY["events"]:
        by_what[event["what"]] |= reported[event["scene"]]
    assert by_what["upgraded"] >= {"group_type_changed"} and by_what["downgraded"] >= {"group_type_changed"}
    assert by_what["instance_fenced"] == {"member_replaced"}


@pytest.mark.parametrize("log", LOGS)
def test_every_rebalance_of_every_group_type_has_one_time(log):
    """Where its record has one: message format 0 has none."""
    for row in recorded(log):
        times = (row["started_timestamp"], row["finished_timestamp"])
        assert row["rebalance_timestamp"] == next((time for time in times if time is not None), None)
        assert row["rebalance_timestamp"] is not None or log.startswith("legacy")
