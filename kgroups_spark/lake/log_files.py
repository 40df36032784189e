"""Old versions in the tables' logs, and their removal.

Delta's writers clean up a log by themselves: after a checkpoint they delete older versions. They do not know that
readers go back to the version of the last finished audit: if an audit that never finished made the commit with the
checkpoint, that version would be deleted. So our tables have `delta.enableExpiredLogCleanup=false`, and we clean up
here instead.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping

from kgroups_spark.durations import DAY_MS
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.tables.schemas import TABLES

# As long as Delta keeps them by default, for time travel by number or time.
KEPT_MS = 30 * DAY_MS

# A commit, its checksum, commits in one file (the second number is the last one's), a checkpoint or a part of one.
_FILE = re.compile(r"(?:\d{20}\.)?(?P<version>\d{20})\.(?:json|crc|compacted\.json|checkpoint\..+)")
_CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint\.(?:\d{10}\.(?P<parts>\d{10})\.)?parquet")


def remove_old_versions(left: LakeAsOfAudit, name: str) -> int:
    """Deletes the old versions of a table's log that no reader needs; returns their number. `left`: the lake as of its
    last finished audit.

    A late deletion is safe, because the versions that readers go back to only get later.
    """
    folder, old = _old(left, name)
    for file in old:
        left.lake.store.delete(f"{folder}/{file}")
    return _versions(old)


def tidy_logs(lake: Lake, last_finished: int) -> int:
    """`remove_old_versions` of all tables."""
    left = LakeAsOfAudit(lake, last_finished)
    return sum(remove_old_versions(left, name) for name in TABLES)


def old_versions(left: LakeAsOfAudit, name: str) -> int:
    """The number of versions that `remove_old_versions` would delete."""
    return _versions(_old(left, name)[1])


def _old(left: LakeAsOfAudit, name: str) -> tuple[str, list[str]]:
    log = left.lake.table(name)
    folder = f"{log.path}/_delta_log"
    version = left.version(name)
    files = {file: at_ms for file, (_, at_ms) in left.lake.store.files_in(folder).items()}
    return folder, files_before(files, log.version() if version is None else version, time.time() * 1000 - KEPT_MS)


def files_before(files: Mapping[str, float], wanted: int, last_ms: float) -> list[str]:
    """The files of a log (name: time of its last change, epoch ms) that are not needed to read a version from `wanted`
    on, or one that is younger than `last_ms`; oldest versions first.

    Reading a version takes a checkpoint at or before it, and the commits since then. So files before the newest such
    checkpoint that is old enough are not needed.
    """
    start = max((v for v in _whole_checkpoints(files, last_ms) if v <= wanted), default=0)
    old = [(int(found["version"]), file) for file in files if (found := _FILE.fullmatch(file))]
    return [file for version, file in sorted(old) if version < start]


def _whole_checkpoints(files: Mapping[str, float], last_ms: float) -> list[int]:
    """Versions with a complete checkpoint that is older than `last_ms`."""
    parts: Counter[tuple[int, int]] = Counter()
    for file, at_ms in files.items():
        found = _CHECKPOINT.fullmatch(file)
        if found is not None and at_ms < last_ms:
            parts[int(found["version"]), int(found["parts"] or 1)] += 1
    return [version for (version, expected), there in parts.items() if there == expected]


def _versions(files: list[str]) -> int:
    return sum(file.endswith(".json") and "compacted" not in file for file in files)
