"""The nights and commands that test_object_storage.py checks, in one session on this machine: a process of its own,
which writes its answer as JSON.

Arguments: the log's folder, the folder of the store's buckets, a folder for the local lake, and where the answer goes.
Settings of the session, and which tables are maintained, come on stdin.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.fs
from deltalake import DeltaTable

from kgroups_spark.audit import maintain
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.main import main as kgroups
from kgroups_spark.lake.local import Local
from kgroups_spark.spark.session import spark_session
from kgroups_spark.tables.schemas import TABLES
from tests.nights.lakes import copy_until
from tests.protocol.fake_delta import LOOP
from tests.small_lakes import FOR_SMALL_LAKES

# The lake as it is typed night by night.
NIGHTS = {0.4: "s3a", 1.0: "s3"}

START = time.monotonic()


def main(log: Path, buckets: Path, local: Path, settings: dict[str, str], maintained: list[str]) -> dict[str, Any]:
    """Runs the nights and commands; the facts that the tests check, by name."""
    settings = {**FOR_SMALL_LAKES, **settings, "spark.master": "local[2]", "spark.driver.memory": "768m"}
    spark = spark_session("s3_nights", settings, s3=True)
    facts: dict[str, Any] = {"nights": {}}
    for share, scheme in NIGHTS.items():
        copy_until(log, buckets / "logs" / "log", share)
        audit = ["audit", "--segments", f"{scheme}://logs/log", "--lake"]
        facts["nights"][f"{share}"] = said([*audit, f"{scheme}://lakes/ours"])
        run_audit(Local(runner=LOOP), AuditOptions(str(local), [f"{buckets}/logs/log"]))
    facts["files"] = DeltaTable(f"{buckets}/lakes/ours/offset_commits").file_uris()
    groups = ["groups", "--format", "csv", "--lake"]
    facts["groups"] = [said([*groups, lake]) for lake in ("s3a://lakes/ours", "s3://lakes/ours", f"{local}")]
    maintain.TABLES = {name: TABLES[name] for name in maintained}
    facts["maintain"] = said(["maintain", "--lake", "s3://lakes/ours"])
    facts["refused"] = refusals(local)
    spark.stop()
    shutil.rmtree("spark-warehouse", ignore_errors=True)
    return facts


def said(arguments: list[str]) -> list[Any]:
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = kgroups(arguments)
    sys.stderr.write(f"{time.monotonic() - START:.0f} s: {' '.join(arguments)}\n")
    return [code, out.getvalue(), err.getvalue()]


def refusals(local: Path) -> dict[str, list[Any]]:
    """The results of commands for places that storage refuses."""
    refused = {}
    for place in ("s3a://no-such-bucket/x", "s3://locked/x", "s3a://me:secret-of-mine@lakes/x"):
        refused[f"lake {place}"] = said(["audit", "--lake", place, "--segments", f"{local.parent}/logs"])
        refused[f"reading {place}"] = said(["groups", "--lake", place])
        refused[f"segments {place}"] = said(["audit", "--lake", f"{local}-2", "--segments", place])
    return refused


if __name__ == "__main__":
    found = main(*map(Path, sys.argv[1:4]), **json.loads(sys.stdin.read()))
    Path(sys.argv[4]).write_text(json.dumps(found))
    pyarrow.fs.finalize_s3()
