"""A first-time user of a lake mistypes or lacks something."""

from __future__ import annotations

import socket

import pytest

from kgroups_spark.api import run_audit
from kgroups_spark.cli import audit
from kgroups_spark.cli import main as cli
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.spark.java import NoJava, major_version, require_java
from tests.cli.story_reader import story
from tests.cli.written_lake import ledger, write_lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    tables = dict(story().tables) | {"audits": ledger({"as_of": story().last_audit["as_of"], "partitions": []})}
    return write_lake(tmp_path_factory.mktemp("story"), tables)


def test_reading_without_any_engine_suggests_the_smaller_extra(lake, capsys, monkeypatch):
    monkeypatch.setattr("kgroups_spark.cli.open_lake.has_pyspark", lambda: False)
    monkeypatch.setattr("kgroups_spark.sql.by_duckdb.find_spec", lambda name: None)
    assert main(["groups", "--lake", lake]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "pip install 'kgroups-spark[read]'" in err
    assert "[local]" not in err


def test_spark_without_pandas_names_the_extra(lake, capsys, monkeypatch):
    monkeypatch.setattr("kgroups_spark.errors.find_spec", lambda name: None)
    assert main(["groups", "--lake", lake, "--engine", "spark"]) == 1
    said = "kgroups: PySpark needs pandas, which is not installed: pip install 'kgroups-spark[cluster]'\n"
    assert capsys.readouterr() == ("", said)


# A cluster that cannot be reached is reported before Spark starts.
@pytest.fixture
def nobody():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("given_ms", [None, 700])
def test_a_port_where_nothing_listens(nobody, given_ms, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(audit, "FIRST_TRY_MS", 300)
    properties = tmp_path / "client.properties"
    properties.write_text("" if given_ms is None else f"default.api.timeout.ms={given_ms}\n")
    command = ["audit", "--lake", str(tmp_path / "lake"), "--bootstrap-server", nobody]
    assert cli.main([*command, "--command-config", str(properties)]) == 1
    waiting, gave_up = capsys.readouterr().err.splitlines()
    assert waiting == f"connecting to {nobody}"
    assert (
        gave_up
        == f"kgroups: no broker has answered{'' if given_ms is None else ' in 1 s'}: nothing listens at {nobody}"
    )


@pytest.mark.parametrize("lake", ["./lake", "s3://bucket/lake", "hdfs://host/lake"])
def test_where_there_is_no_java_the_engine_is_named_if_it_would_do(lake, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    assert main(["audit", "--lake", lake, "--segments", str(SEGMENTS)]) == 1
    said = capsys.readouterr().err
    assert "no Java found" in said
    assert said.endswith("Or add --engine local, which needs no Java and no Spark\n") is (lake == "./lake")
    assert ("--engine" in said) is (lake == "./lake")


def test_it_is_refused_in_a_process_of_spark_submit(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    words = ["audit", "--engine", "local", "--lake", str(tmp_path / "lake"), "--segments", str(SEGMENTS)]
    assert main(words, "nightly_audit.py") == 2
    assert "--engine local is for kgroups itself: spark-submit has started Spark already" in capsys.readouterr().err


def test_a_program_names_the_engine_as_the_command_does(tmp_path):
    summary = run_audit(tmp_path / "lake", segments=str(SEGMENTS), engine="local")
    assert summary.audit.audit_id == 1
    with pytest.raises(UsageError, match=r"engine: 'loca' .*local"):
        run_audit(tmp_path / "lake", segments=str(SEGMENTS), engine="loca")
    with pytest.raises(UsageError, match="needs no session: give spark, or engine"):
        run_audit(tmp_path / "lake", segments=str(SEGMENTS), engine="local", spark=object())


def test_a_full_disk_is_one_line(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kgroups_spark.audit.run.read_tasks", full)
    monkeypatch.setattr("kgroups_spark.errors.spark_errors", lambda: ())
    words = ["audit", "--engine", "local", "--lake", str(tmp_path / "lake"), "--segments", str(SEGMENTS)]
    assert main(words) == KgroupsError.exit_code
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("kgroups: the audit failed; nothing that it wrote counts: ")
    assert last.endswith("No space left on device")


def test_strict_exits_3_for_quarantined_records(tmp_path, capsys):
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    data = bytearray((SEGMENTS / folder.name / f"{0:020}.log").read_bytes())
    data[30_000] ^= 0xFF
    (folder / f"{0:020}.log").write_bytes(data)
    words = ["audit", "--engine", "local", "--lake", str(tmp_path / "lake"), "--segments", str(tmp_path / "log")]
    assert main([*words, "--strict"]) == 3
    assert "corrupt_batch" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "21" 2023-09-19 LTS', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_version_is_read_from_what_java_prints(text, version):
    assert major_version(text) == version


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, r"JAVA_HOME is .*bin/java is not there; Spark needs Java 17 or newer"),
        ("no shell would run this", "bin/java does not run"),
        ("#!/bin/sh\necho 'openjdk version \"11.0.22\" 2024-01-16' >&2\n", "is Java 11; Spark needs Java 17 or newer"),
        ("#!/bin/sh\necho 'not a java' >&2\n", "printed 'not a java'; Spark needs Java 17 or newer"),
    ],
)
def test_a_java_home_without_a_java_for_spark_is_named(script, said, monkeypatch, tmp_path):
    java_home(tmp_path, script, monkeypatch)
    with pytest.raises(NoJava, match=said):
        require_java()


def test_java_home_comes_before_the_path(monkeypatch, tmp_path):
    java_home(tmp_path, "#!/bin/sh\necho 'openjdk version \"19.0.1\"' >&2\n", monkeypatch)
    assert require_java() == 19


def java_home(folder, script, monkeypatch):
    """Sets JAVA_HOME to a folder whose java is this script."""
    monkeypatch.setenv("JAVA_HOME", str(folder))
    if script is not None:
        (folder / "bin").mkdir()
        (folder / "bin" / "java").write_text(script)
        (folder / "bin" / "java").chmod(0o755)
