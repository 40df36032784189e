"""The daemon of Spark's Python workers in our own sessions (`spark.python.daemon.module`).

It has imported what tasks import, without pandas, and each worker is a fork of it. A worker of Spark's own daemon
imports all that again, and pandas, for 0.7 CPU seconds and 60 MB.
"""

from kgroups_spark.cli.entry import importing

if __name__ == "__main__":
    with importing():
        import numpy.ma  # noqa: F401
        import pyspark.worker  # noqa: F401
        from pyspark.daemon import manager

        import kgroups_spark.replay.stages  # noqa: F401
    manager()
