"""The shipped segments, audited in one night: once a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kgroups_spark.cli.demo import SEGMENTS
from tests.logs.log_files import read_folder
from tests.nights.nights_here import Audited, How, audit


@cache
def story() -> Audited:
    return audit(read_folder(Path(SEGMENTS)), How("4.3", findings=True))
