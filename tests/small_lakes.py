"""Spark's settings for lakes of a few rows."""

from __future__ import annotations

import os

# The variable with options that Spark's start script passes to the JVM without output on stderr.
JVM_OPTIONS = "SPARK_SUBMIT_OPTS"
STORE_OF_KERNEL = "io.delta.kernel.logStore.file.impl"

FOR_SMALL_LAKES = {
    # A plan runs once here, over a few rows: compiling its generated Java costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without Hadoop's native library each commit to a table starts ten processes (readlink, chmod); with these stores
    # it starts two. They are not safe for concurrent commits of several processes: the command line uses Delta's own.
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    f"spark.hadoop.{STORE_OF_KERNEL}": "io.delta.storage.LocalLogStore",
}


def environment_of_small_lakes() -> dict[str, str]:
    """Environment variables that give a process's Spark these settings, in addition to options that are already set."""
    settings = [f"-D{name}={value}" for name, value in FOR_SMALL_LAKES.items()]
    return {JVM_OPTIONS: " ".join([*os.environ.get(JVM_OPTIONS, "").split(), *settings])}
