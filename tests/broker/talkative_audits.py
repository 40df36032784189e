"""Audits and reads in a session that writes down all it can; a program of its own, as Spark's log
level is set when it starts.

    python -m tests.broker.talkative_audits FOLDER BOOTSTRAP ADMIN

FOLDER has plain.properties and scram.properties, of the user `auditor`, and an empty lake for each. In it come Spark's
event log, what Spark and Python log at their most talkative, and what tasks leave on disks. The password is changed
when the second audit's tasks are about to start: they are not let in. On stdout: every plan, what `kafka-raw` has read,
then the exit codes.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from pyspark.sql import SparkSession

from kgroups_spark.audit import run
from kgroups_spark.audit.run import read_steps
from kgroups_spark.cli import main as cli
from kgroups_spark.cluster.client_properties import client_properties, read_properties_file
from kgroups_spark.cluster.fetch import FetchLimits
from kgroups_spark.cluster.live_log import Fetcher
from kgroups_spark.replay.ranges import LogRange, ReadContext
from kgroups_spark.replay.stages import read_tasks, rows_of_ranges
from kgroups_spark.sources.files import open_file, with_storage
from kgroups_spark.sources.partition_log import FetchPiece
from kgroups_spark.spark.data_sources import KafkaRawDataSource
from kgroups_spark.spark.runner import LINES, SparkRunner
from kgroups_spark.spark.session import spark_session
from tests.small_lakes import FOR_SMALL_LAKES

LOG4J = """
<Configuration status="ERROR">
  <Appenders><File name="file" fileName="{file}"><PatternLayout pattern="%p %c: %m%n%ex"/></File></Appenders>
  <Loggers>
    <!-- Java code made of plans, forty megabytes of it: `codegen` among the plans shows what it is like. -->
    <Logger name="org.apache.spark.sql.catalyst.expressions.codegen" level="INFO"/>
    <Root level="DEBUG"><AppenderRef ref="file"/></Root>
  </Loggers>
</Configuration>
"""
NEW_PASSWORD = "n3w-s3cret"


def talkative_session(folder: Path) -> SparkSession:
    for name in ("events", "local"):
        (folder / name).mkdir()
    (folder / "log4j2.xml").write_text(LOG4J.format(file=folder / "spark.log"))
    not_compressed = ("eventLog", "shuffle", "shuffle.spill", "broadcast", "rdd")
    return spark_session(
        "talkative audits",
        {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={(folder / 'log4j2.xml').as_uri()}",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (folder / "events").as_uri(),
            "spark.local.dir": str(folder / "local"),
            **{f"spark.{name}.compress": "false" for name in not_compressed},
            **FOR_SMALL_LAKES,
        },
    )


@contextmanager
def java_made_of_plans(spark: SparkSession) -> Iterator[None]:
    """Audits do without it here, as it takes long; it shows what is in a plan."""
    usual = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    for name, value in usual.items():
        spark.conf.set(name, value)
    yield
    for name in usual:
        spark.conf.set(name, FOR_SMALL_LAKES[name])


def explain_all(spark: SparkSession, properties: Path, bootstrap: str) -> None:
    """The frame of the stage that reads, in all modes."""
    client = client_properties(bootstrap, read_properties_file(str(properties)))
    context = ReadContext(1, "4.3", open_file, Fetcher(client, FetchLimits()))
    piece = FetchPiece("__consumer_offsets", 0, None, 0, 10, True, 1, 100.0)
    ranges = [LogRange(0, 0, 0, (piece,))]
    task: Any = partial(read_tasks, ranges, context)
    frame = SparkRunner(spark).frame(rows_of_ranges([ranges])).mapInArrow(with_storage(task), LINES)
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame.explain(mode)


def read_raw(spark: SparkSession, properties: Path, bootstrap: str) -> None:
    """By `kafka-raw`; the client's properties go in one by one, as options. Prints plans, how many records there are,
    and why a topic that is not there cannot be read."""
    spark.dataSource.register(KafkaRawDataSource)
    client = read_properties_file(str(properties)).items()
    # It takes no key as an option, and brokers ask for none.
    options = {f"kafka.{name}": value for name, value in client if not name.startswith("ssl.keystore.")}
    reader = spark.read.format("kafka-raw").options(**{**options, "kafka.bootstrap.servers": bootstrap})
    frame = reader.load()
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame.explain(mode=mode)
    sys.stdout.write(frame._jdf.queryExecution().toString())
    frame.createOrReplaceTempView("raw")
    spark.sql("EXPLAIN EXTENDED SELECT * FROM raw WHERE offset > 3").show(truncate=False)
    sys.stdout.write(f"records={frame.count()}\n")
    try:
        reader.options(subscribe="nowhere").load().count()
    except Exception as error:
        sys.stdout.write(f"refused={error}\n")


def change_password(admin: str) -> None:
    change = UserScramCredentialUpsertion(
        "auditor", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), NEW_PASSWORD.encode()
    )
    client = AdminClient({"bootstrap.servers": admin})
    client.alter_user_scram_credentials([change])["auditor"].result(30)


def main(folder: Path, bootstrap: str, admin: str) -> None:
    # All that goes to the JVM, tasks with all they need, is in py4j's own: that is for those who look for its mistakes.
    logging.getLogger("py4j").setLevel(logging.INFO)
    spark = talkative_session(folder)

    def audit(name: str) -> int:
        reach = ["--bootstrap-server", bootstrap, "--command-config", str(folder / f"{name}.properties")]
        return cli.main(["audit", "--lake", str(folder / f"lake-{name}"), *reach])

    codes = [audit("plain")]
    with java_made_of_plans(spark):
        explain_all(spark, folder / "plain.properties", bootstrap)
        read_raw(spark, folder / "plain.properties", bootstrap)

    def after_a_change(*arguments: Any, **more: Any) -> Any:
        change_password(admin)
        return read_steps(*arguments, **more)

    run.read_steps = after_a_change
    codes.append(audit("scram"))
    shutil.copytree(folder / "local", folder / "left-by-tasks")
    spark.stop()
    sys.stdout.write(f"\nexit codes {codes}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
