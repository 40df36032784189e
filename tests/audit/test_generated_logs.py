"""Generated logs through the whole audit: its tables equal what Kafka's own coordinator classes held after a load."""

from __future__ import annotations

import json
import zipfile
from datetime import datetime
from functools import cache

import pytest

from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.rows import AssignedPartition, GroupRow, MemberRow, Task
from kgroups_spark.tables.rows import FIRST_MS
from kgroups_spark.words import LAST_MS
from tests.chosen import one_of
from tests.coordinator.generated_logs import UNLOADED_AT_THE_END
from tests.coordinator.oracle_answers import differences
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import read_zip
from tests.nights.nights_here import How, audit
from tests.twin.shard import CommittedRow, PendingRow

TIMES = ("commitTimestamp", "expireTimestamp", "currentStateTimestamp")


class TablesAsShard:
    """The tables of one offsets partition, with the rows of a shard."""

    def __init__(self, audited, offsets_partition, version):
        self.release = release(version)
        self._audited = audited
        self._partition = offsets_partition

    def group_rows(self):
        return (GroupRow(**row) for row in self._rows("groups"))

    def member_rows(self):
        for row in self._rows("group_members"):
            for name, value in row.items():
                if value is not None and name.endswith("_partitions"):
                    row[name] = [AssignedPartition(**each) for each in value]
                if value is not None and name.endswith("_tasks"):
                    row[name] = [Task(**each) for each in value]
            yield MemberRow(**row)

    def committed_rows(self):
        return (CommittedRow(**row) for row in self._rows("committed_offsets"))

    def pending_rows(self):
        return (PendingRow(**row) for row in self._rows("pending_offsets"))

    def failed(self):
        """Log offsets of records that a real coordinator would refuse to load."""
        return sorted({row["log_offset"] for row in self._rows("quarantine") if row["coordinator_fails"]})

    def _rows(self, table):
        rows = (row for row in self._audited.rows(table) if row["offsets_partition"] == self._partition)
        return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value):
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


def as_table_times(answer):
    """The answer with its times as a TIMESTAMP column has them: -1 is none, others the nearest that it can hold."""
    if isinstance(answer, list):
        return [as_table_times(each) for each in answer]
    if isinstance(answer, dict):
        return {name: _table_time(value) if name in TIMES else as_table_times(value) for name, value in answer.items()}
    return answer


def _table_time(ms):
    return None if ms is None or ms == -1 else min(max(ms, FIRST_MS), LAST_MS)


@cache
def answers(version):
    """By log, one answer per offsets partition."""
    with zipfile.ZipFile(LOGS) as archive:
        return json.loads(archive.read(f"answers/{version}.json"))


def reported_otherwise(log, audited, version, answer):
    """A line for each difference between the tables and Kafka's answer about one partition."""
    tables = TablesAsShard(audited, answer["partition"], version)
    failed = tables.failed()
    if tables.release.coordinator == "scala":  # its loader does not go on after a failure
        fails = answer["failed"] and not (answer["failed"]["message"] or "").startswith(UNLOADED_AT_THE_END)
        if fails or failed:
            same = bool(fails) == bool(failed)
            return [] if same else [f"{log}-{answer['partition']}: fails {answer['failed']}, ours {failed}"]
        failed = None
    found = differences(as_table_times(answer), tables, failed)
    return [f"{log}-{answer['partition']} {line}" for line in found]


@pytest.mark.parametrize("version", one_of("4.3.1", "4.2.1", "4.1.2", "4.0.2", "3.9.2"))
def test_tables_agree_with_kafkas_own_classes(version, chosen):
    found, logs = [], read_zip(LOGS)
    for log in chosen.some(logs, len(logs) // 24):
        files = logs[log]
        audited = audit(files, How(version))
        assert audited.record_count() == audited.records_read()
        for answer in answers(version)[log]:
            found += reported_otherwise(log, audited, version, answer)
    assert not found, "\n".join(found[:20])
