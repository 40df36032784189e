"""The shipped segments, audited in one night, and what the slow twin makes of them; once a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kgroups_spark.commands.demo import SEGMENTS
from tests.logs.log_files import read_folder
from tests.nights.nights_here import Audited, How, audit
from tests.twin.object_nights import ObjectTables, by_objects

HOW = How("4.3")


@cache
def story() -> Audited:
    return audit(read_folder(Path(SEGMENTS)), HOW)


@cache
def story_by_objects() -> ObjectTables:
    return by_objects(read_folder(Path(SEGMENTS)), HOW)
