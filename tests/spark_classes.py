"""The archive of the classes that Spark and Delta load, with which each JVM of the tests starts with half the work.

It is the one that `kgroups` writes for itself (`class_archive`), here before the first test: processes of tests end too
abruptly to write one, and the JVMs of spark-submit and of clusters take it by an option.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from kgroups_spark.spark.session import class_archive, ivy_folder, spark_session
from tests.maven import one_at_a_time
from tests.platforms.jars import spark_jars
from tests.small_lakes import FOR_SMALL_LAKES, JVM_OPTIONS

ROOT = Path(__file__).parents[1]


def with_shared_classes() -> str:
    """A JVM's option. The first process that calls this writes the archive, which takes half a minute of CPU; others
    wait for it."""
    with one_at_a_time(ivy_folder() / "spark-classes.lock"):
        spark_jars()
        if "ArchiveClassesAtExit" in class_archive():
            own = {name: value for name, value in os.environ.items() if name != JVM_OPTIONS}
            subprocess.run([sys.executable, "-m", __name__], cwd=ROOT, env=own, check=True)
        return class_archive()


def main() -> None:
    """Ends a JVM that has written, changed and queried a table."""
    with TemporaryDirectory() as folder:
        spark = spark_session("classes", {**FOR_SMALL_LAKES, "spark.sql.warehouse.dir": folder})
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        spark.range(3).mapInArrow(lambda batches: batches, "id long").write.format("delta").save(folder)
        spark.sql(f"DELETE FROM delta.`{folder}` WHERE id = 1")
        spark.sql(f"SELECT id, count(*) FROM delta.`{folder}` GROUP BY id").collect()
    spark.stop()
    # The JVM exits at the end of its input, and writes the archive then.
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
