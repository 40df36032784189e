"""A lake and segments on S3: a real server of the protocol, Hadoop's s3a and pyarrow."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from kgroups_spark import open_lake
from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.audit.run import run_audit
from kgroups_spark.cli.main import main
from kgroups_spark.sources import files
from kgroups_spark.sources.files import file_system, list_folder, open_file, read_text_if_there
from kgroups_spark.spark.session import DELTA_JAR, NOT_FOR_S3, S3_JARS, SHIPPED_WITH_SPARK
from tests.nights.lakes import contents, rows

ROOT = Path(__file__).parents[2]


def test_a_lake_on_s3_equals_a_local_one(facts, store, local_lake):
    for night, (code, _, err) in facts["nights"].items():
        assert code == 0, (night, err)
    of_local = contents(local_lake)
    assert of_local["offset_commits"] and of_local["group_versions"]
    assert contents(store.folder / "lakes" / "ours") == of_local


def test_tasks_wrote_the_files_of_both_nights_themselves(facts, store):
    """Parts are named by their audit."""
    assert {Path(uri).name.split("-")[1] for uri in facts["files"]} == {"00000001", "00000002"}
    notes = [note for row in rows(store.folder / "lakes" / "ours", "audits") for note in row["notes"] or ()]
    assert not any("carry" in note for note in notes)


def test_readers_agree_by_either_name_of_s3(facts):
    assert [code for code, _, _ in facts["groups"]] == [0, 0, 0]
    # After the number of the audit, which differs: one night, two nights.
    first, *others = ([line.partition(",")[2] for line in out.splitlines()] for _, out, _ in facts["groups"])
    assert len(first) > 3 and others == [first, first]


def test_a_lake_on_s3_is_maintained(facts):
    code, _, err = facts["maintain"]
    assert code == 0, err


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("lake s3a://no-such-bucket/x", "bucket does not exist"),
        ("reading s3a://no-such-bucket/x", "bucket does not exist"),
        ("segments s3a://no-such-bucket/x", "does not exist"),
        ("lake s3://locked/x", "Forbidden|Access Denied|403"),
        ("reading s3://locked/x", "Forbidden|Access Denied|403"),
        ("segments s3://locked/x", "ACCESS_DENIED"),
        ("lake s3a://me:secret-of-mine@lakes/x", "with credentials in it would be printed"),
        ("reading s3a://me:secret-of-mine@lakes/x", "with credentials in it would be printed"),
        ("segments s3a://me:secret-of-mine@lakes/x", "with credentials in it would be printed"),
    ],
)
def test_storage_that_refuses_is_one_clear_line(facts, place, reason):
    code, out, err = facts["refused"][place]
    assert code in (1, 2) and out == ""
    message = [line for line in err.splitlines() if not line.startswith("starting Spark")]
    assert len(message) == 1, err
    assert re.search(reason, message[0])
    assert "secret-of-mine" not in err


def test_no_secret_is_printed_or_stored(facts, process, store, local_lake):
    for text in (process.stdout, process.stderr, json.dumps(facts)):
        assert store.secret_key not in text
    for folder in (store.folder, local_lake):
        for path in folder.rglob("*"):
            assert not path.is_file() or store.secret_key.encode() not in path.read_bytes(), path


def test_an_object_is_identified_by_size_and_time_then_by_its_etag(store, monkeypatch):
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(files, "_file_systems", {})
    system, inside = file_system("s3://versions/log/0.log")

    def put(data):
        with system.open_output_stream(inside) as file:
            file.write(data)

    put(b"one")
    (listed,) = list_folder("s3://versions/log")
    assert listed.version is not None
    with closing(open_file("s3://versions/log/0.log")) as file:
        opened = file.version()
        assert listed.version.is_still(opened)
        assert opened.is_still(file.version())
        put(b"two")  # of the same size, perhaps in the same second
        assert not opened.is_still(file.version())
        system.delete_file(inside)
        with pytest.raises(FileNotFoundError):
            file.version()
    assert read_text_if_there("s3://versions/log/0.log") is None


@pytest.mark.parametrize(("scheme", "variable"), [("s3", "AWS_ENDPOINT_URL"), ("s3a", "AWS_ENDPOINT_URL_S3")])
def test_a_lake_there_is_read_without_spark_by_http(scheme, variable, store, log, local, tmp_path, monkeypatch, capsys):
    """By default, on the command line as in Python."""
    run_audit(local, AuditOptions(lake=str(tmp_path / "lake"), segments=[str(log)]))
    expected = open_lake(tmp_path / "lake").rows("SELECT group_id FROM groups ORDER BY ALL")
    shutil.copytree(tmp_path / "lake", store.folder / "lakes" / f"{scheme}-{variable}")
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv(variable, store.endpoint)
    monkeypatch.setattr("kgroups_spark.sql.by_duckdb.may_have_catalog", lambda: False)
    monkeypatch.setattr("kgroups_spark.cli.open_lake.start_spark", lambda *_: pytest.fail("Spark was started"))
    place = f"{scheme}://lakes/{scheme}-{variable}"
    assert main(["groups", "--lake", place, "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(expected) > 3
    assert open_lake(place).rows("SELECT group_id FROM groups ORDER BY ALL") == expected


def test_the_conf_file_names_the_jars_and_settings_that_are_tested():
    lines = (ROOT / "conf" / "s3.conf").read_text().splitlines()
    settings = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    assert settings.pop("spark.jars.packages") == ",".join((DELTA_JAR, *S3_JARS))
    assert settings.pop("spark.jars.excludes") == ",".join((*SHIPPED_WITH_SPARK, *NOT_FOR_S3))
    assert settings == {}
