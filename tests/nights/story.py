"""The shipped segments, audited in one night: once a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest import mock

from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.findings import finders
from tests.logs.log_files import read_folder
from tests.nights.nights_here import Audited, How, audit


@cache
def story() -> Audited:
    # The first test that asks may do without findings; the others may not.
    with mock.patch("kgroups_spark.audit.result.look", finders.look):
        return audit(read_folder(Path(SEGMENTS)), How("4.3", findings=True))
