"""An archive of the classes that Spark and Delta load, with which each JVM of the tests starts with half the work (JVMs
call it class data sharing). Without it the session of the tests and each process with Spark load them from some 300
jars, 10 s of CPU each.

It is in the virtual environment, and names that environment's jars by path and time. A JVM with other jars, or with a
configuration folder on its class path, does not use it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from kgroups_spark.spark.session import ivy_folder, spark_session
from tests.maven import one_at_a_time
from tests.platforms.jars import spark_jars
from tests.small_lakes import FOR_SMALL_LAKES, JVM_OPTIONS

ROOT = Path(__file__).parents[1]


def with_shared_classes() -> str:
    """A JVM's options. The first process that calls this writes the archive, which takes half a minute of CPU; others
    wait for it."""
    with one_at_a_time(Path(sys.prefix) / "spark-classes.lock"):
        # Named by its jars, which are missing on a machine that has never run this.
        spark_jars()
        archive = _archive()
        if not archive.is_file():
            _write(archive)
    return f"-XX:SharedArchiveFile={archive}"


def _archive() -> Path:
    java = Path(shutil.which("java") or "java").resolve()
    known = [f"{file} {file.stat().st_mtime_ns}" for file in (java, *_jars())]
    return Path(sys.prefix) / f"spark-classes-{zlib.crc32(repr(known).encode()):08x}.jsa"


def _jars() -> Iterator[Path]:
    yield from sorted((Path(pyspark.__file__).parent / "jars").iterdir())
    yield from sorted(ivy_folder().glob("jars/io.delta_*.jar"))


def _write(archive: Path) -> None:
    part = archive.with_suffix(".part")  # a killed run leaves at most this file
    for older in archive.parent.glob("spark-classes-*.*"):
        older.unlink()
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(part)],
        cwd=ROOT,
        # A JVM that reads an archive cannot write one.
        env={name: value for name, value in os.environ.items() if name != JVM_OPTIONS},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode or not part.is_file():
        raise RuntimeError(f"no archive of Spark's classes was written: {done.stdout[-3000:]}")
    part.rename(archive)


def main(archive: str) -> None:
    """Writes the classes that a JVM has loaded after a write, a change and a query."""
    with TemporaryDirectory() as folder:
        settings = {
            **FOR_SMALL_LAKES,
            "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={archive}",
            "spark.sql.warehouse.dir": folder,
        }
        spark = spark_session("classes", settings)
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
    main(sys.argv[1])
