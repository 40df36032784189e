"""Jars from Maven, in the project's cache, downloaded by Spark's own Ivy, because a fresh machine has no Maven."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

import kgroups_spark
from kgroups_spark.spark.session import ivy_folder


def downloaded_jars(name: str, asked: str) -> list[str]:
    """The jars of one `asked_for`, in the cache's folder `name`, downloaded if they are missing. Raises RuntimeError
    with Ivy's own message."""
    folder = ivy_folder() / name
    # Written last: a folder without it is an interrupted download, and one with another text is of an older list.
    stamp = folder / "downloaded.xml"
    with one_at_a_time(ivy_folder() / f"{name}.lock"):
        if not stamp.is_file() or stamp.read_text() != asked:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            download(folder, asked)
            stamp.write_text(asked)
    return sorted(map(str, folder.glob("*.jar")))


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Holds a lock, so that one process of this user is in the block at a time."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def asked_for(modules: Iterable[str], configuration: str, not_needed: Iterable[str] = ()) -> str:
    """An Ivy file for modules (`organisation:name:version`), alone (`master`) or with their dependencies (`default`),
    without `not_needed`. The version `latest.release` is the newest published one."""
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


def download(folder: Path, asked: str) -> None:
    """Puts the jars of one `asked_for` into a folder, named `[artifact]-[version].jar`."""
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
            f"jars were not downloaded into {folder}; Maven Central is needed once: {said.stdout[-3000:]}"
        )
