"""A rebuild from history alone gives what the nights gave (R3, R7), whatever was there before."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.audit.run import RebuildOptions, run_rebuild
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.messages import offset_commits
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS
from kgroups_spark.sql.by_duckdb import DuckDbLake, duckdb_reader
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import some_of
from tests.crash.commit_points import audit
from tests.findings.logs import Log
from tests.nights.lakes import HISTORY, assert_keys, contents, copy_until, rows
from tests.nights.nights_here import How, new_lake
from tests.recorded_logs import unpacked
from tests.records.build import batch

pytestmark = pytest.mark.usefixtures("findings_not_sought")

# Partitions of recorded logs, side by side in the log of these tests: both coordinators, all types of groups. The other
# partitions have no kind of record, event, cause, state or decision that these have not.
RECORDED = {"transactions-4.3": (1, 3), "scala-3.9-reloaded": (0, 3), "mixed-upgrade": (1,)}
# An early-access value, which 4.3 does not read and 3.9 skips (T58), and a record of no known type.
EARLY_VALUE = b"\0\0\0\0\2c\2/\1\0" + bytes(4) + b"\0" + b"\2\2n\0\1\0\2\0\0\3\3mm\0\0"
ODD = batch(0, [(b"\0\5\0\1g\0\1m", EARLY_VALUE), (b"\0\x63\0\1g", b"\0\0")])
VERSIONS = ["group_versions", "group_member_versions", "group_events", "quarantine"]
NOW = ["groups", "group_members", "committed_offsets", "pending_offsets", "open_transactions", "topics"]
DECIDED = ["offset_expiry", "group_expiry"]


# ConsumerGroupMemberMetadata, and offset commits of version 3.
HIDDEN_TYPE, HIDDEN_VERSION = 5, 3


@contextmanager
def older_software():
    """In the block, this process does not know the type and the version."""
    read = offset_commits.read_values

    def read_old_values(*arguments):
        columns, *places, is_irregular = read(*arguments)
        return columns, *places, is_irregular | (columns.value_version == np.int16(HIDDEN_VERSION))

    with (
        mock.patch.dict(CONSUMER_OFFSETS),
        mock.patch.object(offset_commits, "_VERSIONS", range(HIDDEN_VERSION)),
        mock.patch.object(offset_commits, "read_values", read_old_values),
    ):
        CONSUMER_OFFSETS.pop(HIDDEN_TYPE)
        yield


def rebuild(session, lake, **options):
    return run_rebuild(session, RebuildOptions(lake=str(lake), **options))


def reported(lake):
    """The tables that a rebuild writes: rows of history with their audit_id, other rows without it."""
    versions = {name: sorted(map(repr, rows(lake, name))) for name in VERSIONS}
    return {**versions, **contents(lake, NOW + DECIDED)}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """The log after a first night, and after a second one."""
    folder = tmp_path_factory.mktemp("rebuild")
    logs = unpacked(folder)
    partitions = [logs / name / f"__consumer_offsets-{number}" for name, its in RECORDED.items() for number in its]
    for number, partition in enumerate(partitions):
        shutil.copytree(partition, folder / "second" / f"__consumer_offsets-{number}")
    (folder / "second" / f"__consumer_offsets-{len(partitions)}").mkdir()
    (folder / "second" / f"__consumer_offsets-{len(partitions)}" / f"{0:020d}.log").write_bytes(ODD)
    copy_until(folder / "second", folder / "first", 0.6)
    return folder / "first", folder / "second"


@pytest.fixture(scope="module")
def first_night(local, logs, tmp_path_factory):
    """A lake of the first night by the rules of 4.3."""
    lake = tmp_path_factory.mktemp("first") / "lake"
    audit(local, lake, logs[0], release_version="4.3")
    return lake


@pytest.fixture(scope="module")
def java(local, logs, first_night, tmp_path_factory):
    """A lake of two nights by the rules of 4.3."""
    lake = tmp_path_factory.mktemp("java") / "lake"
    shutil.copytree(first_night, lake)
    audit(local, lake, logs[1], release_version="4.3")
    return lake


@pytest.fixture(scope="module")
def scala(local, logs, tmp_path_factory):
    """The same by those of 3.9."""
    lake = tmp_path_factory.mktemp("scala") / "lake"
    for log in logs:
        audit(local, lake, log, release_version="3.9")
    return lake


@pytest.fixture(scope="module")
def hidden_night(local, logs, tmp_path_factory):
    """A lake of the first night, audited by software that knew less."""
    lake = tmp_path_factory.mktemp("hidden") / "lake"
    with older_software():
        audit(local, lake, logs[0])
    return lake


def test_a_rebuild_restores_the_tables_of_the_nights_even_deleted_or_emptied_ones(session, java, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(java, lake)
    expected = reported(lake)
    assert all(expected[name] for name in ("quarantine", *NOW[:5]))
    for name in ("group_member_versions", "groups", "topics", "group_events", "offset_expiry"):
        shutil.rmtree(lake / name)
    for name in ("group_versions", "committed_offsets"):
        table = Lake.open(session, str(lake)).table(name)
        table.commit([], by="a test", transaction=None, remove=lambda _: True)
    summary = rebuild(session, lake)
    assert reported(lake) == expected
    assert (summary.audit.source, summary.audit.release_version) == ("tables", "4.3")
    added = {name: count for name, count in summary.audit.rows_added.items() if TABLES[name].kind == "history"}
    assert added == {"findings": 1}  # it looks for them, as any audit does
    before = next(row for row in rows(lake, "audits") if (row["audit_id"], row["status"]) == (2, "finished"))
    assert [p.end_offset for p in summary.audit.partitions] == [p["end_offset"] for p in before["partitions"]]
    assert {p.records for p in summary.audit.partitions} == {0}
    assert next(iter(summary.lines())) == "audit 3: all tables rebuilt from the history of 6 partitions"


def test_an_audit_by_another_release_rebuilds_the_versions_too(session, logs, first_night, java, scala, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(first_night, lake)
    summary = audit(session, lake, logs[1], release_version="3.9")
    assert "state rebuilt from history: audit 1 used release 4.3, this one 3.9" in summary.audit.notes
    assert reported(lake) == reported(scala)
    rebuild(session, lake, release_version="4.3")
    assert reported(lake) == reported(java)


@dataclass(frozen=True)
class KilledRebuild:
    """A rebuild by the rules of 3.9 of a lake of 4.3. `now`: what readers see until it has finished; `of_3_9` and
    `of_4_3`: what is to be there after it and before; `lakes`: as they are when it is killed before it commits a
    table."""

    log: Path
    now: dict[str, list[str]]
    of_3_9: dict[str, list[str]]
    of_4_3: dict[str, list[str]]
    lakes: dict[str, Path]


@pytest.fixture(scope="module")
def killed_rebuild(local, logs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    for partition in ("__consumer_offsets-2", "__consumer_offsets-5"):
        shutil.copytree(logs[1] / partition, folder / "log" / partition)
    lake, other = folder / "lake", folder / "other"
    for release, place in (("4.3", lake), ("3.9", other)):
        audit(local, place, folder / "log", release_version=release)
    of_4_3, of_3_9, now, killed = reported(lake), reported(other), seen_by_readers(lake), {}
    assert all(of_4_3[name] != of_3_9[name] for name in ("group_versions", "quarantine"))

    def photograph(table, _):
        killed[table] = folder / f"killed-before-{table}"
        shutil.copytree(lake, killed[table], dirs_exist_ok=True)

    with at_each_commit(photograph):
        rebuild(local, lake, release_version="3.9")
    assert reported(lake) == of_3_9
    assert {"group_versions", "group_member_versions", "quarantine", "groups", "offset_expiry"} <= killed.keys()
    return KilledRebuild(folder / "log", now, of_3_9, of_4_3, killed)


def test_a_rebuild_killed_at_any_commit_is_invisible_and_is_repeated(session, killed_rebuild, chosen, tmp_path):
    for place in chosen.some(killed_rebuild.lakes.values(), 2):
        assert seen_by_readers(place) == killed_rebuild.now
    # By now versions are those of 3.9.
    begun = list(killed_rebuild.lakes)[1:]
    for table in chosen.some(begun, 1):
        lake = shutil.copytree(killed_rebuild.lakes[table], tmp_path / table)
        summary = audit(session, lake, killed_rebuild.log, release_version="4.3")
        assert any(note.endswith("audit 2 began to, and did not finish") for note in summary.audit.notes), table
        assert reported(lake) == killed_rebuild.of_4_3, table


def test_records_that_can_be_decoded_now_move_from_quarantine_to_history(session, logs, java, hidden_night, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(hidden_night, lake)
    hidden = rows(lake, "quarantine")
    reasons = {(r["reason"], r["record_type"], r["value_version"]) for r in hidden if r["record_count"]}
    assert ("unknown_record_type", HIDDEN_TYPE, None) in reasons
    assert ("unknown_value_version", 1, HIDDEN_VERSION) in reasons
    with mock.patch("kgroups_spark.audit.work.RULES_VERSION", 0):
        summary = audit(session, lake, logs[1])
    resolved = [row for row in rows(lake, "quarantine") if row["resolved_by"] is not None]
    assert {row["resolved_by"] for row in resolved} == {2}
    note = f"{len(resolved):,} records of quarantine could be decoded now and moved into history"
    assert note in summary.audit.notes
    assert reported(lake) | {"quarantine": []} == reported(java) | {"quarantine": []}
    for name in ("group_records", "offset_commits"):
        settled = {"audit_id", "outcome", "marker_offset", "producer_epoch", "offset_delta"}
        assert strings(lake, name, settled) == strings(java, name, settled)
    # The records that were decoded again belong to the same groups and hours as those that the night read.
    assert_keys(lake)
    assert traffic(lake) == traffic(java)
    counted = sum(r.get("record_count", 1) for n in HISTORY for r in rows(lake, n) if r.get("resolved_by") is None)
    assert counted == sum(p["records"] for r in rows(lake, "audits") for p in r["partitions"] or ())


def test_a_rebuild_by_spark_equals_one_in_this_process(spark, local, hidden_night, tmp_path):
    """With records of quarantine that decode now, and by rules of another release."""
    for name, session in (("spark", spark), ("local", local)):
        shutil.copytree(hidden_night, tmp_path / name)
        assert rebuild(session, tmp_path / name, release_version="3.9").audit.rows_added["group_records"] > 0
    assert reported(tmp_path / "spark") == reported(tmp_path / "local")
    assert traffic(tmp_path / "spark") == traffic(tmp_path / "local")


def traffic(lake):
    """The counts of both audits, added up by partition, group and hour."""
    found = Counter()
    for row in rows(lake, "group_traffic"):
        for name in ("commits", "tombstones", "other_records", "bytes"):
            found[row["offsets_partition"], row["group_id"], row["hour"], name] += row[name]
    return +found


@contextmanager
def at_each_commit(act):
    """Calls `act` with table and operation before each commit but those of the ledger."""
    commit = Lake.commit

    def watched(self, table, operation, write):
        if table != "audits":
            act(table, operation)
        return commit(self, table, operation, write)

    with mock.patch.object(Lake, "commit", watched):
        yield


def seen_by_readers(lake):
    """The rows of the tables that a rebuild writes, as commands read them."""
    reader = duckdb_reader(str(lake), must=True)
    return {name: sorted(map(str, reader.rows(name))) for name in VERSIONS + NOW + DECIDED}


def strings(lake, name, but):
    """The rows of a table without some columns."""
    return sorted(repr([value for key, value in sorted(row.items()) if key not in but]) for row in rows(lake, name))


# Tables whose loss of a version nothing shows: the last audit seems to have been killed; the next audit rebuilds the
# state.
NOT_SHOWN = {"audits", "checkpoints"}


def lost(lake, name, whole):
    """A copy of the lake whose table has lost the newest version of its log; None: it has only that of its creation."""
    newest = max((whole / name / "_delta_log").glob("*.json"))
    if newest.name == f"{0:020d}.json":
        return None
    shutil.copytree(whole, lake)
    (lake / newest.relative_to(whole)).unlink()
    return lake


@pytest.mark.parametrize(
    "name", ["audits", "groups", *some_of(5, *(n for n in TABLES if n not in ("audits", "groups")))]
)
def test_a_reader_reports_a_table_whose_log_has_lost_its_newest_version(java, tmp_path, name):
    lake = lost(tmp_path / "lake", name, java)
    if lake is None:
        return
    if name in NOT_SHOWN:
        assert rows(lake, name) != rows(java, name)
        return
    with pytest.raises(
        KgroupsError, match=rf"has lost the newest version of table {name} \(a file in {name}/_delta_log"
    ):
        DuckDbLake(str(lake)).table(name)


@pytest.mark.parametrize("files", [1, 2])
def test_a_ledger_that_has_lost_its_end_is_not_passed_over_in_silence(session, java, logs, tmp_path, files):
    """It has lost only the row `finished` of the last audit, which seems to have been killed; or its claim, too."""
    lake = shutil.copytree(java, tmp_path / "lake")
    lost = sorted((lake / "audits" / "_delta_log").glob("*.json"))[-files:]
    lost[-1].write_text("")
    for read in (lambda: DuckDbLake(str(lake)), lambda: LakeAsOfAudit.last_finished(Lake(session, str(lake)))):
        with pytest.raises(KgroupsError, match=f"is empty \\(audits/_delta_log/{lost[-1].name}\\)"):
            read()
    for newest in lost:
        newest.unlink()
    if files == 1:
        assert DuckDbLake(str(lake)).audit_id == 1
    else:
        in_spark = LakeAsOfAudit.last_finished(Lake(session, str(lake)))
        acts = [lambda: DuckDbLake(str(lake)), lambda: in_spark.rows("groups"), lambda: audit(session, lake, logs[1])]
        acts += [lambda: rebuild(session, lake), lambda: run_maintain(session, MaintainOptions(lake=str(lake)))]
        for act in acts:
            with pytest.raises(KgroupsError, match=r"rows of audit 2, the ledger ends with audit 1\. Restore them"):
                act()
    audited = audit(session, lake, logs[1], take_over=True, release_version="4.3")
    assert audited.audit.audit_id == 3
    assert contents(lake, NOW + VERSIONS) == contents(java, NOW + VERSIONS)
    [abandoned] = [row for row in rows(lake, "audits") if row["status"] == "abandoned"]
    assert abandoned["audit_id"] == 2
    complete = "although it had written all its rows: it was killed just then, or"
    assert f"audit 3 took over, {complete}" in abandoned["notes"][0]
    assert any(note.startswith(f"audit 2 did not finish, {complete}") for note in audited.audit.notes)


def test_a_lake_without_history_and_a_partition_count_below_the_logs_own_are_refused(local, java, tmp_path):
    Lake.create(local, str(tmp_path / "unaudited"))
    with pytest.raises(UsageError, match=r"no audit of .* has finished"):
        rebuild(local, tmp_path / "unaudited")
    with pytest.raises(UsageError, match="--offsets-partitions 5: there is a partition 5, so there are 6 at least"):
        rebuild(local, java, offsets_partitions=5)


# A rebuild keeps the names that nights saw in records which were replaced later.
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_a_rebuild_keeps_names_of_topics_that_only_replaced_records_have():
    lake = new_lake()
    lake.night(Log().commit("g", topic="orders", topic_id=TOPIC_ID).commit("g").files, How())
    lake.night(Log().commit("h", offset=6).commit("h", offset=7).commit("i").files, How(accept_log_change=True))
    assert [(row["group_id"], row["topic"]) for row in lake.rows("committed_offsets")] == [("h", "t"), ("i", "t")]
    names = [(row["topic_id"], row["topic"]) for row in lake.rows("topics")]
    assert names == [(TOPIC_ID, "orders")]
    assert [(row["topic_id"], row["topic"]) for row in lake.rebuilt().rows("topics")] == names
