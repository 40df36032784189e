"""kgroups describe, history and export-offsets on the story of a shop's groups. (made_screens.txt has small lakes.)

tests/data/story.json records what happened and why; it was written while it happened.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from pathlib import Path

import pytest

from kgroups_spark import words
from kgroups_spark.cli import describe
from kgroups_spark.coordinator import share_shard, transaction_shard
from kgroups_spark.coordinator.events import CAUSES
from kgroups_spark.words import cause_text, to_datetime
from tests.chosen import one_of
from tests.cli.story_reader import story

STORY = json.loads((Path(__file__).parents[1] / "data" / "story.json").read_text())


def offsets_of(rows):
    return {(row["topic"], row["partition"]): row["committed_offset"] for row in rows}


def before(events):
    """The offsets before these events, as the story has them."""
    return {
        (event["topic"], int(number)): offset for event in events for number, offset in event.get("before", {}).items()
    }


def test_describe_lists_all_committed_offsets_with_the_owners_of_their_partitions(rows):
    found = rows("describe --all-groups")
    committed = story().sql("SELECT group_id, topic, partition, committed_offset FROM committed_offsets")
    assert {tuple(row.values()) for row in committed} == {
        (row["group_id"], row["topic"], row["partition"], row["committed_offset"])
        for row in found
        if row["committed_offset"] is not None
    }
    assigned = {
        (member["group_id"], held["topic"], held["partition"]): member["member_id"]
        for member in story().rows("group_members")
        # One that it has to release is still its own.
        for held in [*(member["assigned_partitions"] or ()), *(member["pending_revocation_partitions"] or ())]
    }
    owners = {(row["group_id"], row["topic"], row["partition"]): row["owner_member_id"] for row in found}
    owned = {slot: owner for slot, owner in owners.items() if owner is not None}
    assert {slot: owner for slot, owner in owned.items() if slot[0] != "order-totals"} == assigned
    # Its members have tasks of a topology, and the partitions of their numbers.
    active = {
        (member["member_id"], task["partition"])
        for member in story().rows("group_members")
        for task in member["assigned_tasks"] or ()
        if task["role"] == "active"
    }
    assert {(owner, slot[2]) for slot, owner in owned.items() if slot[0] == "order-totals"} == active != set()


def test_describe_shows_the_groups_of_a_type(rows):
    found = {row["group_id"] for row in rows("describe --all-groups --state --type streams,share")}
    types = {row["group_id"]: row["group_type"] for row in story().rows("groups")}
    assert found == {name for name, group_type in types.items() if group_type in ("streams", "share")} != set()


def test_a_group_as_of_a_moment(rows):
    (reset,) = (event for event in STORY["events"] if event["what"] == "reset_backward")
    for moment, state in ((reset["at_ms"] - 1, "before"), (reset["at_ms"], "after")):
        found = rows(f"describe --group {reset['group']} --as-of {moment}")
        expected = {(reset["topic"], int(number)): offset for number, offset in reset[state].items()}
        assert offsets_of(found) == expected
        assert {row["owner_member_id"] for row in found} == {None}  # its members had left
    an_hour_earlier = rows(f"describe --group {reset['group']} --as-of {reset['at_ms'] - 3_600_000}")
    assert None not in {row["owner_member_id"] for row in an_hour_earlier}


def removals():
    """The story's events for each removal of a group, its offsets' removal included, by group and time."""
    found = defaultdict(list)
    for event in STORY["events"]:
        if event["what"] in ("group_removed", "group_deleted", "offsets_expired"):
            found[event["group"], event["at_ms"]].append(event)
    return {key: events for key, events in found.items() if any("before" not in event for event in events)}


@pytest.mark.parametrize("removal", one_of(*removals()))
def test_a_removed_group_is_dead_with_a_cause_and_its_offsets_can_be_exported(kgroups, removal):
    (group, at_ms), events = removal, removals()[removal]
    (cause,) = {event["cause"] for event in events}
    code, out, err = kgroups(f"describe --group {group} --as-of {at_ms} --format json")
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert offsets_of(found) == before(events)
    assert {row["state"] for row in found} <= {"Dead"}
    assert f"Consumer group '{group}' does not exist (Dead)" in err
    assert str(cause_text(cause)) in err
    assert to_datetime(at_ms).strftime("removed %Y-%m-%d %H:%M:%S UTC") in err
    if not found:
        assert "History has no committed offsets of it" in err
        assert "retention" not in err  # the brokers' check removes an empty group without offsets at once
        return
    (command,) = [line[line.index("kgroups export-offsets") :] for line in err.splitlines() if "export-offsets" in line]
    code, out, err = kgroups(command.removeprefix("kgroups ").removesuffix(" --output offsets.csv"))
    lines = [line.split(",") for line in out.splitlines()]
    assert {(topic, int(partition)): int(offset) for topic, partition, offset in lines} == before(events)


def test_every_event_and_cause_has_a_text():
    assert {*share_shard.EVENTS, *transaction_shard.EVENTS} < set(words.EVENTS)
    moves = {"no_members", "self_assigned", "with_members", "transaction", "topic_recreated", "unknown"}
    assert {*CAUSES, "probably_expired", *moves} <= set(words.CAUSES)
    assert cause_text("probably_left") == "it left, or Admin removed it, most likely"
    assert [cause_text(None), cause_text("of_tomorrow")] == [None, "of_tomorrow"]


def test_history_commits_lists_every_commit_with_its_outcome(rows, kgroups):
    found = rows("history --group billing-engine --commits --limit 100000")
    records = story().sql("SELECT log_offset FROM offset_commits WHERE group_id = :group", group="billing-engine")
    assert [row["log_offset"] for row in found] == sorted(row["log_offset"] for row in records)
    outcomes = {(row["outcome"], row["took_effect"]) for row in found}
    assert outcomes >= {("committed", True), ("aborted", False), ("pending", False)}


def test_csv_of_all_groups_has_every_offset_and_the_tools_that_import_them(kgroups):
    _, out, err = kgroups("export-offsets --all-groups")
    assert len(list(csv.reader(io.StringIO(out)))) == 186
    assert "kafka-streams-groups.sh --bootstrap-server HOST:PORT --group order-totals" in err
    assert "the tool prints a stack trace and goes on" in err


def test_an_existing_file_is_not_overwritten(kgroups, tmp_path):
    file = tmp_path / "offsets.csv"
    line = f"export-offsets --group nightly-settlement --output {file}"
    code, out, _ = kgroups(line)
    assert (code, out) == (0, "")
    written = file.read_text()
    assert len(written.splitlines()) == 3
    code, _, err = kgroups(line)
    assert code == 2
    assert "already exists: name another file, or remove it" in err
    assert file.read_text() == written


def test_a_file_in_a_missing_folder_is_bad_usage(kgroups, tmp_path):
    code, out, err = kgroups(f"export-offsets --group nightly-settlement --output {tmp_path}/no/offsets.csv")
    assert (code, out) == (2, "")
    assert err == f"kgroups: --output {tmp_path}/no/offsets.csv: no folder {tmp_path}/no; create it first\n"


def test_json_has_the_promised_columns(rows):
    for options, names in (
        ("", describe.COLUMNS["offsets"]),
        ("--members", describe.COLUMNS["members"]),
        ("--state", describe.COLUMNS["state"]),
    ):
        found = rows(f"describe --all-groups {options}")
        assert {tuple(row) for row in found} == {tuple(names)}
