"""The nightly job on a standalone cluster of two workers: drivers, executors and nodes in processes of their own."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.spark.session import PER_SESSION
from tests.chosen import is_its_turn, some_of
from tests.nights.lakes import contents, copy_until, rows

ROOT = Path(__file__).parents[2]
NIGHTS = (0.4, 1.0)


@pytest.fixture(scope="session")
def shared(log, tmp_path_factory):
    """A folder that all nodes mount: the log as of each night."""
    folder = tmp_path_factory.mktemp("shared")
    for share in NIGHTS:
        copy_until(log, folder / f"log-{share}", share)
    return folder


@pytest.fixture(scope="session")
def made_here(local, shared, tmp_path_factory):
    """The tables of these nights on one machine, by their shares of the log."""

    @cache
    def made(*shares):
        lake = tmp_path_factory.mktemp("made here") / "lake"
        for share in shares:
            run_audit(local, AuditOptions(lake=str(lake), segments=[f"{shared}/log-{share}"]))
        return contents(lake)

    return made


@dataclass(frozen=True)
class Job:
    """A night of jobs/nightly_audit.py."""

    share: float
    scheme: str


ONE_JOB = (Job(1.0, "s3a"),)
TWO_JOBS = (Job(0.4, "s3a"), Job(1.0, "s3"))


def in_its_turn(what, *params):
    """The params, if it is its turn in `make test`; else none: the soak's own params do the same and more, in the same
    folders."""
    return [*params] if is_its_turn(what) else []


@pytest.fixture(
    scope="session",
    params=[
        *in_its_turn("a job on a cluster", pytest.param(ONE_JOB, id="one")),
        pytest.param(TWO_JOBS, id="two", marks=pytest.mark.soak),
    ],
)
def jobs(request):
    return request.param


@pytest.fixture(scope="session")
def nights(cluster, store, shared, jobs, begun):
    """The jobs when they have ended, lake and segments on S3."""
    begun("nightly", every=jobs is TWO_JOBS)
    hadoop = {f"spark.hadoop.{name}": value for name, value in store.hadoop.items()}
    events = cluster.folder / "events"
    events.mkdir()
    settings = {
        **hadoop,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(events),
    }
    program, log = ROOT / "jobs" / "nightly_audit.py", store.folder / "logs" / "nightly"
    done = []
    for job in jobs:
        copy_until(shared / "log-1.0", log, job.share)
        places = ["--lake", f"{job.scheme}://lakes/nightly", "--segments", f"{job.scheme}://logs/nightly"]
        done.append(cluster.submit(program, *places, settings=settings))
        assert done[-1].returncode == 0, done[-1].stderr[-3000:]
    return done


@pytest.fixture(
    scope="session",
    params=[*in_its_turn("nights that fail on a cluster", "once"), pytest.param("soak", marks=pytest.mark.soak)],
)
def disturbed(request, cluster, shared, local):
    """The answer of disturbed_nights.py. Its lake is there before it runs, and empty."""
    Lake.create(local, str(shared / "lake"))
    answer = shared / "answer.json"
    done = cluster.submit(
        ROOT / "tests" / "platforms" / "disturbed_nights.py",
        *map(str, (shared, answer)),
        settings={
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.5",
            # A stage of one task has no other to be slower than.
            "spark.speculation.task.duration.threshold": "4s",
            "spark.hadoop.fs.viewfs.mounttable.shared.linkFallback": f"file://{shared}",
        },
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(answer.read_text())


def test_nights_on_the_cluster_make_the_tables_of_nights_here(nights, jobs, store, made_here):
    assert contents(store.folder / "lakes" / "nightly") == made_here(*(job.share for job in jobs))


def test_tasks_wrote_the_lakes_files_themselves(nights, jobs, store):
    lake = store.folder / "lakes" / "nightly"
    assert "00000001" in {Path(uri).name.split("-")[1] for uri in DeltaTable(f"{lake}/offset_commits").file_uris()}
    assert not any("carry" in note for row in rows(lake, "audits") for note in row["notes"] or ())


def test_the_work_was_done_on_both_nodes_by_the_package_that_was_shipped(nights, cluster):
    for number in range(2):
        executors = list((cluster.folder / f"work-{number}").glob("app-*/*"))
        assert executors
        assert all((executor / "kgroups_spark.zip").is_file() for executor in executors)


def test_a_job_has_the_settings_of_every_session(disturbed):
    assert disturbed["settings"] == PER_SESSION


def test_no_secret_is_in_logs_events_or_the_lake(nights, cluster, store):
    secret = store.secret_key.encode()
    for done in nights:
        assert store.secret_key not in done.stdout + done.stderr
    logs = [path for path in cluster.folder.rglob("*") if path.is_file() and path.suffix in ("", ".log", ".inprogress")]
    assert any("events" in path.parts for path in logs) and any(path.name == "stderr" for path in logs)
    for path in [*logs, *(path for path in store.folder.rglob("*") if path.is_file())]:
        if "node" not in path.parts:
            assert secret not in path.read_bytes(), path


def test_nights_with_failing_tasks_and_executors_make_the_same_tables(disturbed, shared, made_here):
    assert contents(shared / "lake") == made_here(*NIGHTS)


@pytest.mark.parametrize("how", ["fails", "executor dies", "is slow"])
def test_the_nights_were_disturbed(disturbed, shared, how):
    marks = [path.name for path in (shared / "marks" / how).iterdir()]
    assert how in marks
    attempts, executors = defaultdict(set), defaultdict(set)
    for name in marks:
        if name.startswith("attempt-"):
            _, stage, partition, attempt, executor = name.split("-")
            attempts[stage, partition].add(attempt)
            executors[stage, partition].add(executor)
    again = [task for task, numbers in attempts.items() if len(numbers) > 1]
    assert again
    if how != "fails":
        assert any(len(executors[task]) > 1 for task in again)


def test_files_are_carried_where_tasks_do_not_reach_the_storage(disturbed):
    said = disturbed["reached"]
    assert said["shared"] is None
    why = r"Spark and Hadoop carry the lake's files: a task cannot write to viewfs://\S+ with pyarrow \([^\n]+\)$"
    assert re.match(why, said["viewfs"])


def test_a_lake_in_a_folder_that_nodes_do_not_share_is_refused(disturbed):
    said = disturbed["reached"]["not shared"]
    assert re.fullmatch(
        r"the lake at \S+ is not a folder that the workers share: a file [^\n]+ is not seen by the driver", said
    )


def test_the_conf_for_standalone_adds_only_the_master_and_the_limit_of_cores():
    def settings(name):
        lines = (ROOT / "conf" / name).read_text().splitlines()
        return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))

    standalone, cluster = settings("spark-standalone.conf"), settings("spark-cluster.conf")
    assert {name for name in standalone if name not in cluster} == {"spark.master", "spark.cores.max"}
    assert {name: standalone[name] for name in standalone if name in cluster} == {
        name: cluster[name] for name in standalone if name in cluster
    }


OTHER_JOBS = {
    "report.py": ("--output", "report.html"),
    "expiring_groups.py": ("--within", "48h", "--output", "expiring.csv"),
    "rebuild.py": (),
    "maintain.py": (),
}


@pytest.mark.parametrize("job", some_of(1, *OTHER_JOBS))
def test_the_other_jobs_work_on_that_lake(nights, cluster, store, job):
    """The lake stays as it is, or is written again from its history. One executor is enough for that."""
    settings = {f"spark.hadoop.{name}": value for name, value in store.hadoop.items()} | {"spark.cores.max": "1"}
    before = contents(store.folder / "lakes" / "nightly")
    done = cluster.submit(ROOT / "jobs" / job, "--lake", "s3a://lakes/nightly", *OTHER_JOBS[job], settings=settings)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert contents(store.folder / "lakes" / "nightly") == before
