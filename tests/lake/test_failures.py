"""A failure of the machine or the cluster is reported in one line; a fault of our own keeps its stack."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError, get_return_value
from pyspark.errors import PythonException

from kgroups_spark.errors import KgroupsError, machine_failures_reported
from kgroups_spark.lake.hadoop import name_for_hadoop, use_hadoops_storage
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.sources import files
from tests.protocol.fake_delta import LOOP
from tests.views.recorded import tables_of

IN_A_TASK = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/stages.py", line 100, in task
{error}
"""


def failing(error):
    with machine_failures_reported("the audit failed"):
        raise error


HAS_ENDED = r"^the audit failed: Spark's JVM has ended \([^\n]+\)$"


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("SparkSession does not exist in the JVM"),
        ConnectionRefusedError(111, "refused"),
    ],
)
def test_a_jvm_that_has_ended_is_reported_in_one_line(error):
    with pytest.raises(KgroupsError, match=HAS_ENDED):
        failing(error)


def test_a_jvm_that_ends_before_it_answers_is_reported_in_one_line():
    with pytest.raises(KgroupsError, match=HAS_ENDED), machine_failures_reported("the audit failed"):
        get_return_value("x", None, "None", "org.apache.hadoop.fs.Path")


@pytest.mark.parametrize(
    "error", ["OSError: [Errno 28] No space left on device", "pyarrow.lib.ArrowMemoryError: malloc"]
)
def test_a_failure_of_a_tasks_machine_is_reported_in_one_line(error):
    reason = error.removeprefix("pyarrow.lib.").replace("[", r"\[").replace("]", r"\]")
    with pytest.raises(KgroupsError, match=f"^the audit failed: {reason}$"):
        failing(PythonException(IN_A_TASK.format(error=error)))


def test_a_kgroups_error_of_a_task_is_reported_in_one_line():
    gone = "kgroups_spark.cluster.requests.ClusterUnreachable: no broker has answered in 3 s: ValueError: x"
    with pytest.raises(KgroupsError, match=r"^the audit failed: no broker has answered in 3 s: ValueError: x$"):
        failing(PythonException(IN_A_TASK.format(error=f"ValueError: y\n\nThe above was the direct cause:\n{gone}")))


@pytest.mark.parametrize("error", ["KeyError: 'group_id'", "kgroups_spark.coordinator.releases.ReplayFailure: x"])
def test_a_task_that_failed_by_our_bug_keeps_its_stack(error):
    with pytest.raises(PythonException, match="Traceback"):
        failing(PythonException(IN_A_TASK.format(error=error)))


def test_a_folder_without_a_tables_log_is_reported_with_the_cure():
    java = mock.Mock(_target_id="o1")
    java.getCause.return_value = None
    java.getMessage.return_value = "Delta table at path `file:/lake/groups` is not found."
    java.getClass.return_value.getSimpleName.return_value = "TableNotFoundException"
    cure = "is not found: restore its _delta_log; or remove the folder, and kgroups audit makes the table again"
    with pytest.raises(KgroupsError, match=cure):
        failing(Py4JJavaError("", java))


# Files of a table that are missing or damaged: one line with the table, the file, and what to do.
CURES = {
    "groups": "if it stays so, delete its folder: the next audit makes it again",
    "group_records": "if it stays so, restore it",
}


@pytest.mark.parametrize("name", CURES)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (Path.unlink, "there is no file {file}"),
        (
            lambda file: file.write_bytes(b""),
            "Could not open Parquet input source '{file}': Parquet file size is 0 bytes",
        ),
    ],
)
def test_the_line_has_the_table_the_file_and_the_cure(tmp_path, name, damage, said):
    with mock.patch.object(Lake, "stand_in", None):
        lake = Lake.create(Local(runner=LOOP), str(tmp_path / "lake"))
        part = PartWriter(name, lake.uri, 1).write([tables_of("kip848-4.3")[name]])
        assert part is not None
        lake.table(name).commit([part], by="test", transaction=None)
        file = tmp_path / "lake" / name / Path(part.path).name
        damage(file)
        with pytest.raises(KgroupsError) as refused:
            lake.rows(name)
        line = f"table {name} of the lake at {lake.location} cannot be read: {said.format(file=file)}; {CURES[name]}"
        assert refused.value.lines == (line,)


# Hadoop's settings of S3 and its names for S3, through stand-ins of its JVM (the real one: tests/platforms).


def java(s3a):
    return {"org.apache.hadoop.fs.s3a.S3AFileSystem": s3a}.__getitem__


class JavaMap(dict):
    def keySet(self):
        return SimpleNamespace(toArray=lambda: list(self))


class Hadoop(dict):
    """Its settings; `hidden` are in files of a credential provider."""

    def __init__(self, settings=(), hidden=()):
        super().__init__(settings)
        self.hidden = dict(hidden)

    def getPropsWithPrefix(self, prefix):
        found = {name.removeprefix(prefix): value for name, value in self.items() if name.startswith(prefix)}
        return JavaMap(found)

    def getPassword(self, name):
        found = self.hidden.get(name) or self.get(name)
        return None if found is None else list(found)


EMR = {"fs.s3.impl": "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"}  # a platform with its own S3


@pytest.mark.parametrize(
    ("location", "settings", "name"),
    [
        ("s3://lakes/x", {}, "s3a://lakes/x"),
        ("s3n://lakes/x", {}, "s3a://lakes/x"),
        ("s3a://lakes/x", {}, "s3a://lakes/x"),
        ("hdfs://lakes/x", {}, "hdfs://lakes/x"),
        ("/lakes/s3://x", {}, "/lakes/s3://x"),
        ("s3://lakes/x", EMR, "s3://lakes/x"),
    ],
)
def test_s3_is_s3a_to_hadoop(location, settings, name):
    assert name_for_hadoop(location, java("a class"), Hadoop(settings)) == name


def test_without_hadoops_s3_the_error_says_how_to_get_it():
    missing = JavaPackage("org.apache.hadoop.fs.s3a.S3AFileSystem", None)
    with pytest.raises(KgroupsError, match=r"spark-submit --packages \S*org.apache.hadoop:hadoop-aws:\S+ --exclude"):
        name_for_hadoop("s3://lakes/x", java(missing), Hadoop())
    assert name_for_hadoop("hdfs://lakes/x", java(missing), Hadoop()) == "hdfs://lakes/x"


def test_pyarrow_gets_keys_that_hadoop_keeps_in_files():
    hadoop = Hadoop({"fs.s3a.endpoint.region": "here", "fs.s3a.access.key": "me"}, {"fs.s3a.secret.key": "hush"})
    used = []
    with mock.patch.object(files, "use", used.append):
        use_hadoops_storage(SimpleNamespace(version="4.2.0", _jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop)))
    assert used[0].options("lakes") == {"access_key": "me", "secret_key": "hush", "region": "here"}
