"""Nights with Spark and Delta, by both writers: what they leave is what one audit of the whole leaves."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest

from kgroups_spark.audit.plan import AnotherLog
from kgroups_spark.audit.run import AuditOptions, run_audit
from tests.audit.cleaned_nights import random_night, write_folder
from tests.audit.cleaner import GrowingLog
from tests.audit.dense_logs import dense_log
from tests.audit.lakes import COMPARED, contents, rows, versions
from tests.audit.pipeline import Audited, Files, How, read_zip, rebuild
from tests.audit.pipeline import audit as audit_files
from tests.audit.test_cleaned_nights import written
from tests.audit.test_generated_logs import LOGS

pytestmark = pytest.mark.spark

NIGHTS = 10
# Audits by Spark's writer cost five times as much. Nothing has come in the third of them.
LONG_NIGHTS = (2, 5, 6, 9)
NOTHING_COMES = 6
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
# Years lie between the times in these logs. Nothing is lost here that was not read: nothing need be read again.
NEVER_TOO_LATE_MS = 10**14


def audit(spark, lake, segments, **options):
    return run_audit(spark, AuditOptions(lake=str(lake), segments=[str(segments)], **options))


def logs_of_every_profile() -> Files:
    """One log: each partition is the first of a generated log, the last one is dense."""
    found = read_zip(LOGS)
    names = [min(n for n in found if n.startswith(profile)) for profile in ("adversarial", "compacted", "wellformed")]
    parts = [found[name] for name in names] + [dense_log(7, 40)]
    merged: dict[str, bytes] = {}
    for number, files in enumerate(parts):
        folder = sorted(files)[0].split("/")[0]
        merged |= {
            f"__consumer_offsets-{number}/{path.split('/')[1]}": data
            for path, data in files.items()
            if path.startswith(f"{folder}/")
        }
    return merged


@pytest.fixture(scope="module")
def lakes(spark, tmp_path_factory):
    """Folder of four lakes: ten nights by `parts`; the same log in four longer nights by `spark` and, with the same
    segments, by parts (`seldom`); one audit of the `whole`. In one night nothing comes, for any of them; behind most of
    the others the cleaner runs."""
    folder = tmp_path_factory.mktemp("nights")
    files = logs_of_every_profile()
    every_night, long_nights, rng = GrowingLog(files), GrowingLog(files), np.random.default_rng(4)
    for night in range(NIGHTS):
        if night != NOTHING_COMES:
            random_night(every_night, rng, NIGHTS - night)
        audited = {"parts": "parts"}
        if night in LONG_NIGHTS:
            catch_up(long_nights, every_night, rng)
            audited |= {"spark": "spark", "seldom": "parts"}
        for name, writer in audited.items():
            write_folder(folder / "log", (every_night if name == "parts" else long_nights).files)
            audit(spark, folder / name, folder / "log", writer=writer, delete_retention_ms=NEVER_TOO_LATE_MS)
        drop_tombstones = bool(rng.random() < 0.5)
        if rng.random() < 0.6:
            every_night.clean(drop_tombstones=drop_tombstones)
        if night in LONG_NIGHTS[:-2]:
            long_nights.clean(drop_tombstones=drop_tombstones)
    write_folder(folder / "whole-log", written(files))
    audit(spark, folder / "whole", folder / "whole-log", writer="parts")
    return folder


def catch_up(behind: GrowingLog, ahead: GrowingLog, rng: np.random.Generator) -> None:
    """Writes to one log what the other has more, in two segments."""
    for partition in behind.partitions:
        missing = behind.left(partition) - ahead.left(partition)
        for part in (missing // 2, missing - missing // 2):
            behind.append(partition, part)
            if rng.random() < 0.5 and missing:
                behind.roll(partition)


def comparable(lake: Path) -> dict[str, list[str]]:
    """The tables of the lake, but for what is counted, settled or told night by night, and where a record stood."""
    by_night = ("offset_commits", "group_traffic", "quarantine", "group_events")
    tables = contents(lake, [name for name in COMPARED if name not in by_night])
    for name, by_night in (("offset_commits", ("outcome", "marker_offset")), ("quarantine", ("file", "file_position"))):
        for row in (found := rows(lake, name)):
            for column in ("audit_id", *by_night):
                del row[column]
        tables[name] = sorted(map(repr, found))
    return tables


@pytest.mark.parametrize("name", ["parts", "spark", "seldom"])
def test_nights_are_one_audit_of_the_whole(lakes, name):
    assert comparable(lakes / name) == comparable(lakes / "whole")


def test_the_nights_were_what_they_are_meant_to_be(lakes):
    """Records of each, in order."""
    counts = {}
    for name in ("parts", "spark"):
        finished = sorted(
            (row for row in rows(lakes / name, "audits") if row["status"] == "finished"), key=itemgetter("audit_id")
        )
        counts[name] = [sum(part["records"] for part in row["partitions"]) for row in finished]
    assert len(counts["parts"]) == NIGHTS and counts["parts"][NOTHING_COMES] == 0
    assert [bool(count) for count in counts["spark"]] == [True, True, False, True]


def test_both_writers_wrote_the_same_history(lakes):
    names = ["offset_commits", "group_traffic", "quarantine", "group_events"]
    assert contents(lakes / "seldom", names) == contents(lakes / "spark", names)


def test_events_are_those_of_the_pipeline_without_spark(lakes):
    """An act ends with the audit that reads it: where audits ended is told to the pipeline."""
    read = audit_files(logs_of_every_profile())
    assert events_of(read) == contents(lakes / "whole", ["group_events"])["group_events"] != []
    spans: dict[int, list[tuple[int, int]]] = {}
    for row in sorted(rows(lakes / "spark", "audits"), key=itemgetter("audit_id")):
        if row["status"] == "finished":
            for part in row["partitions"]:
                spans.setdefault(part["offsets_partition"], []).append((part["end_offset"], row["retention_ms"]))
    told = events_of(rebuild(read, How(), spans))
    assert contents(lakes / "spark", ["group_events"])["group_events"] == told


def events_of(audited: Audited) -> list[str]:
    """As `contents` has them."""
    return sorted(
        repr(sorted((key, value) for key, value in row.items() if key != "audit_id"))
        for table in audited.history["group_events"]
        for row in table.to_pylist()
    )


def test_a_log_that_was_cut_back_is_refused_with_the_reason(spark, lakes, tmp_path):
    before = versions(lakes / "parts")
    log = GrowingLog(logs_of_every_profile())
    for partition in log.partitions:
        log.append(partition, log.left(partition) - (partition == 2))
    write_folder(tmp_path / "log", log.files)
    with pytest.raises(AnotherLog, match=r"cut back: partition 2 .* ends at offset \d+, the lake has read it up to"):
        audit(spark, lakes / "parts", tmp_path / "log")
    assert versions(lakes / "parts") == before


def test_a_topic_that_was_made_anew_is_refused_with_the_reason(spark, tmp_path):
    files = dense_log(3)
    write_folder(tmp_path / "log", files)
    identity = tmp_path / "log" / "__consumer_offsets-0" / "partition.metadata"
    identity.write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    audit(spark, tmp_path / "lake", tmp_path / "log")
    before = versions(tmp_path / "lake")
    identity.write_text(f"version: 0\ntopic_id: {TOPIC_ID[:-1]}g\n")
    with pytest.raises(AnotherLog, match=rf"has topic id {TOPIC_ID[:-1]}g, the lake holds topic id {TOPIC_ID};"):
        audit(spark, tmp_path / "lake", tmp_path / "log")
    assert versions(tmp_path / "lake") == before
