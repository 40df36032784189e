"""The functions of the state as of a moment: for every moment they agree with a replay of the log up to it."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.audit.work import known_topics
from kgroups_spark.coordinator.releases import Topics
from kgroups_spark.coordinator.rows import GroupRow, MemberRow
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import FINISHED, AuditRow, Ledger
from kgroups_spark.replay.counts import TopicNames
from kgroups_spark.replay.ranges import believed_until
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import to_epoch_ms
from tests.chosen import one_of
from tests.findings.logs import DAY
from tests.lake.table_rows import rows_of as table_rows
from tests.logs.cleaner import GrowingLog
from tests.logs.forgetful_logs import forgetful_log, forgetful_night
from tests.logs.log_files import borders, files_of_nights
from tests.nights.cleaned_nights import Nights
from tests.nights.nights_here import Audited, How, audit, new_lake
from tests.protocol.fake_delta import in_memory
from tests.views.arrow_tables import in_duckdb, rows_of, with_known_history
from tests.views.history_logs import (
    AHEAD,
    GROUP_COLUMNS,
    READS_ALL,
    SOME_LOGS,
    STATES,
    ahead_log,
    history_log,
    plain,
)

# The columns that a replay gives, too. Versions have neither topology nor user data, and their log offset is that of
# the last change.
COLUMNS = {
    **{
        name: [column for column in TABLES[name].columns.names if column != "audit_id"]
        for name in ("committed_offsets", "pending_offsets")
    },
    "groups": ("offsets_partition", *GroupRow._fields[GROUP_COLUMNS]),
    "group_members": MemberRow._fields[:-5],
}


def as_of_all(log, name, moments):
    """The rows of the function at each moment, by one query."""
    columns = ", ".join(f"state.{column}" for column in COLUMNS[name])
    found = {moment: set() for moment in moments}
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
def test_the_state_as_of_any_moment_equals_a_replay_up_to_it(name, state):
    log = history_log(name)
    said = as_of_all(log, state, log.replayed.moments)
    for moment in log.replayed.moments:
        expected = log.replayed.state(moment, state)
        assert said[moment] == expected, datetime.fromtimestamp(moment / 1000, UTC)


def test_entries_that_the_log_had_lost_when_it_was_read_again_are_gone(chosen):
    """The cleaner took tombstones and markers before an audit read them: audits corrected the current tables, and the
    functions correct the past."""
    corrected = Counter()
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


@pytest.mark.parametrize("seed", range(5))
def test_members_topics_are_named_as_the_last_audit_knows_them(seed):
    """By name or id, whichever the record did not say; a name that had several ids by the one that an audit takes."""
    rng, names = random.Random(seed), TopicNames()
    for topic_id in range(8):
        time = rng.choice([-1, 1000, 2000, 3000])
        names.add(f"id {topic_id}", rng.choice("tuv"), time, rng.choice(["offset_commit", "group_record", "cluster"]))
    topics = known_topics(names)
    by_name = [{"topic": name, "partitions": [1, 0]} for name in "tuvw"]
    by_id = {f"id {number}": {2: None, 0: 5} for number in range(10)}
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


# Records stamped in the future, in the middle of a log: history treats them as records without a time.
STARTED = datetime(2026, 11, 20, tzinfo=UTC)
NONE = -1
# Columns that say what the record says, whatever its time is worth.
AS_WRITTEN = ("log_timestamp", "state_since", "open_since")


@cache
def audited_log(seed, time):
    return audit(ahead_log(seed, time), How(READS_ALL, clock_ms=to_epoch_ms(STARTED)))


def views(seed, time, started_at=STARTED):
    """The views of a log in which some batches have this time."""
    audited = audited_log(seed, time)
    finished = {"audit_id": 1, "status": "finished", "started_at": started_at}
    finished["newest_log_timestamp"] = audited.nights[-1].audit.newest_log_timestamp
    tables = {**audited.tables(), "audits": table_rows("audits", finished)}
    return with_known_history(tables)


def said(lake, source):
    return rows_of(lake, f"SELECT COLUMNS(lambda name: name NOT IN {AS_WRITTEN}) FROM {source}")


@pytest.mark.parametrize("time", one_of(*AHEAD))
def test_records_ahead_of_time_count_as_records_without_a_time(time, chosen):
    differed = 0
    for seed in chosen.some(range(20), 1):
        ahead, without = views(seed, time), views(seed, NONE)
        moments = [row["at"] for row in rows_of(ahead, "SELECT DISTINCT log_timestamp AS at FROM offset_commits")]
        moments = [each for each in moments if each is not None and each < STARTED]
        for moment in random.Random(seed).sample(moments, 1):
            for state in STATES:
                call = f"{state}_as_of(TIMESTAMPTZ '{moment:%Y-%m-%d %H:%M:%S.%f}Z')"
                assert said(ahead, call) == said(without, call), (seed, call)
        for view in ("offset_history", "group_history", "group_member_history", "partition_owners"):
            assert said(ahead, view) == said(without, view), (seed, view)
        differed += rows_of(ahead, "FROM group_versions") != rows_of(without, "FROM group_versions")
    # In some logs snapshots have the times.
    assert differed or not chosen.every


def test_times_are_believed_up_to_a_day_after_the_audit_began_or_up_to_the_newest_time():
    day = timedelta(days=1)
    for newest, until in ((None, STARTED + day), (STARTED, STARTED + day), (STARTED + 9 * day, STARTED + 9 * day)):
        finished = {"audit_id": 1, "status": "finished", "started_at": STARTED, "newest_log_timestamp": newest}
        [row] = rows_of(in_duckdb({"audits": table_rows("audits", finished)}), "SELECT believed_until FROM last_audit")
        assert row["believed_until"] == until
        audit = AuditRow(1, FINISHED, "host", STARTED, newest_log_timestamp=newest)
        assert believed_until(audit) == to_epoch_ms(until)


# After `maintain --keep`, a view says of what is left the same as before, or null (cause: unknown) where the evidence
# is gone; never another value.
DEMO = Path(__file__).parents[2] / "kgroups_spark" / "demo" / "segments"
# Views over history, and the columns that name a row.
VIEWS = {
    "partition_owners": ("group_id", "topic", "partition", "member_id", "released_log_offset"),
    "rebalances": ("group_id", "log_offset"),
    "offset_history": ("log_offset",),
    "group_history": ("group_id", "log_offset"),
    "group_member_history": ("group_id", "member_id", "log_offset"),
    "transactions": ("producer_id", "marker_offset"),
    "expiry_outcomes": ("group_id", "topic", "partition"),
    "handovers": ("group_id", "topic", "partition", "log_offset"),
    "unstable_periods": ("group_id", "topic", "partition", "from_log_offset"),
    "waiting_partitions": ("group_id", "topic", "partition", "wanted_by"),
    "all_events": ("group_id", "log_offset", "event", "topic", "partition", "member_id"),
}
# After maintenance these are the same for moments that are kept.
AS_OF = ("committed_offsets_as_of", "pending_offsets_as_of", "groups_as_of", "group_members_as_of")
# Where a row begins is its first record that is left, if that is not known.
FIRST_LEFT = {"partition_owners": {"log_offset"}}


def tables(lake):
    """The tables as the last finished audit, which may be a maintenance, left them."""
    with in_memory():
        opened = Lake.open(lake.session, lake.lake)
        last = Ledger(opened).last_finished()
        assert last is not None
        left = LakeAsOfAudit(opened, last.audit_id)
        return {name: left.rows(name) for name in TABLES}


def rows_by_name(lake):
    left = tables(lake)
    connection = with_known_history(left)
    later = max(left["offset_commits"]["log_timestamp"].to_pylist()) - timedelta(days=1)
    found = {name: rows_of(connection, f"FROM {name}(TIMESTAMPTZ '{later}')") for name in AS_OF}
    return found | {name: rows_of(connection, f"FROM {name}") for name in VIEWS}


@pytest.fixture(scope="module")
def demo():
    """A partition of the demo's log, read in three nights."""
    files = {f"{path.parent.name}/{path.name}": path.read_bytes() for path in DEMO.glob("*-0/*.log")}
    ends = borders(files, 0)
    lake = new_lake()
    for night in files_of_nights(files, {0: [[ends[len(ends) // 3]], [ends[2 * len(ends) // 3]], [ends[-1]]]}):
        lake.night(night, How("4.3", offsets_partitions=8))
    return lake


@pytest.mark.parametrize("days", one_of(3, 10))
def test_what_is_left_of_history_says_the_same_or_nothing(demo, days):
    kept = Audited(demo)
    # The logs of this lake are in memory, so there are no files to delete.
    no_files = mock.patch("kgroups_spark.audit.maintain.old_versions", lambda *_, **__: 0)
    with in_memory(), no_files:
        options = MaintainOptions(lake=kept.lake, keep_ms=days * DAY, optimize=False)
        assert run_maintain(kept.session, options).rows_removed["group_member_versions"]
    before, after = rows_by_name(demo), rows_by_name(kept)
    for name in AS_OF:
        assert [row["known"] for row in after[name][:1]] in ([], ["complete"])
        assert after[name] == before[name] and (before[name] or name.startswith("pending"))
    lost = {}
    for name, key in VIEWS.items():
        was = {tuple(row[column] for column in key): row for row in before[name]}
        assert len(was) == len(before[name])
        for row in after[name]:
            then = was.pop(tuple(row[column] for column in key))
            changed = {column for column in row.keys() - {"audit_id"} if row[column] != then[column]}
            lost.setdefault(name, set()).update(changed)
            assert {row[column] for column in changed - FIRST_LEFT.get(name, set())} <= {None, "unknown"}, (name, row)
            assert "valid_to" not in changed, "null would say that it still holds"
            if "log_offset" in changed:
                assert row["valid_from"] is None
    assert "valid_from" in lost["partition_owners"]
    assert lost["rebalances"] <= {"cause", "members_before", "joined_member_ids", "left_member_ids"}
    still = [row for row in after["partition_owners"] if row["valid_to"] is None]
    assert len(still) == sum(row["valid_to"] is None for row in before["partition_owners"])
    assert any(row["valid_from"] is not None for row in after["partition_owners"])
    assert any(row["cause"] != "unknown" for row in after["rebalances"])
