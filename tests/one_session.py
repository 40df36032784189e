"""Test files with the Spark session go to one process of pytest-xdist, as long as the others have other files: each
process with such a file starts a JVM, which is slow until it has compiled the code that tests call."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[1]
# A test or a fixture that uses the session. The process that distributes the files does not collect tests.
ASKS_FOR_SPARK = re.compile(
    r"def test_\w+\([^)]*\bspark\b|@pytest\.fixture.*\ndef \w+\([^)]*\bspark\b|usefixtures\([^)]*\"spark\"|"
    r"^pytestmark = .*\bspark\b",
    re.MULTILINE,
)


@cache
def has_session(file: Path) -> bool:
    """Whether a test of the file uses the session, by its text."""
    return ASKS_FOR_SPARK.search(file.read_text()) is not None


class OneSession(LoadFileScheduling):  # type: ignore[misc]
    """Distributes the files in their order, but each process gets files of its own kind first."""

    def _assign_work_unit(self, node: Any) -> None:
        is_first = node.gateway.id == "gw0"
        own = [file for file in self.workqueue if has_session(ROOT / file) == is_first]
        for file in own[:1]:
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
