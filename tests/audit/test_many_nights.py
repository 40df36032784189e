"""Nights with Spark and Delta: their tables equal those of one audit of the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from tests.logs.cleaner import GrowingLog
from tests.logs.every_profile import logs_of_every_profile
from tests.logs.log_files import Files, checkpoint_of
from tests.logs.written_nights import written
from tests.nights.cleaned_nights import random_night, write_folder
from tests.nights.lakes import COMPARED, contents, rows

# Years lie between the times in these logs. Nothing is lost here before it is read: nothing need be read again.
NEVER_TOO_LATE_MS = 10**14
NOTHING_NEW = 1


def audit(session, lake, segments):
    run_audit(session, AuditOptions(str(lake), [str(segments)], delete_retention_ms=NEVER_TOO_LATE_MS))


def write_committed(folder: Path, files: Files) -> None:
    """The folder of a broker that has committed all records: these logs have gaps, also before the last batch."""
    write_folder(folder, {**files, **checkpoint_of(files)})


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


@pytest.mark.parametrize("nights", [3, pytest.param(10, marks=[pytest.mark.soak, pytest.mark.spark])])
def test_nights_equal_one_audit_of_the_whole(nights, session, tmp_path):
    """In one of them nothing is new; after most of the others the cleaner runs."""
    files = logs_of_every_profile()
    log, rng = GrowingLog(files), np.random.default_rng(4)
    for night in range(nights):
        if night != NOTHING_NEW:
            random_night(log, rng, nights - night)
        write_committed(tmp_path / "log", log.files)
        audit(session, tmp_path / "nights", tmp_path / "log")
        if rng.random() < 0.6:
            log.clean(drop_tombstones=bool(rng.random() < 0.5))
    write_committed(tmp_path / "log", written(files))
    audit(session, tmp_path / "whole", tmp_path / "log")
    assert comparable(tmp_path / "nights") == comparable(tmp_path / "whole")
    finished = [row for row in rows(tmp_path / "nights", "audits") if row["status"] == "finished"]
    records = {row["audit_id"]: sum(part["records"] for part in row["partitions"]) for row in finished}
    assert [number for number, count in records.items() if not count] == [NOTHING_NEW + 1] and len(records) == nights
