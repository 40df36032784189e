"""A live log that is cleaned while it is read: the rows are a state that it had (replay/range_decoder.py)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgroups_spark.audit.plan import DeleteRetention, plan_audit
from kgroups_spark.audit.result import unsettled, unsettled_note
from kgroups_spark.audit.work import AuditWork
from kgroups_spark.cluster import fetch
from kgroups_spark.cluster.fetch import FetchLimits
from kgroups_spark.cluster.live_log import PieceOpener, live_logs
from kgroups_spark.cluster.requests import OffsetAnswer
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.ledger import FINISHED, AuditRow, PartitionProgress
from kgroups_spark.replay import history_rows, sinks
from kgroups_spark.replay.counts import summed
from kgroups_spark.replay.range_decoder import MOST_ROUNDS, readings
from kgroups_spark.replay.ranges import RangeProgress, ReadContext
from kgroups_spark.replay.sinks import AGAIN, FACT, FOR_REPLAY, PASSED_ON, ROWS, written
from kgroups_spark.replay.stages import read_tasks, rows_of_ranges
from kgroups_spark.sources.partition_log import LeaderLost
from kgroups_spark.spark.tasks import lines_in
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import to_epoch_ms
from tests.logs.cleaner import GrowingLog, batches_of
from tests.records.build import batch
from tests.sources.fake_cluster import FakeCluster, fake_time

__all__ = ["fake_time"]

PATH = "__consumer_offsets-0/00000000000000000000.log"
BUSY, IDLE = b"busy", b"idle"
DAY_MS = 86_400_000


def commit(group, committed_offset):
    key = b"\0\1\0\4" + group + b"\0\1t\0\0\0\0"
    return key, b"\0\3" + committed_offset.to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\0" + bytes(8)


# Each commits its own log offset. `idle` commits at first and never again, `busy` all the time.
WRITTEN = [batch(offset, [commit(IDLE if offset == 1 else BUSY, offset)]) for offset in range(200)]
ONE_BATCH = len(WRITTEN[0])


@dataclass
class CleanedCluster(FakeCluster):
    """`happens`: what is done to the log before each request, one after the other; then nothing."""

    log: GrowingLog = field(default_factory=lambda: GrowingLog({PATH: b"".join(WRITTEN)}))
    happens: list[Callable[[GrowingLog], object]] = field(default_factory=list)
    then: Callable[[GrowingLog], object] | None = None

    def __post_init__(self):
        self.script = []
        write(self.log, 6)
        self._look()

    def _look(self):
        self.batches = [each.data for path in sorted(self.log.files) for each in batches_of(self.log.files[path])]

    @property
    def end(self):
        return len(WRITTEN) - self.log.left(0)

    def _pass(self):
        step = self.happens.pop(0) if self.happens else self.then
        if step is not None:
            step(self.log)
        self._look()

    def fetch(self, *arguments, **more):
        self._pass()
        return super().fetch(*arguments, **more)

    def list_offsets(self, *arguments, **more):
        self._pass()
        return super().list_offsets(*arguments, **more)


def write(log, batches=2):
    log.append(0, batches)
    log.roll(0)


def clean(log):
    log.clean()


def write_and_clean(log):
    write(log)
    log.clean()


def nothing(log):
    """Leaves the log alone for one request."""


@dataclass
class Read:
    """A task's reading of partition 0: committed offset by group, counts, and the progress of its ranges."""

    committed: dict[str, int]
    traffic: list[pa.Table]
    progress: list[RangeProgress]

    @property
    def end(self):
        return max(each.next_offset for each in self.progress)


def read(cluster, plan):
    opener = PieceOpener(cluster.as_cluster(), FetchLimits())
    context = ReadContext(1, "4.3", open, opener=opener)
    rows: dict[str, list[pa.Table]] = {"offset_commits": [], "group_traffic": []}
    progress: list[RangeProgress] = []
    for reading in readings([*plan.reread_ranges, *plan.new_ranges], context):
        for decoder in reading.decoders():
            for name, table in decoder.outputs():
                rows.setdefault(name, []).append(pa.table(table))
            progress.append(decoder.progress)
    commits = [row for table in rows["offset_commits"] for row in table.to_pylist()]
    commits.sort(key=lambda row: row["log_offset"])
    return Read({row["group_id"]: row["committed_offset"] for row in commits}, rows["group_traffic"], progress)


def planned(cluster, last=None, **options):
    return plan_audit(live_logs(cluster.as_cluster(), "t").logs, last, **options)


def as_it_was(end):
    """The committed offsets that a coordinator had when the log ended there, by group."""
    state = {"busy": max(offset for offset in range(end) if offset != 1)}
    return state | ({"idle": 1} if end > 1 else {})


@pytest.fixture(autouse=True)
def two_batches_at_once(monkeypatch):
    monkeypatch.setattr(fetch, "RESPONSE_BYTES", 2 * ONE_BATCH)


STEPS = (nothing, write, clean, write_and_clean)


def test_whenever_the_log_is_written_rolled_and_cleaned_the_state_is_one_that_existed(chosen):
    every = itertools.product(STEPS, repeat=7)
    for steps in chosen.some(every, 30, always=[(nothing,) * 3 + (write_and_clean,) * 4]):
        cluster = CleanedCluster([])
        plan = planned(cluster)
        cluster.happens = list(steps)
        found = read(cluster, plan)
        assert found.committed == as_it_was(found.end), steps
        assert unsettled(found.progress) == ()


def test_a_quiet_log_is_asked_once_more_for_its_end_and_not_fetched():
    cluster = CleanedCluster([])
    plan = planned(cluster)
    cluster.requests.clear()
    found = read(cluster, plan)
    assert [(each.number, each.next_offset) for each in found.progress] == [(0, 6)]
    assert len(cluster.requests) == 3


def test_counts_of_a_partition_that_is_read_on_are_one_row_per_group_and_hour():
    cluster = CleanedCluster([])
    plan = planned(cluster)
    cluster.happens = [write_and_clean] * 5
    found = read(cluster, plan)
    rows = summed(pa.concat_tables(found.traffic)).to_pylist()
    assert len(found.progress) > 2
    assert {row["group_id"] for row in rows} == {"busy", "idle"} and len(rows) == 2
    assert sum(row["commits"] for row in rows) == sum(each.records for each in found.progress)


def test_a_log_that_is_cleaned_faster_than_it_can_be_read_is_reported():
    cluster = CleanedCluster([])
    plan = planned(cluster)
    cluster.then = write_and_clean
    found = read(cluster, plan)
    assert len(found.progress) == 1 + MOST_ROUNDS
    (note,) = unsettled_note(unsettled(found.progress))
    assert note.startswith("partition 0: cleaned faster than the audit could read, 20 times in a row")


def ledger_row(end, age_days=2):
    """An audit that read the partition up to this end, this many days ago."""
    progress = PartitionProgress(0, 0, end, records=end)
    started = datetime(2026, 11, 20, tzinfo=UTC) - timedelta(days=age_days)
    return AuditRow(1, FINISHED, "host", started, cluster_id="one", partitions=(progress,))


def delete_retention(last):
    now = to_epoch_ms(datetime(2026, 11, 20, tzinfo=UTC))
    return DeleteRetention(DAY_MS, last, iter(()), now)


def test_a_partition_that_is_read_again_is_read_on_as_well():
    cluster = CleanedCluster([])
    plan = planned(cluster, ledger_row(6), full=True)
    assert plan.new_ranges == []
    cluster.happens = [nothing, write_and_clean, nothing]
    found = read(cluster, plan)
    assert [each.number for each in found.progress] == [-1, 1]
    assert found.progress[0].missing and found.progress[1].start_offset == 6
    assert plan.settled(found.progress) is plan


class TestReadAgainAfterLong:
    """R6: missing offsets are found while reading, not by a fetch beforehand."""

    def plan(self, cluster):
        last = ledger_row(2)
        plan = planned(cluster, last, delete_retention=delete_retention(last))
        assert plan.read_again == [] and [p.undecided is not None for p in plan.partitions] == [True]
        return plan

    def test_only_where_offsets_are_missing(self):
        cluster = CleanedCluster([])
        cluster.requests.clear()
        plan = self.plan(cluster)
        assert [request.max_bytes for request in cluster.requests] == [4096]  # is it allowed to read?
        found = read(cluster, plan)
        assert [each.number for each in found.progress] == [0]
        settled = plan.settled(found.progress)
        assert (settled.read_again, settled.reread_ranges, settled.notes) == ([], [], [])

    def test_and_then_before_it_is_read_on(self):
        cluster = CleanedCluster([])
        plan = self.plan(cluster)
        cluster.happens = [write_and_clean]
        found = read(cluster, plan)
        assert [each.number for each in found.progress] == [0, -1, 1]
        settled = plan.settled(found.progress)
        assert [p.offsets_partition for p in settled.read_again] == [0]
        (note,) = settled.notes
        assert "partition 0 was read again from its start: last read 2d ago" in note
        assert "of 6 offsets were gone" in note


class TestLeaderLost:
    def lost(self, plan, *partitions):
        return [
            RangeProgress(p, 0, 0, 0, given_up=f"t-{p} has returned nothing", leader_lost=True)
            if p in partitions
            else RangeProgress(p, 0, 0, 6, records=6)
            for p in (each.offsets_partition for each in plan.partitions)
        ]

    def test_while_reading_on(self, monkeypatch):
        cluster = CleanedCluster([])
        plan = planned(cluster)
        no_leader = OffsetAnswer(None, "LEADER_NOT_AVAILABLE")
        monkeypatch.setattr(cluster, "list_offsets", lambda places, at, **_: dict.fromkeys(places, no_leader))
        with pytest.raises(LeaderLost, match=r"t-0 has no leader to report its end: LEADER_NOT_AVAILABLE"):
            read(cluster, plan)

    def two_partitions(self):
        plan = planned(CleanedCluster([]))
        (one,) = plan.partitions
        other = one._replace(log=replace(one.log, number=1), new=one.new._replace(offsets_partition=1))
        return replace(plan, partitions=[one, other])

    def test_that_partition_is_left_to_the_next_audit(self):
        plan = self.two_partitions()
        settled = plan.settled(self.lost(plan, 1))
        assert ([p.offsets_partition for p in settled.partitions], [*settled.left]) == ([0], [1])
        assert settled.left_notes == ["partition 1 is left to the next audit: t-1 has returned nothing"]

    def test_the_note_on_several_quotes_one_and_says_so(self):
        plan = replace(self.two_partitions(), left={3: LeaderLost("t-3 is away"), 5: LeaderLost("t-5 says NOT_LEADER")})
        said = "partitions 3, 5 are left to the next audit: t-3 is away; the leaders of the others were lost, too"
        assert plan.left_notes == [said]

    def test_after_the_first_other_partitions_are_waited_for_less(self):
        cluster = CleanedCluster([])
        opener = PieceOpener(cluster.as_cluster(), FetchLimits())
        opener.lose_patience()
        assert (opener.limits.timeout_ms, cluster.timeout_ms) == (5_000, 5_000)

    def test_of_all_partitions_is_an_error(self):
        plan = self.two_partitions()
        with pytest.raises(KgroupsError, match="nothing could be read to its end: t-0 has returned nothing"):
            AuditWork.settle(SimpleNamespace(plan=plan), self.lost(plan, 0, 1))  # type: ignore[arg-type]

    @pytest.mark.parametrize(("rows_per_part", "bytes_at_once"), [(1, 1), (4, 1), (50, 1), (50, 1000), (1000, 10_000)])
    def test_no_reported_part_has_rows_of_that_partition(self, rows_per_part, bytes_at_once, tmp_path, monkeypatch):
        """Nor is any row of the partitions read before it missing, though parts with both were written."""
        monkeypatch.setattr(sinks, "ROWS_PER_PART", rows_per_part)
        monkeypatch.setattr(sinks, "BYTES_AT_ONCE", bytes_at_once)
        monkeypatch.setattr(sinks, "LINES_AT_ONCE", rows_per_part)
        monkeypatch.setattr(history_rows, "ROWS_AT_ONCE", 1)
        for name in (*TABLES, *(f"work/{name}" for name in FOR_REPLAY)):
            (tmp_path / name).mkdir(parents=True)
        cluster = CleanedCluster([])
        write(cluster.log, 30)
        lost = list[int]()
        (new,) = planned(cluster).new_ranges
        (piece,) = new.pieces
        ranges = [new._replace(offsets_partition=p, pieces=(piece._replace(partition=p),)) for p in range(3)]

        class Opener(PieceOpener):
            @contextmanager
            def __call__(self, piece):
                with super().__call__(piece._replace(partition=0)) as log:
                    yield LosesItsLeader(log) if piece.partition == 1 else log

            def end_of(self, piece):
                return super().end_of(piece._replace(partition=0))

            def lose_patience(self):
                lost.append(1)

        opener = Opener(cluster.as_cluster(), FetchLimits())
        context = ReadContext(1, "4.3", open, opener=opener, chunk_bytes=ONE_BATCH)
        numbers = rows_of_ranges([ranges])[0].to_batches()
        folders = {ROWS: str(tmp_path), PASSED_ON: str(tmp_path / "work"), AGAIN: str(tmp_path / "work")}
        collectors = {kind: sinks.PartCollector(folder, 1) for kind, folder in folders.items()}
        reported = written(partial(read_tasks, ranges, context), collectors, iter(numbers))
        lines = lines_in(reported)
        parts = [payload for kind, payload in lines if kind == ROWS and payload["table"] == "offset_commits"]
        tables = [pq.read_table(tmp_path / "offset_commits" / part["path"]) for part in parts]
        read = [(row["offsets_partition"], row["log_offset"]) for table in tables for row in table.to_pylist()]
        assert sorted(read) == [(p, offset) for p in (0, 2) for offset in range(36)]
        given_up = {payload["offsets_partition"]: payload["given_up"] for kind, payload in lines if kind == FACT}
        assert given_up == {0: None, 1: "t-1 has returned nothing", 2: None}
        passed_on = [payload for kind, payload in lines if kind == PASSED_ON]
        counts = [pq.read_table(tmp_path / "work" / part["table"] / part["path"]) for part in passed_on]
        assert {row["offsets_partition"] for table in counts for row in table.to_pylist()} == {0, 2}
        assert lost == [1]


class LosesItsLeader:
    """A fetched log whose leader is lost after its first answers."""

    def __init__(self, log):
        self._log, self._reads = log, 0

    def seek(self, position):
        return int(self._log.seek(position))

    def readinto(self, buffer):
        self._reads += 1
        if self._reads > 20:
            raise LeaderLost("t-1 has returned nothing")
        return int(self._log.readinto(buffer[:ONE_BATCH]))
