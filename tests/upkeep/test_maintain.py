"""`kgroups maintain`: answers stay, files become few, old history goes, and whatever is killed can be repeated."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kgroups_spark.audit.keep import audits_without_findings, unneeded
from kgroups_spark.audit.maintain import NO_TIMES, MaintainSummary, run_maintain
from kgroups_spark.audit.options import LEAST_VACUUM_MS, MaintainOptions
from kgroups_spark.audit.run import RebuildOptions, run_rebuild
from kgroups_spark.cli.main import main
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.claim import Claim, ClaimLost
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import Removal, removals
from kgroups_spark.lake.ledger import Ledger
from kgroups_spark.lake.writer import LakeWriter, is_of_night
from kgroups_spark.replay.shard_states import Stored, states_at
from kgroups_spark.replay.sinks import Fact, ForReplay, ShardBegins, ShardLost
from kgroups_spark.replay.stages import replay_shards
from kgroups_spark.sql.by_duckdb import DuckDbLake
from kgroups_spark.tables.columns import expression_of
from kgroups_spark.tables.definitions import KEEP, NIGHT
from kgroups_spark.tables.schemas import CHECKPOINTS, STATE_OFFSET, TABLES, arrow_schema
from kgroups_spark.words import to_epoch_ms
from tests.cli.written_lake import AS_OF, ledger, write_lake
from tests.crash.commit_points import CommitPoint, audit, photographs
from tests.lake.table_rows import rows_of
from tests.nights.lakes import contents, copy_until, rows, versions
from tests.nights.reported_tables import unordered
from tests.recorded_logs import unpacked
from tests.records.build import message
from tests.report.made_lakes import partition_read

pytestmark = pytest.mark.usefixtures("findings_not_sought")

NOW = [name for name, table in TABLES.items() if table.kind == "current"]
HISTORY = [name for name, table in TABLES.items() if table.kind == "history"]
PARTITIONS = (1, 2)
TWO_TABLES = ("offset_commits", "group_events")


def replayed(stored, tasks, task, name):
    """The rows of a table."""
    found = [arrow_schema(name).empty_table()]
    numbers = pa.concat_tables(stored.given_to(tasks).tables).to_batches()
    for output in replay_shards(task, tasks, numbers):
        assert not isinstance(output, Fact | ForReplay | ShardBegins | ShardLost)
        if output[0] == name:
            found.append(output[1].select(arrow_schema(name).names).cast(arrow_schema(name)))
    return pa.concat_tables(found)


def maintain(spark, lake, **options):
    return run_maintain(spark, MaintainOptions(lake=str(lake), **options))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Transactions of several producers over several groups."""
    folder = unpacked(tmp_path_factory.mktemp("corpora"), "transactions-4.3")
    for partition in folder.iterdir():
        if int(partition.name.rpartition("-")[2]) not in PARTITIONS:
            shutil.rmtree(partition)
    return folder


@pytest.fixture(scope="module")
def two_nights(local, log, tmp_path_factory):
    """A lake of two nights of several tasks, and below `log` what they have read; the last fifth of the log is still to
    come."""
    folder = tmp_path_factory.mktemp("nights")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kgroups_spark.replay.shard_states.RECORDS_OF_A_TASK", 1)
        for share in (0.4, 0.8):
            copy_until(log, folder / "log", share)
            audit(local, folder / "lake", folder / "log")
    return folder


@pytest.fixture
def lake(two_nights, tmp_path):
    shutil.copytree(two_nights / "lake", tmp_path / "lake")
    return tmp_path / "lake"


@pytest.fixture(scope="module")
def undisturbed(local, two_nights, log, tmp_path_factory):
    """The tables of a lake without maintenance, after the rest of the log."""
    lake = tmp_path_factory.mktemp("undisturbed") / "lake"
    shutil.copytree(two_nights / "lake", lake)
    audit(local, lake, log)
    return contents(lake)


def half_of_the_log(lake):
    """A duration for --keep: half of the records are older."""
    times = sorted(row["log_timestamp"] for name in ("offset_commits", "group_records") for row in rows(lake, name))
    return (times[-1] - times[len(times) // 2]) // timedelta(milliseconds=1)


def file_counts(lake):
    return {name: len(DeltaTable(f"{lake}/{name}").file_uris()) for name in HISTORY}


def test_files_become_few_and_nothing_else_changes(session, lake, log, undisturbed):
    before, files = contents(lake, [*HISTORY, *NOW]), file_counts(lake)
    progress = Ledger(Lake.open(session, str(lake))).last_finished().partitions
    summary = maintain(session, lake)
    assert contents(lake, [*HISTORY, *NOW]) == before
    after = file_counts(lake)
    assert files["offset_commits"] > 1
    assert all(after[name] == min(1, files[name]) for name in HISTORY)
    assert "  offset_commits: 2 files to 1" in "\n".join(summary.lines())
    for name in HISTORY:
        table = DeltaTable(f"{lake}/{name}")
        assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
        assert duckdb.from_arrow(table.to_pyarrow_dataset()).count("*").fetchall() == [(len(before[name]),)]
    row = Ledger(Lake.open(session, str(lake))).last_finished()
    assert (row.source, row.record_counts) == ("tables", ())
    assert row.rows_added == {}
    assert [(p.offsets_partition, p.end_offset) for p in row.partitions] == [
        (p.offsets_partition, p.end_offset) for p in progress
    ]
    assert {p.records for p in row.partitions} == {0}
    # There is nothing more to do, and audits go on.
    versions_before = versions(lake)
    maintain(session, lake)
    assert {name: v for name, v in versions(lake).items() if name != "audits"} == {
        name: v for name, v in versions_before.items() if name != "audits"
    }
    audit(session, lake, log)
    assert contents(lake) == undisturbed


def state_of_history(spark, lake):
    """The state that a replay of history leads to, and the one that the last audit saved, both sorted."""
    opened = Lake.open(spark, str(lake))
    audit = Ledger(opened).last_finished()
    ends = {p.offsets_partition: p.end_offset for p in audit.partitions}
    stored = Stored(opened)
    made = replayed(stored, *states_at(stored, ends, audit.release_version, audit.audit_id), CHECKPOINTS).to_pylist()
    saved = [row for row in rows(lake, "checkpoints") if row["reason"] == NIGHT]
    newest = max(row["audit_id"] for row in saved)
    states = (made, [row for row in saved if row["audit_id"] == newest])
    return [sorted(map(entry_of, (row for row in state if row["entry_type"] != "topics"))) for state in states]


def entry_of(row):
    """A row of the saved state, to compare; offsets and members have no order."""
    said = unordered(json.loads(row["payload"])) if row["payload"] else [row[name] for name in STATE_OFFSET]
    return row["offsets_partition"], row["entry_type"], row["group_id"] or "", str(said)


@dataclass(frozen=True)
class Kept:
    """A lake before and after `maintain --keep` of half of its log, which was `foreseen`; `killed`: as it was before
    each of its commits. `newest`: the audit that saw ends of topics last."""

    before: Path
    after: Path
    keep_ms: int
    foreseen: MaintainSummary
    summary: MaintainSummary
    killed: dict[CommitPoint, Path]
    newest: int


@pytest.fixture(scope="module")
def kept(local, two_nights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    before, after = folder / "before", folder / "after"
    shutil.copytree(two_nights / "lake", before)
    _, newest = see_ends_of_topics(local, before)
    shutil.copytree(before, after)
    keep_ms, summaries = half_of_the_log(before), []
    foreseen = maintain(local, after, keep_ms=keep_ms, dry_run=True)
    assert contents(after, HISTORY) == contents(before, HISTORY)
    killed = photographs(after, folder / "killed", lambda: summaries.append(maintain(local, after, keep_ms=keep_ms)))
    return Kept(before, after, keep_ms, foreseen, summaries[0], killed, newest)


def test_a_log_without_times_has_no_records_known_to_be_old(local, tmp_path):
    segment = tmp_path / "log" / "__consumer_offsets-0" / f"{0:020d}.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"".join(message(at, group_key(b"g"), None, magic=0) for at in range(3)))
    audit(local, tmp_path / "lake", tmp_path / "log")
    before = contents(tmp_path / "lake")
    foreseen, summary = (maintain(local, tmp_path / "lake", keep_ms=0, dry_run=dry) for dry in (True, False))
    assert foreseen.rows_removed == summary.rows_removed == {}
    assert NO_TIMES in foreseen.notes
    assert NO_TIMES in summary.audit.notes
    assert contents(tmp_path / "lake")["group_records"] == before["group_records"]


def group_key(name):
    return struct.pack(">hh", 2, len(name)) + name


def test_keep_leaves_the_last_record_of_each_key_and_a_state_to_rebuild_from(session, kept, log, undisturbed, tmp_path):
    gone = {name: len(rows(kept.before, name)) - len(rows(kept.after, name)) for name in HISTORY}
    assert kept.summary.rows_removed == {name: count for name, count in gone.items() if count}
    assert {"offset_commits", "transaction_markers"} <= kept.summary.rows_removed.keys()
    assert kept.foreseen.rows_removed == kept.summary.rows_removed
    # Old ends of topics go, but never the newest, however long ago both were.
    assert kept.summary.rows_removed["topic_offsets"] == 2
    assert ends_by(kept.after) == {kept.newest: 2}
    assert contents(kept.after, NOW) == contents(kept.before, NOW)
    lake = shutil.copytree(kept.after, tmp_path / "lake")
    replayed, saved = state_of_history(session, lake)
    assert replayed == saved
    audit(session, lake, log)
    assert contents(lake, NOW) == {name: undisturbed[name] for name in NOW}
    # A rebuild gives the same tables, versions included.
    before_rebuild = contents(lake)
    run_rebuild(session, RebuildOptions(lake=str(lake)))
    assert contents(lake) == before_rebuild


def test_nights_and_replays_of_history_find_their_own_checkpoint_files(local, kept):
    lake = Lake.open(local, str(kept.after))
    reasons = {
        file.path: {file.bound(which, "reason") for which in ("minValues", "maxValues")}
        for file in lake.table(CHECKPOINTS).files()
    }
    of_night = {path for path, each in reasons.items() if each == {NIGHT}}
    assert {file.path for file in lake.table(CHECKPOINTS).files() if is_of_night(file)} == of_night
    others = {file.path for file in Stored(lake).tables()[CHECKPOINTS].files or ()}
    assert others == {path for path, each in reasons.items() if each == {KEEP}} == reasons.keys() - of_night
    assert of_night and others


def leave_old_and_young(lake):
    """Files of tasks that failed in the folder of offset_commits: the old one, and all that are there now."""
    old, young = (lake / "offset_commits" / f"part-of-a-task-that-failed-{age}.parquet" for age in ("old", "young"))
    for file in (old, young):
        file.write_bytes(b"x" * 1000)
    eight_days_ago = old.stat().st_mtime - 8 * 86_400
    os.utime(old, (eight_days_ago, eight_days_ago))
    return old, set((lake / "offset_commits").glob("*.parquet"))


def changes_of(lake, name):
    """Whether the two newest commits change rows, the last one first. A stream over the table sees the one that
    removed rows; it skips the one that only moved rows to other files."""
    newest = sorted((lake / name / "_delta_log").glob("*.json"), reverse=True)[:2]
    actions = [[json.loads(line) for line in path.read_text().splitlines()] for path in newest]
    return [
        {change["dataChange"] for action in made for kind, change in action.items() if kind in ("add", "remove")}
        for made in actions
    ]


def test_maintenance_does_what_its_dry_run_foresaw_and_deletes_only_old_files(session, kept, tmp_path):
    """In a soak with all that upkeep asks of Spark and Delta: tasks, transactions."""
    lake = shutil.copytree(kept.before, tmp_path / "lake")
    old, files = leave_old_and_young(lake)
    (lake / "_work" / "audit-1-of-a-dead-process").mkdir(parents=True)
    before = contents(lake)
    foreseen = maintain(session, lake, keep_ms=kept.keep_ms, dry_run=True)
    assert contents(lake) == before
    assert set((lake / "offset_commits").glob("*.parquet")) == files
    summary = maintain(session, lake, keep_ms=kept.keep_ms)
    assert foreseen.bytes_freed == summary.bytes_freed == 1000
    assert foreseen.rows_removed == summary.rows_removed == kept.summary.rows_removed
    assert contents(lake) == contents(kept.after)
    assert contents(lake, ["checkpoints"]) == contents(kept.after, ["checkpoints"])
    assert file_counts(lake) == file_counts(kept.after)
    # Only old files that no version needs are deleted.
    assert files - set((lake / "offset_commits").glob("*.parquet")) == {old}
    assert not list((lake / "_work").iterdir())
    assert changes_of(lake, "group_events") == [{False}, {True}]


@pytest.mark.in_turn("upkeep by Delta")
def test_by_spark_only_the_old_file_goes_and_streams_see_one_commit(spark, kept, tmp_path, monkeypatch):
    """The same of two tables by Spark."""
    monkeypatch.setattr("kgroups_spark.audit.maintain.TABLES", {name: TABLES[name] for name in TWO_TABLES})
    lake = shutil.copytree(kept.before, tmp_path / "lake")
    old, files = leave_old_and_young(lake)
    assert list(unneeded(Lake.open(spark, str(lake)), "offset_commits", LEAST_VACUUM_MS).values()) == [1000]
    assert set((lake / "offset_commits").glob("*.parquet")) == files
    assert maintain(spark, lake, keep_ms=kept.keep_ms).bytes_freed == 1000
    assert files - set((lake / "offset_commits").glob("*.parquet")) == {old}
    assert changes_of(lake, "group_events") == [{False}, {True}]


def test_a_file_stays_as_long_as_a_young_version_has_it(local, kept, tmp_path):
    """Maintenance has rewritten the files, which are old, a moment ago: readers may still be at the version before."""
    table = shutil.copytree(kept.after, tmp_path / "lake") / "offset_commits"
    opened = Lake.open(local, str(tmp_path / "lake"))
    before = {file.path for file in opened.table("offset_commits").files(1)}
    gone = before - {file.path for file in opened.table("offset_commits").files()}
    assert gone
    old = time.time() - 8 * 86_400
    for file in table.glob("*.parquet"):
        os.utime(file, (old, old))
    assert unneeded(opened, "offset_commits", LEAST_VACUUM_MS) == {}
    for entry in (table / "_delta_log").glob("*.json"):
        os.utime(entry, (old, old))
    assert unneeded(opened, "offset_commits", LEAST_VACUUM_MS).keys() >= gone


def test_keep_can_be_repeated_and_one_kept_state_of_each_partition_is_enough(session, kept, log, tmp_path):
    lake = shutil.copytree(kept.after, tmp_path / "lake")
    assert maintain(session, lake, keep_ms=kept.keep_ms).rows_removed == {}
    audit(session, lake, log)
    replayed, saved = state_of_history(session, lake)
    assert replayed == saved
    maintain(session, lake, keep_ms=1)
    of = {(row["offsets_partition"], row["audit_id"]) for row in rows(lake, "checkpoints") if row["reason"] == KEEP}
    assert len(of) == len({partition for partition, _ in of}) == len(PARTITIONS)
    replayed, saved = state_of_history(session, lake)
    assert replayed == saved


def test_maintenance_killed_at_any_commit_loses_nothing_and_the_next_run_completes_it(session, kept, chosen, tmp_path):
    broken = {table for table, operation, _ in kept.killed if operation in ("append", "replace")}
    assert {"checkpoints", "offset_commits", "transaction_markers"} <= broken
    now, history = contents(kept.before, NOW), contents(kept.after, HISTORY)
    for point, killed in kept.killed.items():
        assert contents(killed, NOW) == now, point
    for number, point in enumerate(chosen.some(kept.killed, 1)):
        lake = shutil.copytree(kept.killed[point], tmp_path / f"{number}")
        maintain(session, lake, keep_ms=kept.keep_ms)
        assert contents(lake, HISTORY) == history, point


def test_a_rebuild_that_was_killed_comes_first(session, lake, monkeypatch):
    commit = Lake.commit

    def break_at_members(self, table, operation, write):
        if table == "group_member_versions":
            raise OSError("the storage is gone")
        return commit(self, table, operation, write)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "commit", break_at_members)
        with pytest.raises(OSError, match="the storage is gone"):
            run_rebuild(session, RebuildOptions(lake=str(lake), release_version="3.9"))
    with pytest.raises(KgroupsError, match="an unfinished audit: run kgroups audit or kgroups rebuild"):
        maintain(session, lake)


def test_maintenance_is_refused_without_a_change(session, lake, tmp_path):
    with pytest.raises(UsageError, match="--vacuum below 7d is refused: readers may still use"):
        maintain(session, lake, vacuum_ms=6 * 86_400_000)
    with pytest.raises(UsageError, match="no lake at"):
        maintain(session, tmp_path / "nothing")
    before = versions(lake)
    with Claim.take(Lake.open(session, str(lake))), pytest.raises(ClaimLost, match="is running"):
        maintain(session, lake)
    Lake.create(session, str(tmp_path / "empty"))
    with pytest.raises(KgroupsError, match="no finished audit: nothing to maintain"):
        maintain(session, tmp_path / "empty")
    assert {**versions(lake), "audits": 0} == {**before, "audits": 0}


LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
# Columns of the ledger's row that an audit takes over from the one before if it reads nothing.
AS_BEFORE = ("as_of", "retention_ms", "retention_source", "release_version", "rules_version", "state_format")
AS_BEFORE += ("partitions", "newest_log_timestamp", "notes")


def see_ends_of_topics(session, lake):
    """Two audits that did so and nothing else, long ago; their numbers."""
    started, written = Lake.open(session, str(lake)), []
    for seen_at in (LONG_AGO, LONG_AGO + timedelta(hours=1)):
        with Claim.take(started) as claim:
            writer = LakeWriter(started, claim.audit_id, claim.check)
            given = {"audit_id": claim.audit_id, "topic": "t", "status": "ok", "seen_at": seen_at}
            writer.append_table("topic_offsets", rows_of("topic_offsets", *({**given, "partition": p} for p in (0, 1))))
            claim.finish(**{name: getattr(claim.before, name) for name in AS_BEFORE})
            written.append(claim.audit_id)
    return written


def ends_by(lake):
    """Which audits have how many rows of topic_offsets."""
    return Counter(row["audit_id"] for row in rows(lake, "topic_offsets"))


# `maintain --keep` removes findings of old audits, and commands say so. The ledger stays.
NIGHTS = 12
KEPT_NIGHTS = 4
ASKED = (
    "SELECT * FROM log_totals ORDER BY offsets_partition",
    "SELECT * FROM topic_health ORDER BY offsets_partition",
    "SELECT * FROM coverage ORDER BY offsets_partition",
)


def night(number):
    at = AS_OF - timedelta(days=NIGHTS - number)
    span = {"start_offset": 10 * number, "end_offset": 10 * number + 10, "records": 9, "bytes": 900}
    read = [partition_read(p, **span, newest_log_timestamp=at) for p in range(3)]
    row: dict[str, object] = {"audit_id": number, "started_at": at, "as_of": at, "newest_log_timestamp": at}
    return row | {"partitions": read, "rows_added": {"findings": 1}, "quarantined": {}, "notes": [], "source": "kafka"}


def answers(lake):
    opened = DuckDbLake(lake)
    return [opened.query(query).to_pylist() for query in ASKED]


def numbers(lake, query):
    return [row["audit_id"] for row in DuckDbLake(lake).query(query).to_pylist()]


def test_findings_of_old_audits_go(session, tmp_path, capsys):
    found = [{"audit_id": n, "finding": "mixed_commits", "severity": "notice"} for n in range(1, NIGHTS + 1)]
    nights = ledger(*(night(number) for number in range(1, NIGHTS + 1)))
    lake = write_lake(tmp_path / "lake", {"audits": nights, "findings": rows_of("findings", *found)})
    before = answers(lake)
    options = MaintainOptions(lake, keep_ms=KEPT_NIGHTS * 86_400_000, optimize=False)
    foreseen = run_maintain(session, MaintainOptions(**{**vars(options), "dry_run": True}))
    summary = run_maintain(session, options)
    newest_old = NIGHTS - KEPT_NIGHTS - 1
    assert summary.rows_removed == foreseen.rows_removed == {"findings": newest_old}
    # The audit that kept the state and the one that reduced history are two more.
    asked = "SELECT audit_id FROM audits WHERE status = 'finished' ORDER BY audit_id"
    assert numbers(lake, asked) == [*range(1, NIGHTS + 3)]
    assert numbers(lake, "SELECT audit_id FROM findings ORDER BY audit_id") == [*range(newest_old + 1, NIGHTS + 1)]
    assert answers(lake) == before
    assert run_maintain(session, options).rows_removed == {}
    capsys.readouterr()
    assert main(["findings", "--lake", lake, "--format", "json"]) == 0
    assert [json.loads(line)["audit_id"] for line in capsys.readouterr().out.splitlines()] == [NIGHTS]
    assert main(["findings", "--lake", lake, "--all-audits"]) == 0
    assert f"removed the findings of audits up to {newest_old}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("day", "looked_to", "decided_by", "gone"),
    [(4, 9, None, [1, 2, 3]), (9, 3, None, [1, 2]), (9, 9, 3, [1, 2]), (9, 0, None, []), (1, 9, None, [])],
)
def test_findings_stay_that_are_young_the_last_or_still_judged(day, looked_to, decided_by, gone):
    rows = [
        {"audit_id": n, "as_of": AS_OF + timedelta(days=n), "rows_added": {"findings": 0} if n <= looked_to else {}}
        for n in range(1, 10)
    ]
    moment_ms = to_epoch_ms(AS_OF + timedelta(days=day))
    assert audits_without_findings(rows_of("audits", *rows), moment_ms, decided_by) == gone


def test_the_ledger_names_the_run_that_removed_findings():
    rows = [
        {"audit_id": number, "status": status, "removed_up_to": up_to}
        for number, status, up_to in ((9, "finished", 4), (12, "finished", None), (15, "finished", 11), (16, "x", 14))
    ]
    ledger = rows_of("audits", *rows)
    found = removals(lambda _, columns, conditions: ledger.filter(expression_of(conditions)).select(columns))
    assert found == [Removal(4, 9), Removal(11, 15)]
