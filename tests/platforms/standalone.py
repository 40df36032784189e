"""A Spark standalone cluster on this machine: a master and two workers of a core each, as two nodes.

Nodes have an environment with the package's dependencies and without the package: jobs bring the package along.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.broker.brokers import Port, listens
from tests.platforms.jars import SPARK_HOME, spark_jars
from tests.platforms.object_store import server
from tests.small_lakes import FOR_SMALL_LAKES
from tests.spark_classes import with_shared_classes

ROOT = Path(__file__).parents[2]
# Spark runs a second copy of a task on another node only.
NODES = ("127.0.0.1", "127.0.0.2")


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs; `folder` holds all its logs."""

    url: str
    folder: Path
    environment: Mapping[str, str]
    package: Path

    def submit(
        self, job: Path, *arguments: str, settings: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Spark-submit of a job with conf/spark-standalone.conf, conf/s3.conf and these settings; has ended."""
        properties = self.folder / f"{job.stem}-{len(list(self.folder.glob('*.conf')))}.conf"
        properties.write_text(properties_text(self.settings | dict(settings or {})))
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--properties-file", str(properties)]
        command += ["--py-files", str(self.package), str(job), *arguments]
        return subprocess.run(
            command, env=dict(self.environment), cwd=self.folder, capture_output=True, text=True, timeout=1500
        )

    @property
    def settings(self) -> dict[str, str]:
        """The settings that differ from those of a cluster of many machines."""
        return {
            "spark.master": self.url,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "768m",
            "spark.executor.memory": "512m",
            "spark.executor.memoryOverhead": "384m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            # Downloaded already, by the list that conf/s3.conf has, too.
            "spark.jars.packages": "",
            "spark.jars": ",".join(spark_jars()),
            "spark.driver.extraJavaOptions": f"{java_options()} -XX:ReservedCodeCacheSize=240m",
            "spark.executor.extraJavaOptions": java_options(),
            **FOR_SMALL_LAKES,
        }


def properties_text(settings: Mapping[str, str]) -> str:
    """The two files of conf/ as a person joins them, and the settings: of two equal names the last counts."""
    files = [(ROOT / "conf" / name).read_text() for name in ("spark-standalone.conf", "s3.conf")]
    return "\n".join([*files, *(f"{name} {value}" for name, value in settings.items()), ""])


def java_options() -> str:
    """Options of short-lived JVMs: the second compiler would cost more than it gains."""
    return f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {with_shared_classes()}"


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """The cluster once both workers are known to the master."""
    environment = _environment(folder)
    port, spark_class = Port().number, str(SPARK_HOME / "bin" / "spark-class")
    url, master_log = f"spark://127.0.0.1:{port}", folder / "master.log"
    master = "org.apache.spark.deploy.master.Master"
    worker = "org.apache.spark.deploy.worker.Worker"
    with ExitStack() as running:
        command = [spark_class, master, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        running.enter_context(server(command, master_log, environment, lambda: listens(port)))
        for number, node in enumerate(NODES):
            command = [spark_class, worker, "--host", node, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            command += ["--work-dir", str(folder / f"work-{number}"), url]
            at_home = {**environment, "SPARK_LOCAL_IP": node}
            known = f"Registering worker {node}"
            log = folder / f"worker-{number}.log"
            running.enter_context(server(command, log, at_home, lambda known=known: known in master_log.read_text()))
        yield Cluster(url, folder, environment, _package(folder))


def _environment(folder: Path) -> dict[str, str]:
    """The environment variables of servers and jobs, without this process's paths of Python."""
    python = str(_node_python(folder))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "XDG_CACHE_HOME") if name in os.environ}
    return {
        **kept,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }


def _node_python(folder: Path) -> Path:
    """An environment with what is installed here, but for packages in development: kgroups-spark itself."""
    environment = folder / "node"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    # A .pth file's folder is added, the .pth files in that folder are not read.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    python = environment / "bin" / "python"
    missing = subprocess.run([python, "-I", "-c", "import kgroups_spark"], cwd=folder, capture_output=True, text=True)
    assert "No module named 'kgroups_spark'" in missing.stderr, "the nodes have the package already"
    return python


def _package(folder: Path) -> Path:
    """The package as a zip for --py-files, as docs/spark-and-lakes.md says to make it."""
    package = folder / "kgroups_spark.zip"
    subprocess.run([sys.executable, "-m", "zipfile", "-c", str(package), "kgroups_spark"], cwd=ROOT, check=True)
    return package
