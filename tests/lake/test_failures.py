"""A failure of the machine or the cluster is reported in one line; a fault of our own keeps its stack."""

from __future__ import annotations

from unittest import mock

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError, get_return_value
from pyspark.errors import PythonException

from kgroups_spark.errors import KgroupsError, machine_failures_reported

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
    "error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "refused")]
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
