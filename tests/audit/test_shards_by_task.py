"""The shards of a night go to tasks by their weight, and a small night is one task."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from kgroups_spark.audit.log_source import AuditSettings
from kgroups_spark.audit.plan import AuditPlan
from kgroups_spark.audit.work import AuditWork, SavedState
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.replay.range_decoder import RangeProgress
from kgroups_spark.replay.shard_states import RECORDS_OF_A_TASK
from kgroups_spark.spark.tasks import Processes
from tests.logs.dense_logs import dense_log
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import Files, read_zip
from tests.nights.nights_here import How, audit

SLOTS = 2


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


def shards_by_task(state: dict[int, int], read: dict[int, int]) -> tuple[tuple[int, ...], ...]:
    """The shards of each task, where the saved state has so many rows and the night has read so many records."""
    lake: Any = SimpleNamespace(runner=Processes(SLOTS))
    partitions = tuple(PartitionProgress(number, 0, 1) for number in state.keys() | read.keys())
    before = AuditRow(1, "finished", "t", datetime(2026, 1, 1, tzinfo=UTC), partitions=partitions)
    settings = AuditSettings("4.3", 1, "option", 1, 0)
    work = AuditWork(lake, None, AuditPlan([], None), before, SavedState(1, rows=state), settings, print)  # type: ignore[arg-type]
    return work.shards_by_task(
        [RangeProgress(number, 0, 0, 1, records=records) for number, records in read.items()]
    ).shards


def test_a_small_night_is_one_task() -> None:
    assert shards_by_task({0: 10, 1: 10, 2: 10}, {3: 10}) == ((0, 1, 2, 3),)


def test_a_shards_weight_counts_the_rows_of_its_state_and_the_records_read() -> None:
    large = RECORDS_OF_A_TASK
    assert shards_by_task({0: large, 1: large, 2: 10}, {0: large, 2: 2 * large}) == ((2,), (0,), (1,))
    # No more than twice as many as can run at the same time.
    assert len(shards_by_task({}, dict.fromkeys(range(9), large))) == 2 * SLOTS


def test_the_tables_of_a_small_night_are_one_part_each() -> None:
    files = logs_of_every_profile()
    for how, tasks in ((How(), 1), (How(in_ranges=True), 2)):
        audited = audit(files, how)
        newest = audited.session.store.logs[f"file:{audited.lake}/groups"][-1]
        assert newest.text.count('{"add":') == tasks
