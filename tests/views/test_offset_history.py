"""Views of the past: offset_history, partition_owners, transactions and the histories of groups and members."""

from __future__ import annotations

from functools import cache

import pytest

from tests.lake.table_rows import rows_of as table_rows
from tests.views.arrow_tables import in_duckdb, rows_of
from tests.views.history_logs import SOME_LOGS, Owner, history_log, plain
from tests.views.outcome_cases import Record, at, lines_of, records

every_log = pytest.mark.parametrize("name", SOME_LOGS)
TIMES = ("effective_timestamp", "valid_to")


@cache
def history(log):
    rows = rows_of(log.views, "SELECT * FROM offset_history")
    return [row | {name: plain(row[name]) for name in TIMES} for row in rows]


def slot(row):
    return row["group_id"], row["topic"], row["partition"]


@every_log
def test_every_record_is_in_history_once_and_unchanged(name):
    log = history_log(name)
    columns = [
        column for column in log.tables["offset_commits"].column_names if column not in ("outcome", "marker_offset")
    ]
    query = f"SELECT {', '.join(columns)} FROM"
    assert rows_of(log.views, f"{query} offset_history") == rows_of(log.views, f"{query} offset_commits")


@every_log
def test_the_producers_next_marker_decides_the_outcome_of_an_offset(name):
    log = history_log(name)
    records = {(p, row.log_offset): row for p, each in log.replayed.partitions.items() for row in each.rows}
    for row in history(log):
        reported = row["outcome"], row["marker_offset"]
        if row["producer_id"] is None:
            assert reported == (None, None)
            continue
        partition = log.replayed.partitions[row["offsets_partition"]]
        marker = partition.marker_of(records[row["offsets_partition"], row["log_offset"]])
        assert reported == ("pending", None) if marker is None else (marker.outcome, marker.log_offset), row


def chain(effects, began):
    """By log offset, each record that took effect in a slot: its place, its time, the offset committed before it, and
    when the next one replaced it. Where no time is known, that is when the last audit `began`."""
    reported = {}
    for number, effect in enumerate(effects):
        later = [each.timestamp for each in effects[number + 1 :]]
        known = [time for time in later if time is not None]
        own = began if effect.timestamp is None else effect.timestamp
        until = None if not later else known[0] if known else own
        reported[effect.log_offset] = (effect.place, effect.timestamp, effect.previous, until)
    return reported


@every_log
def test_records_that_took_effect_are_those_that_a_replay_committed_or_removed(name):
    log = history_log(name)
    began = plain(log.audited.newest.started_at)
    for number, partition in log.replayed.partitions.items():
        expected = {each: chain(effects, began) for each, effects in partition.effects.items()}
        said = {}
        for row in history(log):
            if row["offsets_partition"] != number:
                continue
            if row["took_effect"]:
                columns = ("effective_log_offset", "effective_timestamp", "previous_committed_offset", "valid_to")
                said.setdefault(slot(row), {})[row["log_offset"]] = tuple(row[column] for column in columns)
            else:
                assert (row["previous_committed_offset"], row["valid_to"]) == (None, None)
                assert (row["effective_log_offset"] is not None) == (row["outcome"] in (None, "committed"))
        assert said == expected


def place(row):
    return int(row["log_offset"] if row["effective_log_offset"] is None else row["effective_log_offset"])


@every_log
def test_the_owner_is_the_member_that_the_partition_was_assigned_to_then(name):
    log = history_log(name)
    for row in history(log):
        owners = log.replayed.partitions[row["offsets_partition"]].owners_at(slot(row), place(row))
        said = (row["owner_member_id"], row["owner_client_id"], row["owner_client_host"])
        assert said in owners if owners else said == (None, None, None), row


@every_log
def test_spans_of_owners_equal_those_of_a_replay(name):
    log = history_log(name)
    said = []
    for row in rows_of(log.views, "SELECT * FROM partition_owners"):
        owner = Owner(row.pop("member_id"), row.pop("client_id"), row.pop("client_host"))
        values = [plain(value) for value in row.values()]
        said.append((*values[:5], owner, *values[5:]))
    expected = [tuple(span) for each in log.replayed.partitions.values() for span in each.spans()]
    assert sorted(said, key=repr) == sorted(expected, key=repr)


@every_log
def test_transactions_equal_those_of_a_replay(name):
    """Only `__transaction_state` knows their transactional ids, and none of these logs comes with it."""
    log = history_log(name)
    said = [tuple(map(plain, row.values())) for row in rows_of(log.views, "SELECT * FROM transactions")]
    expected = [(number, *row, None) for number, each in log.replayed.partitions.items() for row in each.transactions()]
    assert sorted(said, key=repr) == sorted(expected, key=repr)


@every_log
@pytest.mark.parametrize("what", ["group", "group_member"])
def test_versions_follow_each_other(name, what):
    """The next row of the same group or member begins where one ends, or at the next time that is known."""
    log = history_log(name)
    rows = rows_of(log.views, f"SELECT * FROM {what}_history")
    versions = [{key: value for key, value in row.items() if key not in ("valid_from", "valid_to")} for row in rows]
    # A removal names its member, which its record does not.
    named = dict.fromkeys(("group_instance_id", "client_id", "client_host"))
    versions = [row | named if what == "group_member" and row["is_removed"] else row for row in versions]
    assert sorted(map(repr, versions)) == sorted(map(repr, rows_of(log.views, f"SELECT * FROM {what}_versions")))
    by_key = {}
    for row in sorted(rows, key=lambda row: row["log_offset"]):
        by_key.setdefault((row["offsets_partition"], row["group_id"], row.get("member_id")), []).append(row)
    for of_one in by_key.values():
        times = [row["log_timestamp"] for row in of_one]
        assert [row["valid_from"] for row in of_one] == times
        for number, row in enumerate(of_one):
            later = times[number + 1 :]
            known = [time for time in later if time is not None]
            assert row["valid_to"] == (None if not later else known[0] if known else times[number])


@pytest.mark.parametrize(("log", "rows"), [cells[1:] for cells in lines_of("offset_history.txt")])
def test_the_outcome_of_each_record_of_one_slot(log, rows):
    columns = "log_offset, outcome, marker_offset, effective_log_offset, took_effect"
    words = {None: "-", True: "yes", False: "no"}
    found = [
        tuple(row.values())
        for row in rows_of(in_duckdb(tables_with(*records(log))), f"SELECT {columns} FROM offset_history")
    ]
    said = [f"{place}: {' '.join(str(words.get(value, value)) for value in row)}" for place, *row in sorted(found)]
    assert "; ".join(said) == rows


def tables_with(*given):
    names = dict.fromkeys(each.table for each in given)
    return {name: table_rows(name, *(each.columns for each in given if each.table == name)) for name in names}


def version(log_offset, member_id, *partitions, **columns):
    """A member that has these partitions of t; without any it is gone."""
    held = [{"topic": "t", "topic_id": None, "partition": partition} for partition in partitions]
    row = {"group_id": "g", "member_id": member_id, "log_offset": log_offset, "log_timestamp": at(log_offset)}
    row |= {"assigned_partitions": held} if held else {"is_removed": True}
    return Record("group_member_versions", {**row, "client_host": "/10.0.0.1", **columns})


def owners(*versions):
    """(partition, member, host, from, to, valid_to) by the versions."""
    columns = "partition, member_id, client_host, log_offset, released_log_offset, valid_to"
    return sorted(
        tuple(row.values())
        for row in rows_of(in_duckdb(tables_with(*versions)), f"SELECT {columns} FROM partition_owners")
    )


def test_a_member_that_comes_from_elsewhere_begins_a_new_span():
    log = (version(1, "a", 0), version(3, "a", 0, client_host="/10.0.0.2"), version(5, "a", 0))
    assert owners(*log) == [
        (0, "a", "/10.0.0.1", 1, 3, at(3)),
        (0, "a", "/10.0.0.1", 5, None, None),
        (0, "a", "/10.0.0.2", 3, 5, at(5)),
    ]


def test_an_end_without_a_time_has_the_next_known_time_else_the_last_at_which_it_held():
    corrected = version(3, "a", log_timestamp=None)
    assert [row[3:] for row in owners(version(1, "a", 0), corrected)] == [(1, 3, at(1))]
    assert [row[3:] for row in owners(version(1, "a", 0), corrected, version(7, "a", 0))] == [
        (1, 3, at(7)),
        (7, None, None),
    ]


def test_the_last_of_two_members_to_get_a_partition_is_its_owner():
    members = [version(1, "a", 0), version(4, "b", 0), version(8, "b")]
    tables = tables_with(*members, *records("value 2; value 5; value 9"))
    query = "SELECT log_offset, owner_member_id FROM offset_history"
    # That a has it, too, is not forgotten: after b the owner is unknown.
    assert [tuple(row.values()) for row in rows_of(in_duckdb(tables), query)] == [(2, "a"), (5, "b"), (9, None)]


def test_no_time_passes_where_the_clock_was_set_back():
    for ended, duration in ((12, 2_000), (10, 0), (3, None)):
        times = {10: at(10), 12: at(ended)}
        log = [
            each._replace(columns=each.columns | {"log_timestamp": times[each.columns["log_offset"]]})
            for each in records("pending 10; marker 12 committed 10")
        ]
        for view in ("transactions", "unstable_periods"):
            assert [row["duration_ms"] for row in rows_of(in_duckdb(tables_with(*log)), f"FROM {view}")] == [duration]


def test_a_transaction_has_one_start_whatever_quarantine_says_of_its_first_record():
    """It may have been decoded later, or be one that a load would fail at: then it is in its own table, too."""
    named = {"log_offset": 10, "log_timestamp": at(10), "producer_id": 7, "reason": "truncated", "record_count": 1}
    query = "SELECT transaction_start_offset, started_timestamp, duration_ms, marker_offset FROM transactions"
    log = [
        each._replace(columns={"log_timestamp": at(each.columns["log_offset"]), **each.columns})
        for each in records("pending 10; marker 12 committed 10")
    ]
    for resolved, there in (
        ({"resolved_by": 3}, log),
        ({"reason": "load_would_fail", "record_count": 0}, log),
        ({}, log[1:]),
    ):
        tables = {**tables_with(*there), "quarantine": table_rows("quarantine", named | resolved)}
        [row] = rows_of(in_duckdb(tables), query)
        assert tuple(row.values()) == (10, at(10), 2000, 12)
