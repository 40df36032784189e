"""Fetch and decode of a live topic, against a confluent-kafka consumer that only counts the same records.

    python -m benchmarks.live_fetch [--records 1000000] [--rounds 5] [--kafka 4.3.1]

It starts the tests' broker and puts the generated log (generate_log.py) into its data folder as a topic. Both sides
read it whole, each in its own process, in turns. The result is CPU seconds of these processes, without the broker's,
and the median of each round's ratio. Ours fetches raw batches, checks their CRCs and decodes every record: offset
commits into columns, values of other types to their end without keeping them. The other counts messages, without
control records, which a consumer never shows: one by one, as most programs do, and in lots, the cheapest way with
confluent-kafka.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.generate_log import Shape, generate

HERE = Path(__file__).parent
TOPIC = "offsets-log"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_fetch", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000, help="of the log (default: 1,000,000)")
    parser.add_argument("--partitions", type=int, default=8, help="of the topic (default: 8)")
    parser.add_argument("--codec", default="none", help="compression of the batches (default: none)")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--kafka", default="4.3.1", help="release of the broker (default: 4.3.1)")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.side:
        sys.stdout.write(f"{SIDES[options.side](options.address)}\n")
        return 0
    work = Path(tempfile.mkdtemp(prefix="kgroups-benchmark-"))
    try:
        return _measure(options, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _measure(options: argparse.Namespace, work: Path) -> int:
    from tests.broker.brokers import Brokers

    generate(work / "log", Shape(options.records, options.partitions, options.codec))
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    with Brokers(options.kafka, work / "brokers") as brokers:
        _lay_in(brokers.address, brokers.broker, work / "log", options.partitions)
        for number in range(options.rounds):
            counts = {}
            for side in SIDES:
                counts[side], cpu = _run(side, brokers.address)
                seconds[side].append(cpu)
            reported = ", ".join(f"{side} {seconds[side][-1]:.2f} CPU s, {counts[side]:,} records" for side in SIDES)
            sys.stderr.write(f"round {number + 1} of {options.rounds}: {reported}\n")
    for side, how in (("poll", "one by one, by poll()"), ("consume", "in lots of 10,000, by consume()")):
        ratio = statistics.median(a / b for a, b in zip(seconds["ours"], seconds[side], strict=True))
        sys.stdout.write(
            f"fetch + decode against a consumer that counts {how}: {statistics.median(seconds['ours']):.2f} and "
            f"{statistics.median(seconds[side]):.2f} CPU s, ratio {ratio:.2f} (at most 1.00 is wanted)\n"
        )
    return 0


def _lay_in(address: str, broker: object, log: Path, partitions: int) -> None:
    """Creates the topic, and replaces its segments by the log's."""
    from confluent_kafka.admin import AdminClient, NewTopic

    from tests.broker.brokers import Broker

    assert isinstance(broker, Broker)
    topic = NewTopic(TOPIC, partitions, 1, config={"retention.ms": "-1", "segment.bytes": str(1 << 30)})
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([topic])[TOPIC].result(60)
    del admin  # it would continue to look for the broker
    while len(list(broker.data.glob(f"{TOPIC}-*"))) < partitions:
        time.sleep(0.1)
    broker.stop()
    for number in range(partitions):
        folder = broker.data / f"{TOPIC}-{number}"
        for file in folder.glob("0*"):
            file.unlink()
        for segment in sorted((log / f"__consumer_offsets-{number}").glob("*.log")):
            (folder / segment.name).write_bytes(_of_first_epoch(segment.read_bytes()))
    broker.start()


def _of_first_epoch(segment: bytes) -> bytes:
    """The segment with leader epochs that this broker has had; no checksum covers them."""
    data, position = bytearray(segment), 0
    while position < len(data):
        data[position + 12 : position + 16] = bytes(4)
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return bytes(data)


def _run(side: str, address: str) -> tuple[int, float]:
    """The number of records that a side has read, and its CPU seconds."""
    command = [sys.executable, "-m", "benchmarks.live_fetch", "--side", side, "--address", address]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return int(output.splitlines()[-1]), cpu


def _fetch_and_decode(address: str) -> int:
    from kgroups_spark.cluster.client_properties import client_properties
    from kgroups_spark.cluster.cluster import Cluster
    from kgroups_spark.cluster.fetch import FetchLimits
    from kgroups_spark.cluster.live_log import PieceOpener, live_logs
    from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
    from kgroups_spark.messages.offset_commits import OffsetCommitDecoder, classify
    from kgroups_spark.records.columns import RecordColumns
    from kgroups_spark.records.segment import read_segment

    records = 0
    with Cluster(client_properties(address, {})) as cluster:
        open_fetch, others = PieceOpener(cluster, FetchLimits()), GroupRecordDecoder()
        for log in live_logs(cluster, TOPIC).logs:
            commits = OffsetCommitDecoder()
            for piece in log.new_pieces(log.start, ()):
                with open_fetch(piece) as file:
                    for chunk in read_segment(file, from_offset=piece.start_offset):
                        assert isinstance(chunk, RecordColumns), chunk
                        commit_rows, other_rows, _ = classify(chunk)
                        commits.decode(chunk, commit_rows)
                        for _ in others.decode_rows(chunk, other_rows):
                            pass
                        records += len(chunk)
    return records


def _count_by_poll(address: str) -> int:
    return _count(address, one_by_one=True)


def _count(address: str, one_by_one: bool = False) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "counts",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    partitions = sorted(consumer.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions)
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in partitions])
    records, at_end = 0, set[int | None]()
    while len(at_end) < len(partitions):
        for message in [consumer.poll(1)] if one_by_one else consumer.consume(10_000, timeout=1):
            if message is None:
                continue
            if message.error() is None:
                records += 1
            else:
                at_end.add(message.partition())
    consumer.close()
    return records


SIDES = {"ours": _fetch_and_decode, "poll": _count_by_poll, "consume": _count}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
