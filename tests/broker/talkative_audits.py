"""An audit and a read in a session that writes down all it can.

A program of its own, as Spark's log level is set at its start.

    python -m tests.broker.talkative_audits FOLDER BOOTSTRAP

FOLDER has client.properties, and an empty lake. In it come Spark's event log and what Spark logs at its most talkative.
On stdout: every plan, what `kafka-raw` has read, then the exit code of the audit.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from kgroups_spark.cli import main as cli
from kgroups_spark.cluster.client_properties import read_properties_file
from kgroups_spark.spark.data_sources import KafkaRawDataSource
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
MODES = ("extended", "codegen", "cost", "formatted")


def talkative_session(folder: Path) -> SparkSession:
    (folder / "events").mkdir()
    (folder / "log4j2.xml").write_text(LOG4J.format(file=folder / "spark.log"))
    return spark_session(
        "talkative audits",
        {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={(folder / 'log4j2.xml').as_uri()}",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (folder / "events").as_uri(),
            "spark.eventLog.compress": "false",
            **FOR_SMALL_LAKES,
        },
    )


def read_raw(spark: SparkSession, properties: dict[str, str], bootstrap: str) -> None:
    """By `kafka-raw`; the client's properties go in one by one, as options. Prints plans, how many records there are,
    and why a topic that is not there cannot be read."""
    spark.dataSource.register(KafkaRawDataSource)
    # It takes no key as an option, and brokers ask for none.
    options = {f"kafka.{name}": value for name, value in properties.items() if not name.startswith("ssl.keystore.")}
    reader = spark.read.format("kafka-raw").options(**{**options, "kafka.bootstrap.servers": bootstrap})
    frame = reader.load()
    for mode in MODES:
        frame.explain(mode=mode)
    sys.stdout.write(f"{frame._jdf.queryExecution().toString()}\nrecords={frame.count()}\n")
    try:
        reader.options(subscribe="nowhere").load().count()
    except Exception as error:
        sys.stdout.write(f"refused={error}\n")


def main(folder: Path, bootstrap: str) -> None:
    # All that goes to the JVM, tasks with all they need, is in py4j's own: that is for those who look for its mistakes.
    logging.getLogger("py4j").setLevel(logging.INFO)
    spark, file = talkative_session(folder), folder / "client.properties"
    reach = ["--bootstrap-server", bootstrap, "--command-config", str(file)]
    code = cli.main(["audit", "--lake", str(folder / "lake"), *reach])
    # Audits do without Java made of plans here, as it takes long; it shows what is in a plan.
    for name, value in {"wholeStage": "true", "factoryMode": "FALLBACK"}.items():
        spark.conf.set(f"spark.sql.codegen.{name}", value)
    properties = read_properties_file(str(file))
    read_raw(spark, properties, bootstrap)
    spark.stop()
    sys.stdout.write(f"exit code {code}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
