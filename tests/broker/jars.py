"""Kafka's own jars from Maven Central, in the project's cache: a broker, its tools and the Java clients."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

import kgroups_spark
from kgroups_spark.session import ivy_folder

# kafka-tools has the dump tools of 4.x, kafka-streams the streams client; both are asked for what they bring.
MODULES: Mapping[str, tuple[str, ...]] = {
    "4.3.1": ("org.apache.kafka:kafka_2.13", "org.apache.kafka:kafka-tools", "org.apache.kafka:kafka-streams"),
    "3.9.2": ("org.apache.kafka:kafka_2.13",),
}
# Kafka's own choice for its log, log4j, is not among what its modules ask for.
LOGGER = "org.slf4j:slf4j-simple:1.7.36"
# What they ask for, and brokers in KRaft mode and our clients do not load: Connect and its web server, RocksDB (70 MB),
# what ZooKeeper asks for. Names are regular expressions, as Ivy has them. A release is 130 MB with it, 42 without.
NOT_NEEDED = (
    "org[.]apache[.]kafka:connect-.*",
    "org[.]rocksdb:.*",
    "org[.]eclipse[.]jetty.*:.*",
    "org[.]glassfish.*:.*",
    "(jakarta|javax|com[.]sun|io[.]swagger|io[.]netty|ch[.]qos).*:.*",
    "com[.]fasterxml[.]jackson[.](module|jakarta).*:.*",
    "(io[.]github[.]classgraph|org[.]apache[.]maven|org[.]codehaus.*|org[.]javassist|aopalliance|org[.]jspecify):.*",
    "(org[.]apache[.]commons|commons-(beanutils|collections|digester)):.*",
    "org[.]scala-lang:scala-reflect",
)


def kafka_jars(release: str) -> list[str]:
    """The class path of a release, downloaded when it is not there. Raises RuntimeError with what Ivy said."""
    folder = ivy_folder() / f"kafka-{release}"
    # Written last: a folder without it, or with another one, is a download that was broken off, or of an older list.
    stamp, asked = folder / "downloaded.xml", _asked(release)
    with one_at_a_time(ivy_folder() / f"kafka-{release}.lock"):
        if not stamp.is_file() or stamp.read_text() != asked:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            _download(release, folder, asked)
            stamp.write_text(asked)
    return sorted(map(str, folder.glob("*.jar")))


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Of all processes of this user."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _asked(release: str) -> str:
    """What Ivy is asked for."""
    modules = [f"{module}:{release}".split(":") for module in MODULES[release]] + [LOGGER.split(":")]
    dependencies = "".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" conf="default->default"/>'
        for org, name, version in modules
    )
    excluded = "".join(
        f'<exclude org="{org}" module="{name}" matcher="regexp"/>'
        for org, name in (each.split(":") for each in NOT_NEEDED)
    )
    return (
        '<ivy-module version="2.0"><info organisation="tests" module="kafka"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{excluded}</dependencies></ivy-module>"
    )


def _download(release: str, folder: Path, asked: str) -> None:
    """By the Ivy that Spark brings: a fresh machine has no Maven."""
    module = folder / "ivy.xml"
    module.write_text(asked)
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    settings = Path(kgroups_spark.__file__).parent / "ivysettings.xml"
    command = ["java", "-jar", str(ivy), "-settings", str(settings), "-cache", str(ivy_folder() / "cache")]
    said = subprocess.run(
        [*command, "-ivy", str(module), "-retrieve", f"{folder}/[artifact]-[revision].[ext]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if said.returncode:
        raise RuntimeError(
            f"Kafka {release}, 40 MB, was not downloaded into {folder}; tests/broker needs Maven Central once: "
            f"{said.stdout[-3000:]}"
        )
