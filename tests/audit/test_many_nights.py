"""Nights with Spark and Delta: their tables equal those of one audit of the whole."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest

from kgroups_spark.audit.plan import AnotherLog
from kgroups_spark.audit.result import Shortfall
from kgroups_spark.audit.run import AuditOptions, run_audit
from tests.logs.cleaner import GrowingLog
from tests.logs.dense_logs import dense_log
from tests.logs.every_profile import logs_of_every_profile
from tests.logs.log_files import Files, checkpoint_of
from tests.logs.written_nights import written
from tests.nights.cleaned_nights import random_night, write_folder
from tests.nights.lakes import COMPARED, contents, rows, versions
from tests.nights.nights_here import How
from tests.nights.reported_tables import Reported
from tests.twin.object_nights import by_objects, rebuilt_by_objects


@dataclass(frozen=True)
class Plan:
    """Several nights, in one of which nothing is new. In some of them, the last one included, a log is audited, too,
    that is not audited in the others (`seldom`)."""

    nights: int
    nothing_comes: int
    long_nights: tuple[int, ...]
    seldom: tuple[str, ...]


FEW = Plan(3, 1, (0, 1, 2), ("seldom",))
# Nothing is new in the third of the long nights.
MANY = Plan(10, 6, (2, 5, 6, 9), ("seldom",))


TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
# Years lie between the times in these logs. Nothing is lost here before it is read: nothing need be read again.
NEVER_TOO_LATE_MS = 10**14


def audit(session, lake, segments, **options):
    return run_audit(session, AuditOptions(lake=str(lake), segments=[str(segments)], **options))


@dataclass(frozen=True)
class Lakes:
    """A folder with lakes: `parts` of every night; `seldom` of longer nights; `whole` of one audit. In one night
    nothing is new, for any of them; after most of the others the cleaner runs."""

    folder: Path
    plan: Plan

    @property
    def of_nights(self) -> list[Path]:
        return [self / "parts", *(self / name for name in self.plan.seldom)]

    def __truediv__(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(
    scope="module",
    params=[pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=[pytest.mark.soak, pytest.mark.spark])],
)
def lakes(request, session, tmp_path_factory):
    folder, plan = tmp_path_factory.mktemp("nights"), request.param
    files = logs_of_every_profile()
    every_night, long_nights, rng = GrowingLog(files), GrowingLog(files), np.random.default_rng(4)
    for night in range(plan.nights):
        if night != plan.nothing_comes:
            random_night(every_night, rng, plan.nights - night)
        audited = ["parts"]
        if night in plan.long_nights:
            catch_up(long_nights, every_night, rng)
            audited += plan.seldom
        for name in audited:
            write_committed(folder / "log", (every_night if name == "parts" else long_nights).files)
            audit(session, folder / name, folder / "log", delete_retention_ms=NEVER_TOO_LATE_MS)
        drop_tombstones = bool(rng.random() < 0.5)
        if rng.random() < 0.6:
            every_night.clean(drop_tombstones=drop_tombstones)
        if night in plan.long_nights[:-2]:
            long_nights.clean(drop_tombstones=drop_tombstones)
    write_committed(folder / "whole-log", written(files))
    audit(session, folder / "whole", folder / "whole-log")
    return Lakes(folder, plan)


def write_committed(folder: Path, files: Files) -> None:
    """The folder of a broker that has committed all records: these logs have gaps, also before the last batch."""
    write_folder(folder, {**files, **checkpoint_of(files)})


def catch_up(behind: GrowingLog, ahead: GrowingLog, rng: np.random.Generator) -> None:
    """Appends to one log the records that only the other has, in two segments."""
    for partition in behind.partitions:
        missing = behind.left(partition) - ahead.left(partition)
        for part in (missing // 2, missing - missing // 2):
            behind.append(partition, part)
            if rng.random() < 0.5 and missing:
                behind.roll(partition)


def comparable(lake: Path) -> dict[str, list[str]]:
    """The tables of the lake, but for what is counted, settled or reported night by night, and where a record was."""
    by_night = ("offset_commits", "group_traffic", "quarantine", "group_events")
    tables = contents(lake, [name for name in COMPARED if name not in by_night])
    for name, by_night in (("offset_commits", ("outcome", "marker_offset")), ("quarantine", ("file", "file_position"))):
        for row in (found := rows(lake, name)):
            for column in ("audit_id", *by_night):
                del row[column]
        tables[name] = sorted(map(repr, found))
    return tables


def test_nights_equal_one_audit_of_the_whole(lakes):
    of_whole = comparable(lakes / "whole")
    for lake in lakes.of_nights:
        assert comparable(lake) == of_whole, lake.name


def records_by_night(lake: Path) -> list[int]:
    finished = sorted((row for row in rows(lake, "audits") if row["status"] == "finished"), key=itemgetter("audit_id"))
    return [sum(part["records"] for part in row["partitions"]) for row in finished]


def test_the_nights_are_as_planned(lakes):
    plan = lakes.plan
    by_night = records_by_night(lakes / "parts")
    assert len(by_night) == plan.nights and by_night[plan.nothing_comes] == 0
    for name in plan.seldom:
        counts = records_by_night(lakes / name)
        assert [bool(count) for count in counts] == [night != plan.nothing_comes for night in plan.long_nights]


def test_events_are_those_of_the_slow_twin(lakes):
    """An act ends with the audit that reads it: the twin is given where audits ended."""
    whole = by_objects(logs_of_every_profile(), How())
    assert events_of(whole) == contents(lakes / "whole", ["group_events"])["group_events"] != []
    for name in lakes.plan.seldom:
        spans: dict[int, list[tuple[int, int]]] = {}
        for row in sorted(rows(lakes / name, "audits"), key=itemgetter("audit_id")):
            if row["status"] == "finished":
                for part in row["partitions"]:
                    spans.setdefault(part["offsets_partition"], []).append((part["end_offset"], row["retention_ms"]))
        found = events_of(rebuilt_by_objects(whole, How(), spans))
        assert contents(lakes / name, ["group_events"])["group_events"] == found


def events_of(audited: Reported) -> list[str]:
    """As `contents` has them."""
    return sorted(
        repr(sorted((key, value) for key, value in row.items() if key != "audit_id"))
        for row in audited.table("group_events").to_pylist()
    )


def test_a_log_that_was_cut_back_is_refused_with_the_reason(session, lakes, tmp_path):
    """Its partition alone; the others are audited."""
    lake, why = lakes / "parts", r"partition 2 .* ends at offset \d+, the lake has read it up to"
    before, rows_before = versions(lake), comparable(lake)
    log = GrowingLog(logs_of_every_profile())
    for partition in log.partitions:
        log.append(partition, log.left(partition) - (partition == 2))
    write_committed(tmp_path / "log", log.files)
    with pytest.raises(AnotherLog, match=why):
        audit(session, lake, tmp_path / "log", partitions=[2])
    assert versions(lake) == before
    shutil.copytree(lake, tmp_path / "lake")
    summary = audit(session, tmp_path / "lake", tmp_path / "log", delete_retention_ms=NEVER_TOO_LATE_MS)
    (note,) = [note for note in summary.audit.notes or () if "left to the next audit" in note]
    assert re.match(f"partition 2 is left to the next audit: {why}", note)
    assert (summary.shortfall, summary.lacks_records) == (Shortfall(left=(2,)), True)
    assert comparable(tmp_path / "lake") == rows_before


def test_a_topic_that_was_created_again_is_refused_with_the_reason(session, tmp_path):
    files = dense_log(3)
    write_folder(tmp_path / "log", files)
    identity = tmp_path / "log" / "__consumer_offsets-0" / "partition.metadata"
    identity.write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    audit(session, tmp_path / "lake", tmp_path / "log")
    before = versions(tmp_path / "lake")
    identity.write_text(f"version: 0\ntopic_id: {TOPIC_ID[:-1]}g\n")
    with pytest.raises(AnotherLog, match=rf"has topic id {TOPIC_ID[:-1]}g, the lake holds topic id {TOPIC_ID};"):
        audit(session, tmp_path / "lake", tmp_path / "log")
    assert versions(tmp_path / "lake") == before
