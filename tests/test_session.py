from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pyarrow as pa
import pytest
from pyspark.errors import PySparkAttributeError

import kgroups_spark
from kgroups_spark.cli.open_lake import start_spark
from kgroups_spark.errors import SET_UP_BY, KgroupsError
from kgroups_spark.package_data import package_text
from kgroups_spark.sources.files import POOL
from kgroups_spark.spark import session
from kgroups_spark.spark.java import NoJava
from kgroups_spark.spark.session import Jvm


@pytest.mark.spark
def test_an_existing_session_is_used_with_our_settings(spark):
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    assert session.spark_session("another", {"spark.sql.shuffle.partitions": "2"}) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.spark
def test_our_own_session_uses_downloaded_jars_and_opens_no_public_port(spark):
    assert "io.delta_delta-spark" in spark.conf.get("spark.jars")
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


@pytest.mark.parametrize("variable", [None, "SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_a_collector_that_the_user_has_chosen_counts(variable, monkeypatch):
    """A JVM with two of them does not start."""
    for name in ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    assert session.COLLECTOR in session.java_options("-Xss4m").split()
    given = "-Xss4m -XX:+UseZGC"
    if variable is not None:
        monkeypatch.setenv(variable, given)
        given = "-Xss4m"
    assert session.COLLECTOR not in session.java_options(given)
    assert session.java_options(given).endswith("-Xss4m" if variable else "-XX:+UseZGC")


def test_classes_come_from_an_archive_that_is_whole_and_newer_than_the_jars(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    asked = session.class_archive()
    assert asked in session.java_options("").split()
    with mock.patch.dict(os.environ, SPARK_CONF_DIR="conf"):
        assert "Archive" not in session.java_options("")
    option, _, name = asked.partition("=")
    assert option == "-XX:ArchiveClassesAtExit"
    archive = Path(name)
    archive.parent.mkdir()
    archive.write_bytes(b"\xf0\x0b")  # of a JVM in which Spark did not start
    assert session.class_archive() == asked
    with archive.open("wb") as sparse:
        sparse.truncate(session.SMALLEST_ARCHIVE + 1)  # of one that was killed while it wrote
    assert session.class_archive() == asked
    with archive.open("r+b") as sparse:
        sparse.write(b"\xf0\x0b")
    assert session.class_archive() == f"-XX:SharedArchiveFile={archive}"
    os.utime(archive, (0, 0))  # Spark was installed again since
    assert session.class_archive() == asked


@pytest.mark.parametrize("given", ["-XX:SharedArchiveFile=own.jsa", "-XX:ArchiveClassesAtExit=own.jsa"])
def test_an_archive_that_the_user_has_chosen_counts(given):
    assert session.java_options(given).count("Archive") == 1


@pytest.mark.spark
def test_the_jvm_has_room_for_compiled_code(spark):
    """With the one compiler it reserves 48 MB, and stops compiling, with a warning on stdout, when they are full."""
    pools = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    assert sum(pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code")) >= 200 << 20


@pytest.mark.spark
def test_workers_have_arrows_memory_from_malloc_from_their_start(spark):
    def pool(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"pool": [os.environ.get(POOL)]})

    assert [row.pool for row in spark.range(1).mapInArrow(pool, "pool string").collect()] == ["system"]


@pytest.mark.spark
def test_workers_are_forks_of_a_process_that_has_what_tasks_import_and_not_pandas(spark):
    def libraries(_):
        return Path(f"/proc/{os.getppid()}/maps").read_text()

    [maps] = spark.sparkContext.parallelize([0], 1).map(libraries).collect()
    assert "/pyarrow/" in maps and "/pandas/" not in maps


@pytest.mark.spark
def test_a_users_functions_on_pandas_run_in_our_own_session(spark):
    doubled = spark.range(3).mapInPandas(lambda frames: (frame * 2 for frame in frames), "id long")
    assert [row.id for row in doubled.collect()] == [0, 2, 4]


def test_without_a_java_for_spark_no_session_is_started(monkeypatch):
    def no_java():
        raise NoJava("java is Java 11; Spark needs Java 17 or newer")

    monkeypatch.setattr(session, "require_java", no_java)
    monkeypatch.setattr(session, "_started", lambda builder: pytest.fail("started"))
    with pytest.raises(KgroupsError, match="Java 11; Spark needs Java 17"):
        session._local_session("tests", {}, False, print)


def test_our_own_session_takes_s3_settings_from_the_variables_of_aws_tools(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert session._s3_of_environment() == {}
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    region = {"spark.hadoop.fs.s3a.endpoint.region": "eu-west-1"}
    assert session._s3_of_environment() == region
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://storage:9000")
    assert session._s3_of_environment() == {
        **region,
        "spark.hadoop.fs.s3a.endpoint": "http://storage:9000",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


@pytest.mark.parametrize("version", ["4.0.1", "4.1.0", "4.3.0", "3.5.6", "4.20.0"])
def test_another_release_of_spark_is_refused_before_anything_starts(version, monkeypatch, capsys):
    monkeypatch.setattr("pyspark.version.__version__", version)
    monkeypatch.setattr(session, "_started", lambda builder: pytest.fail("started"))
    monkeypatch.setattr(session, "require_java", lambda: pytest.fail("looked for Java"))
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    for use in (session.spark_session, lambda: start_spark("audit", "./lake"), lambda: audit_of("./lake")):
        with pytest.raises(KgroupsError, match=f"^this is Spark {version}, and kgroups runs on Spark 4.2 alone: use a"):
            use()
    assert capsys.readouterr().err == ""


def audit_of(lake):
    return kgroups_spark.run_audit(lake, segments=".")


def test_a_session_of_another_release_is_refused():
    """As under spark-submit, where PySpark may be that of pip and the JVM that of the cluster."""
    with pytest.raises(KgroupsError, match=r"this is Spark 4\.1\.2, and kgroups runs on Spark 4\.2 alone"):
        session.require_jvm(SimpleNamespace(version="4.1.2"))
    session.require_jvm(SimpleNamespace(version="4.2.1-amzn-0"))


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_spark_connect_is_refused(monkeypatch, variable):
    monkeypatch.setenv(variable, "sc://localhost")
    with pytest.raises(KgroupsError, match="a session of Spark Connect, whose JVM cannot be reached"):
        session.spark_session("tests")


@pytest.mark.parametrize(
    "use",
    [
        lambda spark: kgroups_spark.open_lake("./lake", spark),
        lambda spark: kgroups_spark.run_audit("./lake", segments=".", spark=spark),
    ],
)
def test_a_session_of_spark_connect_that_is_given_is_refused(use):
    """Its class, by its name: pyspark's own needs grpc."""

    class Connect:
        def __getattr__(self, name):
            raise PySparkAttributeError(f"{name} is not supported in Spark Connect")

    Connect.__module__ = "pyspark.sql.connect.session"
    with pytest.raises(KgroupsError, match="a session of Spark Connect, whose JVM cannot be reached"):
        use(Connect())


def test_under_spark_submit_only_necessary_settings_are_set(monkeypatch):
    started = []
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(session.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "_builder", lambda app_name, settings: dict(settings))
    monkeypatch.setattr(session, "_started", started.append)
    monkeypatch.setattr(session, "_with_session_settings", lambda spark, extra: spark)
    session.spark_session("job")
    assert started == [session.NEEDED]


@pytest.mark.parametrize("configured", [False, True])
def test_a_command_leaves_no_empty_warehouse_in_the_current_folder(monkeypatch, configured):
    """Spark makes the folder as soon as a view or function is made, and fails where it cannot."""
    started = []
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr(session, "spark_session", lambda name, settings, *, s3, progress: started.append(settings))
    for name in SET_UP_BY:
        monkeypatch.delenv(name, raising=False)
    if configured:
        monkeypatch.setenv("SPARK_CONF_DIR", "conf")  # the user's own warehouse stays
    start_spark("report")
    assert started == [{} if configured else {"spark.sql.warehouse.dir": tempfile.gettempdir()}]


def test_delta_is_downloaded_once_into_a_folder_of_our_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = session._jars()
    assert settings["spark.jars.ivy"] == str(tmp_path / "kgroups-spark" / "ivy")
    assert settings["spark.jars.packages"] == session.DELTA_JAR

    jar = session.ivy_folder() / "jars" / "delta.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    session._jar_list(session.DELTA_JAR).write_text(str(jar))
    assert session._jars() == {"spark.jars": str(jar)}

    jar.unlink()  # a cache that was cleaned
    assert session._jars() == settings


def test_a_cache_that_cannot_be_made_is_named_with_the_variable_that_moves_it(monkeypatch, tmp_path):
    """As in a container whose user has no home."""
    (tmp_path / "cache").touch()  # root could write into a folder that is only read-only
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with (
        pytest.raises(
            KgroupsError, match=r"cache/kgroups-spark/ivy, which cannot .*\(Not a dir.*\): set XDG_CACHE_HOME"
        ),
        session._one_download_at_a_time(session.DELTA_JAR),
    ):
        pass


@pytest.mark.parametrize("name", ["spark-laptop", "spark-cluster", "spark-standalone", "s3"])
def test_the_conf_downloads_what_our_own_session_does(name):
    """Jars that Spark has itself are not sent to each executor a second time."""
    lines = (Path(__file__).parents[1] / "conf" / f"{name}.conf").read_text().splitlines()
    settings = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    s3 = name == "s3"
    excluded = (*session.SHIPPED_WITH_SPARK, *(session.NOT_FOR_S3 if s3 else ()))
    assert settings["spark.jars.packages"].split(",") == [session.DELTA_JAR, *(session.S3_JARS if s3 else ())]
    assert settings["spark.jars.excludes"].split(",") == list(excluded)


def test_ivys_settings_name_one_resolver_and_no_host():
    text = package_text("ivysettings.xml")
    assert re.findall(r"<ibiblio [^>]*>", text) == ['<ibiblio name="central" m2compatible="true"/>']
    assert "://" not in text


# The output of Spark's JVM goes through us; a shell takes the JVM's place.


def shell(script, said):
    return Jvm(["sh", "-c", script], said.append, {"stdin": subprocess.PIPE})


def until(is_so):
    while not is_so():
        time.sleep(0.01)


def test_output_of_a_jvm_that_fails_to_start_is_passed_on():
    said = []
    jvm = shell("echo 'resolving orders'; echo 'no network' >&2; exit 1", said)
    jvm.process.wait()
    assert said == []
    jvm.failed()
    assert said == ["resolving orders", "no network"]


def test_output_of_a_running_jvm_is_passed_on_at_once_until_it_is_stopped():
    said = []
    ending = "trap 'echo a stack; exit 0' TERM; while :; do sleep 0.05; done"
    jvm = shell(f"echo noise; read go; {ending.replace('while', 'echo out of memory >&2; while')}", said)
    until(lambda: bool(jvm.held_back))
    jvm.started()
    assert jvm.process.stdin is not None
    jvm.process.stdin.write(b"go\n")
    jvm.process.stdin.flush()
    until(lambda: bool(said))
    jvm.stop()
    assert (jvm.process.poll(), said) == (0, ["out of memory"])


def test_a_jvm_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr("kgroups_spark.spark.session.SECONDS_TO_END", 0.2)
    jvm = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", [])
    until(lambda: bool(jvm.held_back))
    jvm.stop()
    assert jvm.process.wait() == -9
