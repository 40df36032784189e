"""Spark's settings for lakes of a few rows."""

from __future__ import annotations

import os

# The variable whose options Spark's start script gives to the JVM, without a word to stderr.
JVM_OPTIONS = "SPARK_SUBMIT_OPTS"
STORE_OF_KERNEL = "io.delta.kernel.logStore.file.impl"

FOR_SMALL_LAKES = {
    # A plan runs once here, over a few rows: compiling Java made of it costs more than it gives.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without Hadoop's native library each commit to a table starts ten processes (readlink, chmod); by these stores
    # two. They do not keep processes apart that commit at once: the command line has Delta's own.
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    f"spark.hadoop.{STORE_OF_KERNEL}": "io.delta.storage.LocalLogStore",
}


def environment_of_small_lakes() -> dict[str, str]:
    """Environment variables that give a process's Spark these settings, beside the options that are set already."""
    settings = [f"-D{name}={value}" for name, value in FOR_SMALL_LAKES.items()]
    return {JVM_OPTIONS: " ".join([*os.environ.get(JVM_OPTIONS, "").split(), *settings])}
