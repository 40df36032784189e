"""The one Spark session of a test process: two cores, small, no user interface."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from kgroups_spark import errors
from kgroups_spark.cli.entry import leave_pandas_out
from tests import one_session
from tests.chosen import VARIABLE, Chosen, Laws, is_its_turn, seed
from tests.small_lakes import FOR_SMALL_LAKES, JVM_OPTIONS
from tests.spark_classes import with_shared_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kgroups_spark.lake.local import Local

# Files that take half a minute and more, the longest first: a free process takes the next file, and a long file that
# starts last makes the other processes wait. All other files come later.
LONG_FILES = (
    "broker/test_coordinators.py",
    "platforms/test_standalone.py",
    "broker/test_two_brokers.py",
    "report/test_queries.py",
    "findings/test_findings.py",
    "report/test_in_browser.py",
    "test_installation.py",
    "test_api.py",
    "views/test_dialects.py",
    "broker/test_secrets.py",
    "cli/test_engines.py",
    "cli/test_screens.py",
    "crash/test_commit_points.py",
)

# Folders and files with tests that start Spark, brokers, a browser or notebooks as separate processes.
PROCESSES = (
    "broker",
    "platforms",
    "crash",
    "notebooks",
    "cli/test_hive_lake.py",
    "report/test_in_browser.py",
)


# Temporary folders without a disk: the lakes of tests are 30,000 small files of 150 MB. Spark and brokers write more.
IN_MEMORY = Path("/dev/shm")
ROOM = 1 << 30

# As entry.py, for the processes that tests start without it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# In tests, a bug that an audit would survive is an error.
errors.SURVIVED = ()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regen",
        action="store_true",
        help="write the golden files again: screens, rows of cases, the report's page, the notebooks' answers",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes pytest-xdist distribute the files in the order of their tests here, not those with many tests first."""
    seed()
    Laws.in_a_soak = "soak" in config.option.markexpr
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    if "not spark" in config.option.markexpr:
        leave_pandas_out()
        if "not processes" in config.option.markexpr and _has_room(IN_MEMORY):
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


def pytest_report_header() -> str:
    """The seed that repeats the choices of this run."""
    return f"cases are chosen by {VARIABLE}={seed()}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where no test is to start processes, what these files import is not loaded either."""
    is_left_out = "not processes" in config.option.markexpr
    return True if is_left_out and _starts_processes(collection_path.relative_to(Path(__file__).parent)) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the cycle collector from the tests, which stay to the end of the process: it would look through all of them
    in 0.3 s each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # Tests leave few cycles, and Python would look for them every 700 objects.
        gc.set_threshold(50_000, 20, 10)
        gc.enable()
        # DuckDB complains of what it made and is still there when the process has ended.
        atexit.register(gc.unfreeze)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts long files first, and marks tests: `spark` with the session, `processes` for those of PROCESSES (both are
    left out of `make test-fast`), `law` for those of hypothesis, `soak` for those whose turn it is not, and in
    a soak for all that take turns. Tests with the marker `soak` run only with `-m soak`."""
    folder = Path(__file__).parent
    ranks = {folder / name: rank for rank, name in enumerate(LONG_FILES)}
    assert all(path.is_file() for path in ranks), "LONG_FILES names a file that is not there"
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
    in_a_soak = "soak" in config.option.markexpr
    # A path is compared once, not once for each of its tests.
    processes = {path for path in {item.path for item in items} if _starts_processes(path.relative_to(folder))}
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if item.path in processes:
            item.add_marker("processes")
        turns = list(item.iter_markers("in_turn"))
        if turns and (in_a_soak or not all(is_its_turn(*mark.args) for mark in turns)):
            item.add_marker("soak")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("law")
    # Spark's writer needs Spark.
    items[:] = [item for item in items if _session_of(item) != "local" or not item.get_closest_marker("spark")]
    if not in_a_soak:
        left_out = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=left_out)
        unseen = {str(i.path) for i in items if i.get_closest_marker("spark") and not one_session.has_session(i.path)}
        assert not unseen, f"no test there names its fixture spark, and pytestmark does not, either: {unseen}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> one_session.OneSession | None:
    """In a soak all processes have a session."""
    if config.option.dist != "loadfile" or "soak" in config.option.markexpr:
        return None
    return one_session.OneSession(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Gives the JVMs of tests with Spark or separate processes a shared archive of classes."""
    starts_jvms = any(item.get_closest_marker(name) for item in session.items for name in ("spark", "processes"))
    if starts_jvms and not session.config.option.collectonly:
        os.environ[JVM_OPTIONS] = with_shared_classes()


def _has_room(folder: Path) -> bool:
    """In a container /dev/shm may have 64 MB."""
    return folder.is_dir() and shutil.disk_usage(folder).free > ROOM


def _starts_processes(path: Path) -> bool:
    return any(path.is_relative_to(name) for name in PROCESSES)


def _session_of(item: pytest.Item) -> str | None:
    """The value of its fixture `session`."""
    return item.callspec.params.get("session") if hasattr(item, "callspec") else None


@pytest.fixture(params=["some", pytest.param("every", marks=pytest.mark.soak)])
def chosen(request: pytest.FixtureRequest) -> Chosen:
    """Chooses some of many cases; all of them in the test's second form, which is part of the soak."""
    return Chosen(request.node.nodeid, request.param == "every")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with Delta; its warehouse is a temporary folder."""
    # Here, because the process that distributes the tests needs none of it, and the others wait for that process.
    from kgroups_spark.spark.session import spark_session

    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    session = spark_session(
        "tests",
        {
            "spark.master": "local[2]",
            # After hundreds of audits Delta and Spark use much memory: with 1 GB the JVM was always collecting garbage.
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xms1g -Xmn512m",
            **FOR_SMALL_LAKES,
            "spark.ui.retainedJobs": "100",
            "spark.ui.retainedStages": "100",
            "spark.sql.ui.retainedExecutions": "10",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(warehouse),
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def findings_not_sought() -> Iterator[None]:
    """Audits write one finding without looking for any, which takes longer than all else of a small one."""
    from kgroups_spark.findings.finders import Found
    from kgroups_spark.findings.finding import Finding

    with mock.patch("kgroups_spark.audit.result.look", lambda _: Found([Finding("mixed_commits", "not sought")], [])):
        yield


@pytest.fixture(scope="session")
def local() -> Local:
    """The engine without Spark, in this process: a night takes a second."""
    from kgroups_spark.lake.local import Local
    from tests.protocol.fake_delta import LOOP

    return Local(runner=LOOP)


@pytest.fixture(scope="session", params=["local", pytest.param("spark", marks=[pytest.mark.soak, pytest.mark.spark])])
def session(request: pytest.FixtureRequest) -> Any:
    """`local`; in a soak the same tests also run with the Spark session."""
    return request.getfixturevalue(request.param)
