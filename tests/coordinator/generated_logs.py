"""Generated logs of the group coordinator, and what Kafka's own classes held."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from functools import cache

from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from tests.coordinator.log_rows import replay_rows
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import Files, read_zip, segments_of
from tests.twin.shard import ReplayRow

MORE_ANSWERS = {version: LOGS.with_name(f"answers_{version}.zip") for version in ("4.0.0", "4.4.0")}
JAVA = ("4.4.0", "4.3.1", "4.2.1", "4.1.2", "4.0.2", "4.0.0")
UNLOADED_AT_THE_END = "Unexpected unload of active group"  # thrown when everything is in the cache (Scala)


@cache
def segments() -> dict[tuple[str, int], Files]:
    """The segments by log and partition."""
    found = {}
    for log, files in read_zip(LOGS).items():
        for partition, paths in segments_of(files).items():
            found[log, partition] = {path: files[path] for path in paths}
    return found


def logs() -> dict[str, dict[int, list[ReplayRow]]]:
    """Rows by log and partition."""
    found: dict[str, dict[int, list[ReplayRow]]] = {}
    for log, partition in segments():
        found.setdefault(log, {})[partition] = rows_of(log, partition)
    return found


@cache
def rows_of(log: str, partition: int) -> list[ReplayRow]:
    """The rows of a partition of a log."""
    return list(replay_rows(map(io.BytesIO, segments()[log, partition].values())))


def raw_records() -> Iterator[tuple[bytes, bytes | None]]:
    """Key and value of every record of types 2 to 23 of the logs."""
    for segment in (data for files in segments().values() for data in files.values()):
        for records in read_segment(io.BytesIO(segment)):
            assert isinstance(records, RecordColumns)
            for i in range(len(records)):
                key = records.key(i)
                if key is not None and 2 <= int.from_bytes(key[:2], "big") < 24:
                    yield key, records.value(i)


@cache
def answers(version: str) -> list[tuple[str, dict]]:
    """(log, partition's answer) of a release."""
    with zipfile.ZipFile(MORE_ANSWERS.get(version, LOGS)) as archive:
        by_log = json.loads(archive.read(f"answers/{version}.json"))
    return [(log, answer) for log, partitions in by_log.items() for answer in partitions]
