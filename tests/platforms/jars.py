"""Jars that tests need and users do not, downloaded once into the project's own cache: the object store's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark

from kgroups_spark.spark.session import DELTA_JAR, S3_JARS, _remembered_jars
from tests.maven import asked_for, downloaded_jars

# S3Proxy and what it loads to keep objects in a folder; AWS's classes that it names come with Hadoop's S3.
OBJECT_STORE = (
    "org.gaul:s3proxy:4.1.0",
    "args4j:args4j:2.37",
    "ch.qos.logback:logback-classic:1.6.3",
    "ch.qos.logback:logback-core:1.6.3",
    "com.fasterxml.jackson.core:jackson-annotations:2.22",
    "com.fasterxml.woodstox:woodstox-core:7.2.1",
    "com.google.guava:guava:33.7.1-jre",
    "jakarta.servlet:jakarta.servlet-api:6.0.0",
    "org.codehaus.woodstox:stax2-api:4.3.0",
    "org.slf4j:slf4j-api:2.0.18",
    "tools.jackson.core:jackson-core:3.2.2",
    "tools.jackson.core:jackson-databind:3.2.2",
    "tools.jackson.dataformat:jackson-dataformat-xml:3.2.2",
)
SPARK_HOME = Path(pyspark.__file__).parent


def spark_jars() -> list[str]:
    """Delta's jars and Hadoop's S3, as `kgroups` with a lake on S3 downloads them."""
    packages = ",".join((DELTA_JAR, *S3_JARS))
    if not _remembered_jars(packages):
        start = "from kgroups_spark.spark.session import spark_session; spark_session('jars', s3=True).stop()"
        subprocess.run([sys.executable, "-c", start], check=True)
    return _remembered_jars(packages)


def object_store_jars() -> list[str]:
    """The class path of S3Proxy."""
    jars = downloaded_jars("object-store", asked_for(OBJECT_STORE, "master"))
    return [*jars, *(jar for jar in spark_jars() if "awssdk" in jar)]
