"""Jars that tests need and users do not, downloaded once into the project's own cache: the object store's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

import kgroups_spark
from kgroups_spark.spark.session import DELTA_JAR, S3_JARS, _remembered_jars, ivy_folder

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
    folder = ivy_folder() / "object-store"
    wanted = [folder / f"{artifact}-{version}.jar" for _, artifact, version in map(_parts, OBJECT_STORE)]
    if not all(jar.is_file() for jar in wanted):
        _download(folder)
    assert all(jar.is_file() for jar in wanted), f"{folder} lacks some of {', '.join(OBJECT_STORE)}"
    return [*map(str, wanted), *(jar for jar in spark_jars() if "awssdk" in jar)]


def _parts(coordinates: str) -> list[str]:
    return coordinates.split(":")


def _download(folder: Path) -> None:
    """By the Ivy that Spark brings. Raises CalledProcessError, with what Ivy said on stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(
        f'<dependency org="{group}" name="{artifact}" rev="{version}" transitive="false" conf="default->master"/>'
        for group, artifact, version in map(_parts, OBJECT_STORE)
    )
    module = folder / f"ivy-{os.getpid()}.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="tests" module="object-store"/>'
        f'<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    (ivy,) = (SPARK_HOME / "jars").glob("ivy-*.jar")
    settings = Path(kgroups_spark.__file__).parent / "ivysettings.xml"
    command = ["java", "-jar", str(ivy), "-settings", str(settings), "-cache", str(ivy_folder() / "cache"), "-ivy"]
    subprocess.run(
        [*command, str(module), "-retrieve", f"{folder}/[artifact]-[revision].[ext]"], stdout=sys.stderr, check=True
    )
    module.unlink()
