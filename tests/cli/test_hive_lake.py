"""A lake in a schema of a Hive metastore that lasts (embedded Derby), each night in a process of its own, as users run
it: found by the commands through SPARK_CONF_DIR in the first night, through spark-submit's properties in the second.
Part of the soak; tests/lake/test_catalog_schema.py covers the catalog of one session."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.tables.schemas import TABLES
from tests.nights.lakes import contents, copy_until, rows
from tests.recorded_logs import unpacked
from tests.small_lakes import FOR_SMALL_LAKES

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[2]

# One session for several commands: a start costs seconds. Spark is set up by the properties alone.
COMMANDS = """
import json, sys
from kgroups_spark.cli.main import main
from kgroups_spark.cli.open_lake import start_spark
spark = start_spark("test")
for line in json.loads(sys.argv[1]):
    if line[0] == "sql":
        spark.sql(line[1]).collect()
        continue
    print("##", *line, flush=True)
    code = main(line)
    if code != 0:
        sys.exit(f"{line}: exit code {code}")
"""


@pytest.fixture
def place(tmp_path_factory):
    """A folder with the metastore, the warehouse, and how Spark finds them."""
    folder = tmp_path_factory.mktemp("hive metastore")
    (folder / "conf").mkdir()
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{folder}/wäre house",
        "spark.driver.memory": "1g",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore_db;create=true",
        **FOR_SMALL_LAKES,
    }
    for file in ("conf/spark-defaults.conf", "spark.properties"):
        (folder / file).write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    unpacked(folder, "transactions-4.3")
    return folder


def kgroups(place, set_up, *lines):
    """Runs all commands in one process; returns the output of each by its words, and the stderr of all."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **set_up}
    environment.pop("KGROUPS_LAKE", None)
    ran = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(lines)],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert ran.returncode == 0, ran.stderr
    said = [part.partition("\n") for part in ran.stdout.split("## ")[1:]]
    return {words: text for words, _, text in said}, ran.stderr


def test_nights_in_a_schema_equal_nights_in_a_folder_and_a_later_session_sees_them(local, place):
    log = place / "logs" / "transactions-4.3"
    night = ["audit", "--segments", "segments"]
    copy_until(log, place / "segments", 0.5)
    kgroups(place, {"SPARK_CONF_DIR": str(place / "conf")}, ["sql", "CREATE SCHEMA kafka"], [*night, "--lake", "kafka"])
    run_audit(local, AuditOptions(str(place / "folder"), [str(place / "segments")]))
    copy_until(log, place / "segments", 1.0)
    run_audit(local, AuditOptions(str(place / "folder"), [str(place / "segments")]))
    question = ["expiring", "--within", "30d", "--offsets", "--format", "csv"]
    said, stderr = kgroups(
        place,
        # Where the folder with the configuration is, JVMs would do without their archive of classes.
        {"PYSPARK_SUBMIT_ARGS": f"--properties-file {shlex.quote(str(place / 'spark.properties'))} pyspark-shell"},
        [*night, "--lake", "spark_catalog.kafka"],
        *([*question, "--lake", lake] for lake in ("spark_catalog.kafka", "./folder")),
        ["audits", "--format", "json", "--lake", "kafka"],
    )
    assert stderr.count("audit 2: ") == 1
    in_schema, in_folder = (text for words, text in said.items() if words.startswith("expiring"))
    assert in_schema == in_folder and in_folder.count("\n") > 1
    ledger = [json.loads(line) for line in said["audits --format json --lake kafka"].splitlines()]
    assert [(row["audit_id"], row["status"]) for row in ledger] == [(1, "finished"), (2, "finished")]
    schema = place / "wäre house" / "kafka.db"
    assert contents(schema) == contents(place / "folder")
    assert {path.name for path in schema.iterdir()} - {"_work"} == set(TABLES)
    assert {row["audit_id"] for row in rows(schema, "offset_commits")} == {1, 2}
