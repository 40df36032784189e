"""Kafka's own jars from Maven Central, in the project's cache: a broker, its tools and the Java clients."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
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
# Spark's own Kafka source and what it loads; its token provider is not on Maven in any later release.
SPARK_KAFKA = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.commons:commons-pool2:2.13.1",
)
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
    modules = [f"{module}:{release}" for module in MODULES[release]]
    return _jars(f"kafka-{release}", _asked([*modules, LOGGER], "default", NOT_NEEDED))


def spark_kafka_jars() -> list[str]:
    """Spark's own Kafka source, with the clients of 3.9.2, of which it was built."""
    clients = [jar for jar in kafka_jars("3.9.2") if Path(jar).name.startswith("kafka-clients")]
    return clients + _jars(f"spark-kafka-{pyspark.__version__}", _asked(SPARK_KAFKA, "master"))


def _jars(name: str, asked: str) -> list[str]:
    folder = ivy_folder() / name
    # Written last: a folder without it, or with another one, is a download that was broken off, or of an older list.
    stamp = folder / "downloaded.xml"
    with one_at_a_time(ivy_folder() / f"{name}.lock"):
        if not stamp.is_file() or stamp.read_text() != asked:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            _download(folder, asked)
            stamp.write_text(asked)
    return sorted(map(str, folder.glob("*.jar")))


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Of all processes of this user."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _asked(modules: Iterable[str], configuration: str, not_needed: Iterable[str] = ()) -> str:
    """What Ivy is asked for: modules with their versions, alone (`master`), or with what they ask for (`default`), but
    for what is not needed."""
    dependencies = "".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" conf="default->{configuration}"/>'
        for org, name, version in (each.split(":") for each in modules)
    )
    excluded = "".join(
        f'<exclude org="{org}" module="{name}" matcher="regexp"/>'
        for org, name in (each.split(":") for each in not_needed)
    )
    return (
        '<ivy-module version="2.0"><info organisation="tests" module="kafka"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{excluded}</dependencies></ivy-module>"
    )


def _download(folder: Path, asked: str) -> None:
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
            f"jars were not downloaded into {folder}; tests/broker needs Maven Central once, for 80 MB: "
            f"{said.stdout[-3000:]}"
        )
