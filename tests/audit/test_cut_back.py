"""A log that is cut back and continues with other records: a lake equals a new lake of the log as it is."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.audit.run import AuditOptions, RebuildOptions, run_audit, run_rebuild
from kgroups_spark.audit.same_log import AnotherLog
from kgroups_spark.lake.lake import Lake
from kgroups_spark.sql.by_duckdb import DuckDbLake
from kgroups_spark.sql.by_spark import register_views
from kgroups_spark.sql.views import with_what_they_need
from kgroups_spark.tables.schemas import LOG_TABLES
from tests.chosen import one_of
from tests.logs.cleaner import clean
from tests.logs.cut_corpora import cut_log
from tests.logs.cut_logs import CutLog, random_night
from tests.logs.night_logs import without_outcome
from tests.logs.planned_batches import TOPIC_ID
from tests.nights.cleaned_nights import Nights, write_folder
from tests.nights.forgetful_nights import (
    assert_as_the_log_is,
    assert_rebuild_says_the_same,
    assert_versions_say_what_is,
    log_as_it_is,
)
from tests.nights.lakes import rows
from tests.nights.nights_here import how_of
from tests.nights.reported_tables import CURRENT, RECORD_TABLES, VERSIONS


def now(audited):
    """Everything that a reader sees, but for events, which end with an audit."""
    tables = {name: audited.rows(name) for name in (*CURRENT, *VERSIONS, *RECORD_TABLES)}
    tables["offset_commits"] = [without_outcome(row) for row in tables["offset_commits"]]
    for row in tables["quarantine"]:
        del row["file"], row["file_position"]
    return tables


def audited_anyway(nights, files, reported):
    """One night; where it is refused, the user accepts that."""
    try:
        row = nights.audit(files)
        reported.update("cut" for each in row.replaced_ranges or () if each.audit_id == row.audit_id)
    except AnotherLog as refused:
        assert "--accept-log-change" in str(refused)
        nights.audit(files, accept=True)
        reported["accepted"] += 1


@pytest.mark.in_turn("cut back anywhere")
@pytest.mark.parametrize("release", one_of("4.3", "3.9"))
def test_a_lake_of_a_log_cut_back_anywhere_and_again_equals_a_new_lake(release, chosen):
    reported: Counter[str] = Counter()
    for seed in chosen.some(range(8), 1):
        rng, log = np.random.default_rng(seed), cut_log(seed, release)
        nights = Nights(how_of(release), TOPIC_ID)
        for night in range(8 if chosen.every else 4):
            random_night(log, rng, cut=night > 0 and rng.random() < 0.5)
            audited_anyway(nights, log.files, reported)
            assert now(nights.audited) == now(log_as_it_is(log.files, nights))
            assert_versions_say_what_is(nights.audited)
        assert_rebuild_says_the_same(nights.audited, nights.how)
    if chosen.every:
        assert reported["cut"] > 8
        assert reported["accepted"] > 0


@pytest.mark.in_turn("cut back and cleaned")
@pytest.mark.parametrize("release", one_of("4.3", "3.9"))
def test_a_lake_of_a_log_cleaned_before_and_after_the_cut_equals_a_new_lake(release, chosen):
    reported: Counter[str] = Counter()
    for seed in chosen.some(range(8), 1):
        rng, log = np.random.default_rng(seed), cut_log(seed, release)
        nights = Nights(how_of(release), TOPIC_ID)
        for _ in range(8 if chosen.every else 4):
            is_cut = bool(nights.audited.nights) and rng.random() < 0.5
            random_night(log, rng, cut=is_cut)
            files = clean(log.files, drop_tombstones=bool(rng.random() < 0.5)) if rng.random() < 0.7 else log.files
            audited_anyway(nights, files, reported)
            row = nights.audited.nights[-1].audit
            if row.replaced_ranges and row.replaced_ranges[-1].audit_id == row.audit_id:
                assert_as_the_log_is(nights, files)
        again = nights.audited.rebuilt(nights.how)
        for name in (*CURRENT, *VERSIONS):
            assert again.rows(name) == nights.audited.rows(name), name
    assert not chosen.every or reported["cut"] > 8


# A log that was cut back: all readers, rebuilt, and reduced.
pytestmark = pytest.mark.usefixtures("findings_not_sought")

HISTORY = (*LOG_TABLES, "group_versions", "group_member_versions")
NOW = ("groups", "group_members", "committed_offsets", "pending_offsets", "open_transactions", "offset_expiry")
VIEWS = ("coverage", "known_history", "offset_history", "partition_owners", "transactions", "group_history", "lag")
MOMENTS = ("groups_as_of", "group_members_as_of", "committed_offsets_as_of", "pending_offsets_as_of")
AS_OF = 2_000_000_000_000
# Rows of these two are after a cut.
CUT = ("offset_commits", "group_versions")


class Cut:
    """Two partitions of a log, and a lake of it; `new` is a lake of the log as it is in the end."""

    def __init__(self, session, folder):
        self.session, self.folder = session, folder
        self.logs = [cut_log(5, "4.3", 0), cut_log(9, "4.3", 1)]
        self.rng = np.random.default_rng(3)

    def night(self, *cut, lake="lake", accept=False):
        for log in self.logs:
            random_night(log, self.rng, cut=log.partition in cut)
        return self.audit(lake, accept=accept)

    def audit(self, lake, *, accept=False):
        write_folder(self.folder / "log", {path: data for log in self.logs for path, data in log.files.items()})
        for folder in (self.folder / "log").iterdir():
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
        options = AuditOptions(
            lake=str(self.folder / lake),
            segments=[str(self.folder / "log")],
            as_of=AS_OF,
            offsets_partitions=50,
            accept_log_change=accept,
        )
        return run_audit(self.session, options).audit

    def rebuild(self):
        options = RebuildOptions(lake=str(self.folder / "lake"), offsets_partitions=50)
        run_rebuild(self.session, options)

    def elect(self, partition, kept):
        log: CutLog = self.logs[partition]
        log.elect(kept)
        log.grow(3)

    def reported(self, lake="lake"):
        """The rows of history, current tables and views, as a reader without Spark sees them."""
        queries = {name: f"SELECT * FROM {name}" for name in (*HISTORY, *NOW, *VIEWS)}
        queries |= {name: f"SELECT * FROM {name}(TIMESTAMPTZ '1970-01-01 00:00:01.5+00')" for name in MOMENTS}
        opened = DuckDbLake(str(self.folder / lake))
        return {
            name: reported(opened.query(query).to_pylist(maps_as_pydicts="strict")) for name, query in queries.items()
        }

    def tables(self, *names, lake="lake"):
        """The rows of these tables, read without SQL."""
        opened = DuckDbLake(str(self.folder / lake))
        return {name: reported(opened.rows(name).to_pylist(maps_as_pydicts="strict")) for name in names}


def reported_by_spark(spark, lake, names=(*HISTORY, *VIEWS)):
    register_views(spark, Lake.open(spark, str(lake)), with_what_they_need(names))
    queries = {name: f"SELECT * FROM {name}" for name in names}
    return {
        name: reported(spark.sql(query).toArrow().to_pylist(maps_as_pydicts="strict"))
        for name, query in queries.items()
    }


def reported(found, without=()):
    # A row knows its marker if the same range had both.
    left_out = {"audit_id", "file", "file_position", "outcome", "marker_offset", *without}
    return sorted(repr(sorted((key, value) for key, value in row.items() if key not in left_out)) for row in found)


def test_spark_continues_a_lake_whose_log_was_cut_back(spark, local, tmp_path, chosen):
    """In a soak; in `make test` it reads some tables that this process continued."""
    log = Cut(local, tmp_path)
    for _ in range(3):
        log.night()
    log.elect(0, len(log.logs[0].batches) - 2)
    log.session = spark if chosen.every else local
    assert [each.offsets_partition for each in log.night().replaced_ranges or ()] == [0]
    log.session = local
    log.audit("new")
    said = log.reported()
    assert said == log.reported("new")
    names = chosen.some((*HISTORY, *VIEWS), 0, always=CUT)
    by_spark = reported_by_spark(spark, tmp_path / "lake", names)
    assert by_spark == {name: said[name] for name in by_spark}
    assert [name for name in CUT if len(rows(tmp_path / "lake", name)) == len(said[name])] == []


@pytest.mark.in_turn("cut back into reduced history")
def test_a_cut_into_reduced_history_is_refused_and_replaced_rows_hide_no_others(session, tmp_path):
    log = Cut(session, tmp_path)
    for _ in range(2):
        log.night()
    log.elect(0, len(log.logs[0].batches) - 2)
    log.night()
    log.audit("new")
    run_maintain(session, MaintainOptions(lake=str(tmp_path / "lake"), keep_ms=0))
    new = log.tables(*NOW, lake="new")
    assert log.tables(*NOW) == new
    log.rebuild()
    assert log.tables(*NOW) == new
    log.elect(0, len(log.logs[0].batches) - 1)
    (note,) = [note for note in log.audit("lake").notes or () if "left to the next audit" in note]
    assert note.startswith("partition 0 is left") and "kgroups maintain --keep has reduced: use a new lake; if" in note
    assert "--accept-log-change replaces what the lake has of it" in note
    assert log.tables(*NOW) == new
    row = log.audit("lake", accept=True)
    assert (row.replaced_ranges or ())[-1].from_offset == 0
    log.audit("newer")
    assert log.tables(*NOW) == log.tables(*NOW, lake="newer")
