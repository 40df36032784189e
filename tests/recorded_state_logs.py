"""Recordings of brokers: `__share_group_state` and `__transaction_state`, and the answers of their Admin API."""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache
from pathlib import Path

from kgroups_spark.messages.coordinator_records import CoordinatorRecordDecoder
from kgroups_spark.records.columns import CorruptBatch
from kgroups_spark.records.segment import read_segment

_ZIP = Path(__file__).parent / "data" / "corpora" / "state-logs.zip"


@cache
def answers():
    """By recording: release, asked_at_ms, and the answers about share groups or transactions."""
    with zipfile.ZipFile(_ZIP) as archive:
        return json.loads(archive.read("answers.json"))


@cache
def records(recording, topic):
    """(partition, log offset, log timestamp, key, value) of a topic's records, in log order of each partition."""
    out = []
    with zipfile.ZipFile(_ZIP) as archive:
        prefix = f"logs/{recording}/{topic}-"
        for name in sorted(n for n in archive.namelist() if n.startswith(prefix)):
            partition = int(name.removeprefix(prefix).split("/")[0])
            for chunk in read_segment(io.BytesIO(archive.read(name))):
                assert not isinstance(chunk, CorruptBatch)
                for row in range(len(chunk)):
                    place = (partition, int(chunk.offset[row]), int(chunk.timestamp[row]))
                    out.append((*place, chunk.key(row), chunk.value(row)))
    return out


def decoded(recording, log):
    """(partition, log offset, log timestamp, CoordinatorRecord) of a log's records."""
    decoder = CoordinatorRecordDecoder(log)
    return [(*place, decoder.decode(key, value)) for *place, key, value in records(recording, log.topic)]


def write_logs(recording, folder, topic=""):
    """Writes the recorded folders of partitions, of one topic or of all; returns the log directory."""
    prefix = f"logs/{recording}/"
    with zipfile.ZipFile(_ZIP) as archive:
        for name in archive.namelist():
            if name.startswith(prefix + topic):
                path = folder / name.removeprefix(prefix)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
    return folder


def segments(recording, topic):
    """The bytes of each partition's segment, by partition."""
    prefix = f"logs/{recording}/{topic}-"
    with zipfile.ZipFile(_ZIP) as archive:
        names = [name for name in archive.namelist() if name.startswith(prefix)]
        return {int(name.removeprefix(prefix).split("/")[0]): archive.read(name) for name in names}


def log_dir(recording, folder):
    """The recorded log directory of a broker, with all logs that are there, but for most offsets partitions."""
    write_logs(recording, folder)
    with zipfile.ZipFile(_ZIP.parent / ("corpora-4.4.zip" if recording.endswith("4.4") else "corpora.zip")) as archive:
        for name in archive.namelist():
            if name.startswith(f"logs/{recording}/__consumer_offsets-0/") and name.endswith(".log"):
                path = folder / name.removeprefix(f"logs/{recording}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
    return folder
