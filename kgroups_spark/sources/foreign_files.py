"""Files and folders that are given in place of segments, and what to do instead."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple

from kgroups_spark.errors import KgroupsError
from kgroups_spark.storage.files import list_folder, name_of, open_file, path_in


class Form(NamedTuple):
    """`name`: what it is; `begins`: the first bytes of such a file; `instead`: what to do."""

    name: str
    begins: re.Pattern[bytes]
    instead: str


_THE_LOG = (
    "give the broker's log directory or a copy of it, or read the live cluster (kgroups audit --bootstrap-server)"
)
# The magic numbers of gzip, zstd, bzip2, xz, zip and 7z; tar has its own at byte 257.
_PACKED = rb"\x1f\x8b|\x28\xb5\x2f\xfd|BZh|\xfd7zXZ|PK\x03\x04|7z\xbc\xaf|[^\0][\s\S]{256}ustar"
FORMS = (
    Form(
        "an archive or a compressed file",
        re.compile(_PACKED),
        "unpack it, and give the segment, or the folder with __consumer_offsets-<partition> folders in it",
    ),
    Form(
        "the output of kafka-console-consumer with a formatter, which lacks offsets of records, log times and markers",
        re.compile(rb'\s*\{"key":\s*(?:null|\{"(?:type|version)":)|\[[^\]\n]*\]::'),
        _THE_LOG,
    ),
    Form(
        "text that kafka-dump-log printed",
        re.compile(rb"Dumping /|(?:Log s|S)tarting offset: \d|baseOffset: \d|\| offset: \d"),
        "give the segment from which it was made",
    ),
    Form(
        "the output of kcat -J, which has keys and values as text in place of their bytes",
        re.compile(rb'\s*\{"topic":\s*"[^"]*",\s*"partition":\s*\d+,\s*"offset":'),
        _THE_LOG,
    ),
)
_REDPANDA = (
    "files of Redpanda, whose log has a form of its own, which nothing here reads: its own tool shows its groups (rpk "
    "group describe)"
)
# `kafka/__consumer_offsets/3_20/0-1-v1.log`: partition and revision, then base offset and term.
_OF_REDPANDA = re.compile(r"\d+_\d+|\d+-\d+-v1\.log")
_LOOKED_AT = 512  # bytes


def foreign_form(path: str) -> str:
    """A clause that names the form and what to do instead: `; it is ...`. Empty if the file or folder has none of these
    forms, or cannot be read."""
    with suppress(KgroupsError, OSError, ValueError, NotImplementedError):
        if _is_redpandas(path):
            return f"; these are {_REDPANDA}"
        with open_file(path) as file:
            head = bytes(file.read(_LOOKED_AT))
        return next((f"; it is {form.name}: {form.instead}" for form in FORMS if form.begins.match(head)), "")
    return ""


def _is_redpandas(path: str) -> bool:
    """Whether it is one of its segments, a folder of them, or up to three folders above."""
    if _OF_REDPANDA.fullmatch(name_of(path)):
        return True
    for inside in ("", "__consumer_offsets", "kafka/__consumer_offsets"):
        with suppress(KgroupsError):
            entries = list_folder(path_in(path, inside) if inside else path)
            if any(_OF_REDPANDA.fullmatch(entry.name) for entry in entries):
                return True
    return False
