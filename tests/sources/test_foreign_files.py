"""Files that are given in place of segments: each form is named with what to do instead; a file like it is not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from kgroups_spark.sources.segments import foreign_form

SEGMENT = (SEGMENTS / "__consumer_offsets-0" / f"{0:020}.log").read_bytes()[:2000]


def tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(f"logs/__consumer_offsets-0/{0:020}.log")
        entry.size = len(SEGMENT)
        archive.addfile(entry, io.BytesIO(SEGMENT))
    return packed.getvalue()


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("segment.log", SEGMENT)
    return packed.getvalue()


# As the tools of Kafka 4.3.1 and 3.7 print them, and kcat 1.7.
FORMATTED = (
    b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":{"version":4,"data":{"offset":7}}}'
)
FORMATTED_BEFORE = b"[g,t,0]::OffsetAndMetadata(offset=7, leaderEpoch=Optional.empty, metadata=, commitTimestamp=1)\n"
DUMPED = b"Dumping /kafka/__consumer_offsets-0/00000000000000000000.log\nLog starting offset: 0\n"
CAT = (
    b'{"topic":"__consumer_offsets","partition":3,"offset":0,"tstype":"create","ts":1,"broker":1,"key":"","payload":""}'
)
FORMS = {
    "tar": (tar(), "an archive or a compressed file: unpack it"),
    "tar.gz": (gzip.compress(tar()), "an archive or a compressed file: unpack it"),
    "tar.bz2": (bz2.compress(tar()), "an archive or a compressed file: unpack it"),
    "tar.xz": (lzma.compress(tar()), "an archive or a compressed file: unpack it"),
    "tar.zst": (b"\x28\xb5\x2f\xfd" + bytes(90), "an archive or a compressed file: unpack it"),
    "zip": (zipped(), "an archive or a compressed file: unpack it"),
    "json": (FORMATTED, "the output of kafka-console-consumer with a formatter, which lacks offsets of records"),
    "tombstones.json": (b'{"key":{"version":"1","data":{}},"value":null}', "the output of kafka-console-consumer"),
    "txt": (FORMATTED_BEFORE, "the output of kafka-console-consumer"),
    "dumped.txt": (DUMPED, "text that kafka-dump-log printed: give the segment"),
    "batches.txt": (b"baseOffset: 0 lastOffset: 3 count: 4 baseSequence: -1", "text that kafka-dump-log printed"),
    "records.txt": (b"| offset: 0 CreateTime: 1 keySize: 9 valueSize: 3", "text that kafka-dump-log printed"),
    "kcat": (CAT, "the output of kcat -J, which has keys and values as text in place of their bytes: give the broker"),
}


@pytest.mark.parametrize("name", FORMS)
def test_audit_and_dump_name_the_form_and_the_way_out(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, said = FORMS[name]
    path = tmp_path / f"offsets.{name}"
    path.write_bytes(content)
    for command in (["audit", "--lake", str(tmp_path / "lake"), "--segments", str(path)], ["dump", str(path)]):
        assert main(command) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        assert f"; it is {said}" in err
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    "content",
    [
        SEGMENT,
        b"",
        bytes(1000),
        b'{"key": "orders", "value": {"type": 1}}',
        b'{"topic":"orders","offset":7}',
        b"[2026-11-16 06:41:21,000] INFO starting (kafka.server.KafkaServer)\n",
        b"Dumping the cluster's state\n",
        b"\0" + tar()[1:],  # a segment begins with zeros
    ],
)
def test_another_file_is_called_nothing(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some.file"
    path.write_bytes(content)
    assert foreign_form(str(path)) == ""
    assert foreign_form(str(tmp_path / "missing")) == ""


@pytest.mark.parametrize("above", range(5))
def test_folders_of_redpanda_are_named(above: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "data" / "kafka" / "__consumer_offsets" / "3_20" / "0-1-v1.log"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\x8c\x6c\x2d\x11" + bytes(range(1, 90)))
    path = [file, *file.parents][above]
    for command in (["audit", "--lake", str(tmp_path / "lake"), "--segments", str(path)], ["dump", str(path)]):
        assert main(command) == 2
        assert "; these are files of Redpanda, whose log has a form of its own" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["__consumer_offsets-3", "3_x", "orders-0", "0-1-v1.log.bak"])
def test_other_folders_are_not_called_redpandas(name: str, tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets" / name).mkdir(parents=True)
    assert foreign_form(str(tmp_path)) == ""
