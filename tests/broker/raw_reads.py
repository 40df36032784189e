"""Reads by `kafka-raw` in a session of its own, with everything on that could tell a secret: plans, event log, errors.

    python -m tests.broker.raw_reads ADDRESS PROPERTIES_FILE EVENT_LOG_FOLDER

The properties go in one by one, as options. Prints plans, how many records there are, and why a topic that is not there
cannot be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kgroups_spark.client.properties_file import read_properties_file
from kgroups_spark.data_sources.kafka_raw import KafkaRawDataSource
from kgroups_spark.session import spark_session


def main(address: str, properties_file: str, event_log: str) -> None:
    Path(event_log).mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": Path(event_log).as_uri(),
    }
    spark = spark_session("raw", settings)
    spark.dataSource.register(KafkaRawDataSource)
    properties = {f"kafka.{name}": value for name, value in read_properties_file(properties_file).items()}
    options = {"kafka.bootstrap.servers": address, **properties}
    frame = spark.read.format("kafka-raw").options(**options).load()
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame.explain(mode=mode)
    sys.stdout.write(frame._jdf.queryExecution().toString())
    frame.createOrReplaceTempView("raw")
    spark.sql("EXPLAIN EXTENDED SELECT * FROM raw WHERE offset > 3").show(truncate=False)
    sys.stdout.write(f"records={frame.count()}\n")
    try:
        spark.read.format("kafka-raw").options(**options, subscribe="nowhere").load().count()
    except Exception as error:
        sys.stdout.write(f"refused={error}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
