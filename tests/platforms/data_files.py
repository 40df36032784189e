"""Which files a table's log has named."""

from __future__ import annotations

import json
from pathlib import Path


def data_files(lake: Path, table: str) -> set[str]:
    """The names of all files that were ever added to a table of a lake."""
    names = set()
    for version in (lake / table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in version.read_text().splitlines()]
        names |= {action["add"]["path"] for action in actions if "add" in action}
    return names
