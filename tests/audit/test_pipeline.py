"""The steps of an audit as jobs/nightly_audit.py takes them, on RDDs of this process: its tables are those of
`run_audit`, and a pipeline that loses rows or steps does not count."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kgroups_spark.audit.run import AuditOptions, begin_audit
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.local import Local
from kgroups_spark.spark.tasks import Processes, lines_in
from tests.audit.archives import rows_of, tables
from tests.logs.corpora import files_of
from tests.logs.dense_logs import dense_log
from tests.logs.log_files import files_of_nights, random_cuts
from tests.logs.night_logs import reported
from tests.nights.nights_here import How, audit, audit_nights, new_lake, write_files
from tests.recorded_state_logs import write_logs

JOB = runpy.run_path(str(Path(__file__).parents[2] / "jobs" / "nightly_audit.py"))["nightly_audit"]
FILES = dense_log(3)
HOW = How(offsets_partitions=50)


@dataclass
class Rdd:
    """The part of an RDD that the job uses: the record batches of each task."""

    tasks: list[list[pa.RecordBatch]]

    def mapPartitions(self, function):
        return Rdd([[*function(iter(batches))] for batches in self.tasks])

    def map(self, function):
        return Rdd([[*map(function, batches)] for batches in self.tasks])

    def collect(self):
        return [batch for batches in self.tasks for batch in batches]


class RddsHere(Processes):
    """The RDDs of a session, without Spark; the tasks run in this process."""

    def rows(self, given, files=()):
        return Rdd([table.to_batches() for table in given])

    def function(self, task):
        return task

    def collected(self, reports):
        return lines_in(reports.collect())


def in_rdds(audited):
    audited.session = Local(audited.session.store, RddsHere(slots=3))
    return audited


def night(audited, files, pipeline):
    with mock.patch("tests.nights.nights_here.run_audit", pipeline):
        audited.night(files, HOW)


def ended(step, rows=None):
    step.end((rows or step.rows).mapPartitions(step.function))


def by_steps(end):
    """A pipeline that ends its steps of reading and replaying in this way."""

    def pipeline(spark, options):
        with begin_audit(spark, options) as begun:
            begun.replay_state_logs()
            for step in begun.read():
                end("read", step)
            end("replay", begun.replay())
            begun.append_history()
            begun.replace_current()
            begun.save_state()
            return begun.finish()

    return pipeline


def test_the_job_makes_the_tables_of_run_audit():
    cuts = random_cuts(FILES, np.random.default_rng(1), nights=3, ranges=1)
    by_job = in_rdds(new_lake())
    for files in files_of_nights(FILES, cuts):
        night(by_job, files, JOB)
    whole = audit_nights(FILES, cuts, HOW)
    assert reported(by_job, FILES) == reported(whole, FILES)
    assert [each.audit.audit_id for each in by_job.nights] == [each.audit.audit_id for each in whole.nights]
    assert not (by_job.folder / "lake" / "_work").exists() or not [*(by_job.folder / "lake" / "_work").iterdir()]


def test_the_rows_of_the_steps_are_ranges_and_shards():
    seen = dict[str, pa.Table]()

    def shown(name, step):
        seen[name] = pa.Table.from_batches(step.rows.collect())
        ended(step)

    audited = in_rdds(new_lake())
    night(audited, FILES, by_steps(shown))
    progress = {each.offsets_partition: each for each in audited.newest.partitions or ()}
    assert sorted(seen["read"]["offsets_partition"].to_pylist()) == sorted(progress)
    assert sorted(seen["read"]["range"].to_pylist()) == [*range(len(progress))]
    shards = dict(zip(*(seen["replay"][name].to_pylist() for name in ("shard", "records")), strict=True))
    assert shards == {number: each.records for number, each in progress.items()}


@pytest.mark.parametrize(
    ("what", "column", "said"), [("read", "offsets_partition", "read"), ("replay", "shard", "replayed")]
)
def test_rows_that_a_pipeline_drops_are_refused_and_the_next_night_has_them(what, column, said):
    dropped = min(int(path.partition("-")[2].partition("/")[0]) for path in FILES if path.startswith("__consumer_off"))

    def dropping(name, step):
        def kept(rows):
            return rows.filter(pc.field(column) != dropped) if name == what else rows

        ended(step, step.rows.map(kept))

    audited = in_rdds(new_lake())
    with pytest.raises(
        KgroupsError, match=rf"partition {dropped} was not {said} whole: rows of the step were left out"
    ):
        night(audited, FILES, by_steps(dropping))
    night(audited, FILES, JOB)
    assert reported(audited, FILES) == reported(audit(FILES, HOW), FILES)


def _without_reading(begun):
    begun.replay_state_logs()
    begun.replay()


def _reading_without_end(begun):
    begun.replay_state_logs()
    [*begun.read()]


def _without_state(begun):
    begun.replay_state_logs()
    for step in begun.read():
        ended(step)
    ended(begun.replay())
    begun.append_history()
    begun.replace_current()


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (_without_reading, "replay cannot come here"),
        (_reading_without_end, "a step of the audit has not ended: reading "),
        (_without_state, "the audit cannot finish without its step save_state"),
    ],
)
def test_a_pipeline_without_one_of_its_steps_does_not_count(steps, said):
    def pipeline(spark, options):
        with begin_audit(spark, options) as begun:
            steps(begun)
            return begun.finish()

    audited = in_rdds(new_lake())
    with pytest.raises(KgroupsError, match=said):
        night(audited, FILES, pipeline)
    night(audited, FILES, JOB)
    assert reported(audited, FILES) == reported(audit(FILES, HOW), FILES)


def test_the_job_takes_an_archive_in_a_folder(tmp_path):
    folder = write_logs("transactions-4.4", tmp_path / "log", "__transaction_state")
    files = files_of("transactions-4.4")
    write_files(folder, {**files, **{f"{p.parent.name}/{p.name}": p.read_bytes() for p in folder.glob("*/*.log")}})
    (tmp_path / "archive").mkdir()
    pq.write_table(rows_of(folder), tmp_path / "archive" / "part.parquet")
    for name, given in (("a", {"segments": [str(folder)]}), ("b", {"records": str(tmp_path / "archive")})):
        options = AuditOptions(lake=str(tmp_path / name), release_version="4.4", offsets_partitions=4, **given)
        assert JOB(Local(runner=RddsHere(slots=1)), options).audit.audit_id == 1
    assert tables(tmp_path / "a") == tables(tmp_path / "b")
