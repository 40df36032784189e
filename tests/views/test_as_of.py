"""The functions of the state as of a moment: for every moment they agree with a replay of the log up to it."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from kgroups_spark.audit.work import known_topics
from kgroups_spark.coordinator.releases import Topics
from kgroups_spark.coordinator.rows import GroupRow, MemberRow
from kgroups_spark.replay.counts import TopicNames
from tests.chosen import Chosen
from tests.lake.table_rows import rows_of as table_rows
from tests.logs.cleaner import GrowingLog
from tests.logs.forgetful_logs import forgetful_log, forgetful_night
from tests.nights.cleaned_nights import Nights
from tests.nights.nights_here import How
from tests.twin.shard_rows import CommittedRow, PendingRow
from tests.views.arrow_tables import rows_of, with_known_history
from tests.views.history_logs import SOME_LOGS, HistoryLog, history_log
from tests.views.outcome_cases import at
from tests.views.replayed_logs import GROUP_COLUMNS, STATES, plain

# The columns that a replay gives, too. Versions have neither topology nor user data, and their log offset is that of
# the last change.
COLUMNS = {
    "committed_offsets": CommittedRow._fields,
    "pending_offsets": PendingRow._fields,
    "groups": ("offsets_partition", *GroupRow._fields[GROUP_COLUMNS]),
    "group_members": MemberRow._fields[:-5],
}
# At most so many moments of a log are checked.
MOMENTS = 20


def as_of_all(log: HistoryLog, name: str, moments: list[int]) -> dict[int, set[tuple[Any, ...]]]:
    """The rows of the function at each moment, by one query."""
    columns = ", ".join(f"state.{column}" for column in COLUMNS[name])
    found: dict[int, set[tuple[Any, ...]]] = {moment: set() for moment in moments}
    times = ", ".join(str(moment) for moment in moments)
    query = (
        f"SELECT moment, {columns} FROM (SELECT unnest([{times}]) AS moment), "
        f"{name}_as_of(make_timestamptz(1000 * moment)) AS state"
    )
    for row in rows_of(log.views, query):
        moment = row.pop("moment")
        found[moment].add(tuple(map(plain, row.values())))
    return found


@pytest.mark.parametrize("name", SOME_LOGS)
@pytest.mark.parametrize("state", STATES)
def test_the_state_as_of_any_moment_equals_a_replay_up_to_it(name: str, state: str) -> None:
    log = history_log(name)
    moments = log.replayed.moments[:: -(-len(log.replayed.moments) // MOMENTS)]
    said = as_of_all(log, state, moments)
    for moment in moments:
        expected = log.replayed.state(moment, state)
        assert said[moment] == expected, datetime.fromtimestamp(moment / 1000, UTC)


def test_entries_that_the_log_had_lost_when_it_was_read_again_are_gone(chosen: Chosen) -> None:
    """The cleaner took tombstones and markers before an audit read them: audits corrected the current tables, and the
    functions correct the past."""
    corrected: Counter[tuple[str, bool]] = Counter()
    for seed in chosen.some(range(5), 1):
        log, nights = GrowingLog(forgetful_log(seed)), Nights(How("4.3"))
        for left in range(5, 0, -1):
            forgetful_night(log, left)
            nights.audit(log.files, full=left % 2 == 1)
        tables = nights.audited.tables()
        views = with_known_history(tables)
        for name, columns in COLUMNS.items():
            query = f"SELECT {', '.join(columns)} FROM {name}"
            assert rows_of(views, f"{query}_as_of(NULL)") == rows_of(views, query), (seed, name)
        standing = "took_effect AND valid_to IS NULL AND committed_offset IS NOT NULL"
        query = "SELECT offsets_partition, group_id, topic, partition, log_offset FROM"
        still = rows_of(views, f"{query} offset_history WHERE {standing}")
        assert still == rows_of(views, f"{query} committed_offsets")
        rows = tables["checkpoints"].to_pylist()
        corrected.update((row["entry_type"], row["payload"] is None) for row in rows)
    if chosen.every:
        assert corrected["group", False] > 5
        assert corrected["producer", False] > 1


SLOT = {"group_id": "g", "topic": "t", "partition": 0, "record_type": 1, "value_version": 3, "metadata": ""}


def two_partitions(**corrections: Any) -> dict[str, pa.Table]:
    """A record a second in each of two partitions, the first of which has the correction."""
    commits = [
        {**SLOT, "offsets_partition": p, "log_offset": n, "committed_offset": n, "log_timestamp": at(n)}
        for p in range(2)
        for n in range(10)
    ]
    row = {"offsets_partition": 0, "entry_type": "topics", "payload": '{"topics": []}', **corrections}
    return {"offset_commits": table_rows("offset_commits", *commits), "checkpoints": table_rows("checkpoints", row)}


def committed_as_of(views: Any, moment: datetime, where: str = "true") -> list[tuple[int, int]]:
    time = f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}Z'"
    query = f"SELECT offsets_partition, committed_offset FROM committed_offsets_as_of({time}) WHERE {where}"
    return [tuple(row.values()) for row in rows_of(views, query)]


def known_as_of(views: Any, moment: datetime) -> str:
    [row] = rows_of(views, f"SELECT known_as_of(TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}Z') AS known")
    return str(row["known"])


def test_moments_in_reduced_history_are_refused() -> None:
    views = with_known_history(two_partitions(reason="keep", log_offset=5))
    reduced = r"partition 0 of __consumer_offsets below log offset 5 .* ask for a later time"
    for moment in (-1, 0, 3):
        with pytest.raises(duckdb.Error, match=reduced):
            committed_as_of(views, at(moment))
        assert known_as_of(views, at(moment)) == "reduced"
        assert committed_as_of(views, at(moment), "offsets_partition = 1") == ([(1, moment)] if moment >= 0 else [])
    # Its end is the border: the state that was saved there has the records below.
    assert committed_as_of(views, at(4)) == [(0, 4), (1, 4)]
    assert known_as_of(views, at(4)) == "complete"
    assert committed_as_of(views, at(99)) == [(0, 9), (1, 9)]


def test_a_correction_counts_from_the_offset_up_to_which_the_log_had_been_read() -> None:
    """The payload names the records that the group still has: none."""
    gone = {"reason": "reread", "entry_type": "group", "group_id": "g", "payload": '{"group":null,"offsets":[]}'}
    views = with_known_history(two_partitions(**gone, log_offset=5))
    seen = {moment: committed_as_of(views, at(moment), "offsets_partition = 0") for moment in range(7)}
    # As of 4 the log ends before the record at 5, which is where it had been read to.
    assert seen == {0: [(0, 0)], 1: [(0, 1)], 2: [(0, 2)], 3: [(0, 3)], 4: [], 5: [(0, 5)], 6: [(0, 6)]}
    history = rows_of(views, "SELECT * FROM offset_history WHERE offsets_partition = 0")
    rows = {row["log_offset"]: row for row in history}
    assert [rows[n]["previous_committed_offset"] for n in (4, 5, 6)] == [3, None, 5]
    assert [rows[n]["valid_to"] for n in (3, 4, 9)] == [at(4), at(5), None]


@pytest.mark.parametrize("seed", range(5))
def test_members_topics_are_named_as_the_last_audit_knows_them(seed: int) -> None:
    """By name or id, whichever the record did not say; a name that had several ids by the one that an audit takes."""
    rng, names = random.Random(seed), TopicNames()
    for topic_id in range(8):
        time = rng.choice([-1, 1000, 2000, 3000])
        names.add(f"id {topic_id}", rng.choice("tuv"), time, rng.choice(["offset_commit", "group_record", "cluster"]))
    topics = known_topics(names)
    by_name = [{"topic": name, "partitions": [1, 0]} for name in "tuvw"]
    by_id: dict[str, dict[int, int | None]] = {f"id {number}": {2: None, 0: 5} for number in range(10)}
    said = {"classic": Topics().of_names(by_name), "consumer": Topics().of_ids(by_id)}
    rows = [
        {"group_id": "g", "member_id": member, "assigned_partitions": [held._asdict() for held in partitions]}
        for member, partitions in said.items()
    ]
    seen = [dict(zip(("topic_id", "topic", "seen_log_timestamp", "source"), row, strict=True)) for row in names.rows()]
    for row in seen:
        row["seen_log_timestamp"] = row["seen_log_timestamp"] and 1000 * row["seen_log_timestamp"]
    tables = {
        "topics": table_rows("topics", *seen),
        "group_member_versions": table_rows("group_member_versions", *rows),
    }
    views = with_known_history(tables)
    found = rows_of(views, "SELECT member_id, assigned_partitions FROM group_members_as_of(NULL)")
    assert {row["member_id"]: [tuple(held.values()) for held in row["assigned_partitions"]] for row in found} == {
        "classic": topics.of_names(by_name),
        "consumer": topics.of_ids(by_id),
    }
