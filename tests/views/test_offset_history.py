"""Views of the past: offset_history, partition_owners, transactions and the histories of groups and members."""

from __future__ import annotations

from functools import cache

import pytest

from tests.views.arrow_tables import rows_of
from tests.views.history_logs import SOME_LOGS, Owner, history_log, plain

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
