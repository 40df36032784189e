"""kgroups describe, history and export-offsets on the story of a shop's groups, and on a few rows made for a case.

tests/data/story.json records what happened and why; it was written while it happened.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark import words
from kgroups_spark.cli import describe
from kgroups_spark.coordinator import share_shard, transaction_shard
from kgroups_spark.coordinator.events import CAUSES
from kgroups_spark.words import cause_text, parse_time, to_datetime
from tests.chosen import one_of
from tests.cli.group_questions import (
    PLACE,
    SHARE,
    TRANSACTION,
    committed,
    gone,
    gone_piece_by_piece,
    group,
    reader_of,
    removal,
    second,
    share_group,
)
from tests.cli.story_reader import ArrowReader, story
from tests.cli.written_lake import waiting

STORY = json.loads((Path(__file__).parents[1] / "data" / "story.json").read_text())


def headings(out: str) -> list[str]:
    return out.splitlines()[0].replace(" (UTC)", "").replace(" (ID)", "").split()


def offsets_of(rows: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["partition"]): row["committed_offset"] for row in rows}


def before(events: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    """The offsets before these events, as the story has them."""
    return {
        (event["topic"], int(number)): offset for event in events for number, offset in event.get("before", {}).items()
    }


def test_describe_lists_all_committed_offsets_with_the_owners_of_their_partitions(rows: Any) -> None:
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


def test_describe_shows_the_groups_of_a_type(rows: Any) -> None:
    found = {row["group_id"] for row in rows("describe --all-groups --state --type streams,share")}
    types = {row["group_id"]: row["group_type"] for row in story().rows("groups")}
    assert found == {name for name, group_type in types.items() if group_type in ("streams", "share")} != set()


def test_a_partition_without_a_committed_offset_has_its_log_end(rows: Any) -> None:
    """As in Kafka's tool, for members that have not committed yet."""
    pending = {"offsets_partition": 3, "group_id": "g", "topic": "t", "producer_id": 7, "committed_offset": 5}
    ends = [{"audit_id": audit, "topic": "t", "partition": 0, "log_end_offset": 30 + audit} for audit in (1, 2)]
    reader = reader_of(
        groups=[group(3)], pending_offsets=[pending | {"partition": at} for at in (0, 1)], topic_offsets=ends
    )
    found = rows("describe --group g", reader)
    assert [(row["partition"], row["committed_offset"], row["log_end_offset"], row["lag"]) for row in found] == [
        (0, None, 32, None),
        (1, None, None, None),
    ]


@pytest.mark.parametrize(
    ("offset", "committed_in", "shown", "notes"),
    [
        (40, 1, "40 30 -10 yes", ["WILL-RESET"]),  # beyond the end
        (9, 1, "9 30 21 1 yes", ["WILL-RESET"]),  # below the start
        (-1, 1, "- 30 - yes", ["WILL-RESET"]),
        (30, 1, "30 30 0", []),
        (10, 1, "10 30 20", []),
        (40, 9, "40 30 -10", ["LAG is negative"]),  # the log has grown since
    ],
)
def test_an_offset_that_its_topics_log_does_not_have_is_marked(
    offset: int, committed_in: int, shown: str, notes: list[str], kgroups: Any, rows: Any
) -> None:
    end = {"topic": "t", "partition": 0, "log_start_offset": 10, "log_end_offset": 30, "seen_at": to_datetime(5000)}
    reader = reader_of(
        groups=[group(3)],
        committed_offsets=[committed(3, offset, to_datetime(1000 * committed_in))],
        topic_offsets=[{"audit_id": 1, **end}],
    )
    _, out, err = kgroups("describe --group g", reader)
    heading, row = out.splitlines()
    marked = [*["LOST"] * (offset == 9), *["WILL-RESET"] * ("yes" in shown)]
    assert heading.split()[3:8] == ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", *marked, "CONSUMER-ID", "HOST"][:5]
    assert " ".join(row.split()[3 : 3 + len(shown.split())]) == shown
    assert [note for note in ("WILL-RESET", "LAG is negative") if note in err] == notes
    (as_json,) = rows("describe --group g", reader)
    will_reset = True if marked else None if committed_in == 9 else False
    assert (as_json["committed_offset"], as_json["will_reset"]) == (offset, will_reset)


@pytest.mark.parametrize(
    ("decision", "offsets", "options", "is_said"),
    [
        ("delete", 0, "", True),
        ("keep", 0, "", False),  # a share group, or a transaction
        ("delete", 1, "", False),  # its last offset goes at that check, too
        ("delete", 0, " --as-of 1970-01-01T00:00:09Z", False),
    ],
)
def test_a_group_without_committed_offsets_goes_at_the_next_check(
    decision: str, offsets: int, options: str, is_said: bool, kgroups: Any
) -> None:
    reader = reader_of(
        groups=[group(3)],
        group_versions=[group(3, log_offset=0, **PLACE)],
        committed_offsets=[committed(3, 5, to_datetime(1))] * offsets,
        group_expiry=[{"offsets_partition": 3, "group_id": "g", "decision": decision}],
    )
    _, _, err = kgroups(f"describe --group g{options}", reader)
    assert ("the brokers delete it at their next check" in err) is is_said
    assert "has no active members" in err


def test_a_share_group_as_of_a_moment_has_its_stored_start_offsets(rows: Any, kgroups: Any) -> None:
    """The log end offsets of its topics are not known as of a moment, so there is no lag."""
    reader = share_group()
    for at, expected in ((4, [20, 30]), (5, [27, 30]), (7, [27, 38])):
        found = rows(f"describe --group g --as-of {at * 1000 + 1_000_000_000_000}", reader)
        assert [(row["topic"], row["partition"], row["committed_offset"]) for row in found] == [
            ("orders", number, offset) for number, offset in enumerate(expected)
        ]
        assert {(row["lag"], row["log_end_offset"], row["will_reset"]) for row in found} == {(None, None, None)}


@pytest.mark.parametrize(
    ("at", "reader", "offsets_and_lags", "note"),
    [
        (5, {}, "27 - 30 -", None),
        (2, {}, "- - - -", "whose history begins later"),
        (9, {}, "27 - 38 -", "START-OFFSET comes from the newest record of __share_group_state that was read"),
        (5, {"records_lost": 1}, "27 - 30 -", "__share_group_state lost records before they were read"),
        (5, {"is_read": False}, "- - - -", "which was not read"),
        (None, {"is_read": False}, "- - - -", "which was not read"),
        (None, {"records_lost": 1}, "27 13 38 1", None),
        (None, {"start_offset": -(2**63)}, f"{-(2**63)} - 38 1", None),
    ],
)
def test_describe_notes_the_limits_of_a_share_groups_start_offsets(
    at: int | None, reader: dict[str, Any], offsets_and_lags: str, note: str | None, kgroups: Any
) -> None:
    as_of = "" if at is None else f" --as-of {at * 1000 + 1_000_000_000_000}"
    _, out, err = kgroups(f"describe --group g{as_of}", share_group(**reader))
    reported = [line.split()[-2:] for line in out.splitlines()[1:]]
    assert [*reported[0], *reported[1]] == offsets_and_lags.split()
    notes = [line for line in err.splitlines() if "START-OFFSET" in line]
    assert notes == [] if note is None else [note in line for line in notes] == [True]


def test_a_group_as_of_a_moment(rows: Any) -> None:
    (reset,) = (event for event in STORY["events"] if event["what"] == "reset_backward")
    for moment, state in ((reset["at_ms"] - 1, "before"), (reset["at_ms"], "after")):
        found = rows(f"describe --group {reset['group']} --as-of {moment}")
        expected = {(reset["topic"], int(number)): offset for number, offset in reset[state].items()}
        assert offsets_of(found) == expected
        assert {row["owner_member_id"] for row in found} == {None}  # its members had left
    an_hour_earlier = rows(f"describe --group {reset['group']} --as-of {reset['at_ms'] - 3_600_000}")
    assert None not in {row["owner_member_id"] for row in an_hour_earlier}


def removals() -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The story's events for each removal of a group, its offsets' removal included, by group and time."""
    found = defaultdict(list)
    for event in STORY["events"]:
        if event["what"] in ("group_removed", "group_deleted", "offsets_expired"):
            found[event["group"], event["at_ms"]].append(event)
    return {key: events for key, events in found.items() if any("before" not in event for event in events)}


@pytest.mark.parametrize("removal", one_of(*removals()))
def test_a_removed_group_is_dead_with_a_cause_and_its_offsets_can_be_exported(
    kgroups: Any, removal: tuple[str, int]
) -> None:
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


def test_missing_or_contradictory_options_are_bad_usage(kgroups: Any) -> None:
    assert kgroups("describe")[0] == kgroups("history --all-groups --group a")[0] == 2
    assert kgroups("describe --group a --members --state")[0] == 2
    assert kgroups("history --group a --topic orders:x")[0] == 2
    assert kgroups("history --group a --limit 0")[0] == 2
    assert kgroups("history --group invoice-export --since 2026-11-02 --until 2026-11-01")[0] == 2


def test_every_event_and_cause_has_a_text() -> None:
    assert {*share_shard.EVENTS, *transaction_shard.EVENTS} < set(words.EVENTS)
    moves = {"no_members", "self_assigned", "with_members", "transaction", "topic_recreated", "unknown"}
    assert {*CAUSES, "probably_expired", *moves} <= set(words.CAUSES)
    assert cause_text("probably_left") == "it left, or Admin removed it, most likely"
    assert [cause_text(None), cause_text("of_tomorrow")] == [None, "of_tomorrow"]


def test_history_is_in_order_and_limit_keeps_the_newest_events(rows: Any, kgroups: Any) -> None:
    everything = rows("history --group packing-tasks --limit 1000")
    places = [(row["log_offset"], row["event_index"]) for row in everything]
    assert places == sorted(places)
    assert len(places) == 42
    assert rows("history --group packing-tasks --limit 5") == everything[-5:]
    _, _, err = kgroups("history --group packing-tasks --limit 5")
    assert "5 of 42 events, the newest (--limit 42 shows all)" in err
    several = rows("history --group packing-tasks --group crm-bridge --limit 1000")
    assert [row for row in several if row["group_id"] == "packing-tasks"] == everything
    times = [row["log_timestamp"] for row in several]
    assert times == sorted(times)
    assert {row["group_id"] for row in several} == {"packing-tasks", "crm-bridge"}


def test_a_topic_chooses_the_events_of_its_partitions(rows: Any) -> None:
    everything = rows("history --group customer-360 --limit 1000")
    chosen = rows("history --group customer-360 --topic orders:0,5 --topic customer-profiles --limit 1000")
    assert chosen == [
        row
        for row in everything
        if row["topic"] == "customer-profiles" or (row["topic"] == "orders" and row["partition"] in (0, 5))
    ]
    assert {row["partition"] for row in chosen if row["topic"] == "orders"} == {0, 5}


def test_history_commits_lists_every_commit_with_its_outcome(rows: Any, kgroups: Any) -> None:
    found = rows("history --group billing-engine --commits --limit 100000")
    records = story().sql("SELECT log_offset FROM offset_commits WHERE group_id = :group", group="billing-engine")
    assert [row["log_offset"] for row in found] == sorted(row["log_offset"] for row in records)
    outcomes = {(row["outcome"], row["took_effect"]) for row in found}
    assert outcomes >= {("committed", True), ("aborted", False), ("pending", False)}


def test_a_long_metadata_is_whole_in_json_and_its_length_in_a_table(kgroups: Any, rows: Any) -> None:
    texts = ["", "x" * 100, "y" * 4000]
    commits = [
        committed(3, 5, second(1), partition=n, metadata=text, log_offset=n, record_type=1, value_version=3) | PLACE
        for n, text in enumerate(texts)
    ]
    reader = reader_of(offset_commits=commits, group_traffic=[{"group_id": "g", "offsets_partition": 3}])
    code, out, err = kgroups("history --group g --commits", reader)
    assert code == 0, err
    assert [line.split("  ")[-1].strip() for line in out.splitlines()[1:]] == ["-", texts[1], "(4,000 characters)"]
    assert [row["metadata"] for row in rows("history --group g --commits", reader)] == texts


def split_group() -> ArrowReader:
    """`g` hashes to partition 3 of 50; the other groups show that there are 50."""
    count = [group(21, group_id="y", is_misplaced=False), group(48, group_id=chr(0x130), is_misplaced=False)]
    return reader_of(
        groups=[group(3, is_misplaced=False), group(7, is_misplaced=True), *count],
        group_versions=[group(3, **PLACE)],
        committed_offsets=[committed(3, 5, to_datetime(1)), committed(7, 9, to_datetime(2))],
    )


def test_describe_shows_a_group_in_two_offsets_partitions_as_two_tables(kgroups: Any) -> None:
    code, out, err = kgroups("describe --group g", split_group())
    assert code == 0
    first, second = out.split("\n\n")
    assert [headings(table)[-1] for table in (first, second)] == ["OFFSETS-PARTITION"] * 2
    assert first.split()[-1] == "3"
    assert "'g' in offsets partition 3, where its name belongs:" in err
    assert "'g' in offsets partition 7, where its name does not belong: clients do not find it there:" in err


@pytest.mark.parametrize("command", ["groups", "describe --group g --group y --state", "expiring --if-empty"])
def test_a_group_in_two_offsets_partitions_counts_once(command: str, kgroups: Any) -> None:
    names = ("y", "g") if command != "groups" else ("y", chr(0x130), "g")
    reader = split_group()
    reader.tables["offset_expiry"] = waiting(reader.tables["committed_offsets"])
    code, out, err = kgroups(command, ArrowReader(reader.tables, to_datetime(3)))
    assert code == 0
    of_g = [line for line in out.splitlines() if "g" in line.split()]
    assert len(of_g) == 2
    count = 1 if command.startswith("expiring") else len(names)
    assert f"{count} group{'' if count == 1 else 's'} " in err


@pytest.mark.parametrize(
    ("tables", "reported"),
    [
        ({}, "it has none"),
        ({"group_versions": [group(3, **PLACE, log_offset=1)]}, "it has 1 other, kgroups groups lists the current"),
    ],
)
def test_a_log_without_the_group_says_how_many_others_it_has(
    tables: dict[str, Any], reported: str, kgroups: Any
) -> None:
    code, _, err = kgroups("describe --group orders-etl", reader_of(**tables))
    assert code == 1
    assert f"no group 'orders-etl' in the log (audit 1, as of 1970-01-01 00:00:10 UTC); {reported}" in err


def test_a_group_in_two_offsets_partitions_is_exported_from_the_newer_commit(kgroups: Any) -> None:
    code, out, err = kgroups("export-offsets --group g", split_group())
    assert (code, out) == (0, "t,0,9\n")
    assert "left out: group 'g', t-0: 5 in offsets partition 3: another one has a newer commit" in err
    assert "1 offset of 1 group" in err


def test_export_passes_over_what_kafkas_tool_refuses(kgroups: Any) -> None:
    """A negative offset counts neither where another offsets partition has one that is older, nor alone."""
    rows = [committed(3, -1, to_datetime(2)), committed(7, 9, None), committed(8, -1, None, partition=1)]
    names = ("plain", 'a, "b"', "two\nlines")
    rows += [committed(3, 5, None, group_id=name, partition=number) for number, name in enumerate(names)]
    code, out, err = kgroups("export-offsets --all-groups", reader_of(committed_offsets=rows))
    assert (code, out) == (0, '"a, ""b""",t,1,5\ng,t,0,9\nplain,t,0,5\n')
    assert err.splitlines()[:3] == [
        "left out: group 'g', t-0: Kafka's tool takes no negative offset (-1)",
        "left out: group 'g', t-1: Kafka's tool takes no negative offset (-1)",
        "left out: group 'two\\nlines', t-2: Kafka's tool cannot read a name with a line feed in it",
    ]
    assert "3 offsets of 3 groups" in err


def test_twenty_groups_are_named_for_each_tool(kgroups: Any) -> None:
    rows = [committed(3, 5, None, group_id=f"g{number:02}") for number in range(25)]
    streams = [group(3, group_id="g07", group_type="streams", is_misplaced=False)]
    _, _, err = kgroups("export-offsets --all-groups", reader_of(committed_offsets=rows, groups=streams))
    consumer, of_streams = (line for line in err.splitlines() if "--reset-offsets" in line)
    assert consumer.count("--group g") == 20 and "--group ... (4 more)" in consumer
    assert of_streams.startswith("  kafka-streams-groups.sh --bootstrap-server HOST:PORT --group g07 --reset-offsets")


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


def test_history_has_a_groups_events_from_all_three_logs(rows: Any, kgroups: Any) -> None:
    reported = rows("history --group g", three_logs())
    assert [(row["event"], row["topic"], row["partition"], row["transactional_id"]) for row in reported] == [
        ("offset_removed", "t", 0, None),
        ("share_partition_initialized", "orders", 0, None),
        ("transaction_timed_out", None, None, "id-7"),
        ("producer_fenced", None, None, "id-7"),
        ("share_offset_reset", "orders", 0, None),
        ("share_offsets_deleted", "orders", 1, None),
    ]
    assert [row["log"] for row in reported][:3] == ["__consumer_offsets", SHARE, TRANSACTION]
    assert {row["group_type"] for row in reported if row["log"] == SHARE} == {"share"}
    everything = rows("history --all-groups", three_logs())
    assert [(row["group_id"], row["transactional_id"]) for row in everything if row["event"] == "producer_fenced"] == [
        ("g", "id-7"),
        ("h", "id-7"),
        (None, "id-8"),
    ]
    _, out, _ = kgroups("history --group g --topic orders:0", three_logs())
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines()]
    assert lines[1:] == [
        ["2001-09-09 01:46:42", "share partition initialized", "orders-0", "-", "state epoch 1", "-"],
        ["2001-09-09 01:46:45", "share partition reset", "orders-0", "offset 9", "offset 4", "-"],
    ]


def test_offsets_without_a_group_are_reported(kgroups: Any) -> None:
    orphan = reader_of(
        committed_offsets=[committed(3, 5, to_datetime(1), is_orphan=True)],
        group_traffic=[{"group_id": "g", "offsets_partition": 3}],
    )
    code, out, err = kgroups("describe --group g", orphan)
    assert (code, len(out.splitlines())) == (0, 2)
    assert "does not exist (Dead), but has offsets" in err


def test_describe_shows_offsets_that_expired_one_by_one_except_those_of_a_deleted_topic(rows: Any) -> None:
    found = rows("describe --group g", gone_piece_by_piece())
    assert offsets_of(found) == {("t", 0): 51, ("t", 1): 52}
    assert {parse_time(row["as_of"]) for row in found} == {10**12 + 2999}


def test_a_removal_without_events_has_an_unknown_cause(kgroups: Any) -> None:
    code, _, err = kgroups("describe --group g", gone(removed_at=None, events=[]))
    assert code == 0
    assert "When and why it was removed is unknown" in err
    code, _, err = kgroups("describe --group g", gone(removed_at=second(4), events=[]))
    assert "removed 2001-09-09 01:46:44 UTC, the cause is unknown, as the lake has no events of that time" in err


def test_csv_of_all_groups_has_every_offset_and_the_tools_that_import_them(kgroups: Any) -> None:
    _, out, err = kgroups("export-offsets --all-groups")
    assert len(list(csv.reader(io.StringIO(out)))) == 186
    assert "kafka-streams-groups.sh --bootstrap-server HOST:PORT --group order-totals" in err
    assert "the tool prints a stack trace and goes on" in err


def test_an_existing_file_is_not_overwritten(kgroups: Any, tmp_path: Path) -> None:
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


def test_a_dash_is_stdout(kgroups: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert kgroups("export-offsets --group nightly-settlement --output -") == kgroups(
        "export-offsets --group nightly-settlement"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_a_missing_folder_is_bad_usage(kgroups: Any, tmp_path: Path) -> None:
    code, out, err = kgroups(f"export-offsets --group nightly-settlement --output {tmp_path}/no/offsets.csv")
    assert (code, out) == (2, "")
    assert err == f"kgroups: --output {tmp_path}/no/offsets.csv: no folder {tmp_path}/no; create it first\n"


def test_an_offset_that_cannot_be_exported_is_not_called_missing(kgroups: Any) -> None:
    place = {"log_offset": 0, "record_type": 1, "value_version": 3, **PLACE}
    row = committed(3, -1, to_datetime(1))
    versions = [group(3, log_offset=0, **PLACE)]
    reader = reader_of(group_versions=versions, committed_offsets=[row], offset_commits=[row | place])
    code, out, err = kgroups("export-offsets --group g", reader)
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "left out: group 'g', t-0: Kafka's tool takes no negative offset (-1)",
        "kgroups: Kafka's tool takes none of the offsets (audit 1, as of 1970-01-01 00:00:10 UTC); nothing was written",
    ]


@pytest.mark.parametrize(
    ("options", "is_noted"),
    [
        ("--group g", True),
        ("--group g --commits --until 2001-09-09", True),
        ("--group g --since '2001-09-09 01:46:42Z'", True),
        ("--group g --since '2001-09-09 01:46:42.001Z'", False),
        ("--all-groups", True),
        ("--group other", False),
    ],
)
def test_history_notes_which_part_of_it_has_been_reduced(options: str, is_noted: bool, kgroups: Any) -> None:
    """Without a note nothing would seem to have happened before maintain --keep."""
    facts = {"record_type": 1, "value_version": 3, "audit_id": 1}
    commits = [committed(3, at, second(at), log_offset=at, log_timestamp=second(at), **facts) for at in (1, 2, 3)]
    kept = [
        {"offsets_partition": 3, "log_offset": at, "reason": reason, "log": log}
        for at, reason, log in ((2, "keep", None), (3, "keep", None), (4, "night", None), (4, "keep", SHARE))
    ]
    kept.append({"offsets_partition": 5, "log_offset": 9, "reason": "night"})
    versions = [group(3, log_offset=1, **PLACE), group(5, group_id="other", log_offset=1, **PLACE)]
    reader = reader_of(offset_commits=commits, group_versions=versions, checkpoints=kept)
    code, _, err = kgroups(f"history {options}", reader)
    note = (
        "history up to 2001-09-09 01:46:42 UTC has been reduced (kgroups maintain --keep): events up to then are gone, "
        "and all but the last commit of each partition"
    )
    assert (code, note in err, "reduced" in err) == (0, is_noted, is_noted)


def test_json_has_the_promised_columns(rows: Any) -> None:
    for options, names in (
        ("", describe.COLUMNS["offsets"]),
        ("--members", describe.COLUMNS["members"]),
        ("--state", describe.COLUMNS["state"]),
    ):
        found = rows(f"describe --all-groups {options}")
        assert {tuple(row) for row in found} == {tuple(names)}


FIRST_ASSIGNORS = {
    "uniform,range": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
    "com.shop.OurAssignor,uniform": "-",
}


@pytest.mark.parametrize("assignors", FIRST_ASSIGNORS)
def test_a_live_audit_knows_the_coordinator_and_the_assignor_that_no_member_names(
    assignors: str, kgroups: Any, rows: Any
) -> None:
    facts = [
        {"audit_id": 1, "kind": "leader", "name": "3", "value": "one:9092", "broker": 1},
        {"audit_id": 2, "kind": "leader", "name": "3", "value": "two:9092", "broker": 2},
        {"audit_id": 2, "kind": "broker_config", "name": "group.consumer.assignors", "value": assignors, "broker": 2},
        {"audit_id": 2, "kind": "broker_config", "name": "group.consumer.session.timeout.ms", "value": "45000"},
    ]
    member = {"offsets_partition": 3, "group_id": "g", "member_id": "m"}
    reader = reader_of(
        groups=[group(3, group_type="consumer"), group(4, group_id="h")], group_members=[member], cluster_facts=facts
    )
    _, out, _ = kgroups("describe --all-groups --state", reader)
    assert [line.split()[:5] for line in out.splitlines()[1:]] == [
        ["g", "two:9092", "(2)", FIRST_ASSIGNORS[assignors], "Empty"],
        ["h", "-", "-", "Empty", "0"],
    ]
    (as_json,) = rows("describe --group g --members", reader)
    assert (as_json["session_timeout_ms"], as_json["heartbeat_interval_ms"]) == (45000, None)
    at = " --as-of 1970-01-01T00:00:09Z"
    past = reader_of(group_versions=[group(3, log_offset=0, **PLACE, group_type="consumer")], cluster_facts=facts)
    (then,) = rows(f"describe --group g --state{at}", past)
    assert (then["coordinator"], then["strategy"]) == (None, None)
