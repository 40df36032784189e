"""The Spark session of a command, started only once there is work for it."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from kgroups_spark.extras import may_have_catalog, require_pyspark
from kgroups_spark.reading.file_systems import require_file_system
from kgroups_spark.terminal.output import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(command: str, lake: str = "") -> SparkSession:
    """The running session (spark-submit, a notebook), or else a local one that reaches the lake. Raises KgroupsError if
    Java or PySpark is missing, or Spark does not start."""
    require_pyspark()
    from pyspark.sql import SparkSession

    from kgroups_spark.session import spark_session
    from kgroups_spark.storage.s3 import is_s3

    settings = {}
    if SparkSession.getActiveSession() is None and not may_have_catalog():  # nor file systems of its own
        require_file_system(lake)
        # Spark makes the folder of the catalog's tables, of which there are none, in the current one otherwise.
        settings["spark.sql.warehouse.dir"] = tempfile.gettempdir()
    return spark_session(f"kgroups {command}", settings, s3=is_s3(lake), progress=say)
