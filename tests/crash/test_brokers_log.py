"""The log of the soak's disturbances: its cleaner replaces files, and takes nothing away that is still to be read."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from tests.crash.brokers_log import BrokersLog
from tests.logs.cleaner import records_of
from tests.logs.log_files import read_folder, read_zip
from tests.recorded_logs import CORPORA


def test_a_swap_replaces_files_and_leaves_what_is_new(tmp_path: Path) -> None:
    changes = Counter[str]()
    removed = 0
    for seed, (name, written) in enumerate(read_zip(CORPORA).items()):
        log = BrokersLog(written, tmp_path / name, random.Random(seed))
        for nights_left in (3, 2, 1):
            log.grow(nights_left)
            before, there = list(records_of(log.log.files)), _inodes(log.folder)
            change = log.swap()
            changes[change] += 1
            after = list(records_of(read_folder(log.folder)))
            assert [r for p, r in after if r.offset >= log.read_to.get(p, 0)] == [
                r for p, r in before if r.offset >= log.read_to.get(p, 0)
            ]
            assert change == "cleaned" or after == before
            removed += len(before) - len(after)
            assert not there & _inodes(log.folder), "a file is the same one"
            assert not [path for path in log.folder.rglob("*") if path.is_file() and path.suffix != ".log"]
    assert changes.keys() == {"cleaned", "merged", "copied"}, changes
    assert removed > 100


def _inodes(folder: Path) -> set[tuple[int, int]]:
    return {(path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*.log")}
