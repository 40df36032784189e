"""Files with the session of Spark go to one process of pytest-xdist, as long as there are others for the others: each
process that has one file of them starts a JVM, which is slow until it has compiled what tests call."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[1]
# A test or a fixture that asks for it. The process that deals the files reads no tests.
ASKS_FOR_SPARK = re.compile(
    r"def test_\w+\([^)]*\bspark\b|@pytest\.fixture.*\ndef \w+\([^)]*\bspark\b|usefixtures\([^)]*\"spark\"|"
    r"^pytestmark = .*\bspark\b",
    re.MULTILINE,
)


@cache
def has_session(file: Path) -> bool:
    """Whether a test of the file has the session, as its text says."""
    return ASKS_FOR_SPARK.search(file.read_text()) is not None


class OneSession(LoadFileScheduling):  # type: ignore[misc]
    """Deals the files in their order, but to each process its own kind first."""

    def _assign_work_unit(self, node: Any) -> None:
        is_first = node.gateway.id == "gw0"
        own = [file for file in self.workqueue if has_session(ROOT / file) == is_first]
        for file in own[:1]:
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
