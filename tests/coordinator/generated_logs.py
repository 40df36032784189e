"""Generated logs of the group coordinator: what Kafka's own classes held after loading them, and the package.

`data/generated_logs.zip`: segments that 4.3.1's coordinator shards wrote for random clients, cleaned ones, and
arbitrary orders and foreign bytes; `answers/` has what the classes of each release answered, going on after records
that fail (Scala's loader does not go on).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.differences import Difference, Loaded, LoadFailure, LoadFailures
from kgroups_spark.coordinator.releases import Topics, release
from kgroups_spark.offsets.columns import JoinedLog
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from kgroups_spark.replay.shard import Night, ShardReplay
from kgroups_spark.replay.state import ENTRIES, saved
from kgroups_spark.replay.state import loaded as loaded_state
from kgroups_spark.tables.rows import no_rows
from tests.coordinator.oracle_answers import Json, Tables
from tests.coordinator.oracle_differences import Place
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import Files, read_zip, segments_of
from tests.nights.decoded import decode
from tests.nights.replayed_logs import LOG
from tests.offsets.log_tables import shard_history

MORE_ANSWERS = {version: LOGS.with_name(f"answers_{version}.zip") for version in ("4.0.0", "4.4.0")}
JAVA = ("4.4.0", "4.3.1", "4.2.1", "4.1.2", "4.0.2", "4.0.0")


@cache
def segments() -> dict[tuple[str, int], Files]:
    """The segments by log and partition."""
    found = {}
    for log, files in read_zip(LOGS).items():
        for partition, paths in segments_of(files).items():
            found[log, partition] = {path: files[path] for path in paths}
    return found


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
def answers(version: str) -> list[tuple[str, Json]]:
    """(log, partition's answer) of a release."""
    with zipfile.ZipFile(MORE_ANSWERS.get(version, LOGS)) as archive:
        by_log = json.loads(archive.read(f"answers/{version}.json"))
    return [(log, answer) for log, partitions in by_log.items() for answer in partitions]


@cache
def replayed(version: str) -> tuple[dict[tuple[str, int], Tables], pa.Table]:
    """The package's tables of each partition of each log, and the saved state. The partitions are numbered in the order
    of `segments`, and replayed together."""
    numbers = range(len(segments()))
    files = {
        f"__consumer_offsets-{number}/{path.split('/')[1]}": data
        for number, of_partition in zip(numbers, segments().values(), strict=True)
        for path, data in of_partition.items()
    }
    rules, log = release(version), JoinedLog.over(numbers, dict.fromkeys(numbers, 1 << 40))
    read = decode(files, version, together=True)
    history = shard_history([read.table(name) for name in LOG], log=log)
    replay = ShardReplay(Night(1, version, None, Topics()), loaded_state(no_rows(ENTRIES), rules, log), history)
    rows: dict[tuple[str, int], list[Json]] = defaultdict(list)
    for name, table in [*replay.outputs(), ("quarantine", read.table("quarantine"))]:
        for row in table.to_pylist(maps_as_pydicts="strict"):
            rows[name, row["offsets_partition"]].append(row)
    tables = {
        place: Tables(rules, lambda name, number=number: rows[name, number])
        for number, place in zip(numbers, segments(), strict=True)
    }
    return tables, saved(replay.state)


@cache
def loaded(log: str, partition: int, version: str) -> Loaded:
    """The state after the package's replay of a partition, and the records that fail."""
    tables, entries = replayed(version)
    of_partition = entries.filter(pc.equal(entries["offsets_partition"], [*tables].index((log, partition))))
    failed, rules = tables[log, partition].failed(), release(version)
    failures = LoadFailures(LoadFailure(failed[0], "fails"), len(failed)) if failed else LoadFailures()
    return Loaded(partition, rules, loaded_state(of_partition, rules), failures)


def place(each: Difference) -> Place:
    """As oracle_differences.py has it: only the values of offsets."""
    values = (each.value_a, each.value_b) if each.what == "committed_offset" else (None, None)
    where = (each.member_id, each.producer_id, each.topic, each.partition)
    return (each.difference, each.what, each.group_id, *where, *values)
