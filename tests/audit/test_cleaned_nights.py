"""Nights over a log that grows, rolls and is cleaned in between equal one audit of everything written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.chosen import Chosen, one_of
from tests.logs.cleaner import Files, GrowingLog
from tests.logs.dense_logs import dense_log
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import of_one_leader, read_zip
from tests.logs.night_logs import reported
from tests.nights.cleaned_nights import Nights, random_night
from tests.nights.nights_here import Audited, How, audit, how_of
from tests.nights.reported_tables import CURRENT, Reported

RELEASES = ("4.3", "4.0.0", "3.9")


def written(files: Files) -> Files:
    """All of the log, never cleaned."""
    log = GrowingLog(files)
    for partition in log.partitions:
        log.append(partition, log.left(partition))
    return log.files


def some_logs(release: str, profiles: tuple[str, ...], share: int) -> Iterator[tuple[int, str, Files]]:
    """A seed, a name and a log: a share of the generated logs of these profiles, different ones for each release."""
    found = read_zip(LOGS)
    names = [name for name in sorted(found) if name.startswith(profiles)]
    for seed, name in enumerate(names[RELEASES.index(release) :: share]):
        yield seed, name, of_one_leader(found[name])


def nights_of(log: GrowingLog, seed: int, how: How, clean_share: float, chosen: Chosen, *, before: bool) -> Nights:
    """Four nights, in a soak ten; the cleaner runs in some of them, before or after the audit has read the log."""
    rng, nights = np.random.default_rng(seed), Nights(how)
    for left in range(10 if chosen.every else 4, 0, -1):
        random_night(log, rng, left)
        if before and rng.random() < clean_share:
            log.clean()
        nights.audit(log.files)
        if not before and rng.random() < clean_share:
            log.clean(drop_tombstones=bool(rng.random() < 0.5))
    return nights


def without_places(audited: Audited) -> dict[str, Any]:
    """Everything that must not depend on cuts, nor on how the log was rolled into segments."""
    tables = reported(audited, audited.files)
    for row in tables["quarantine"]:
        del row["file"], row["file_position"]
    return tables


def now(audited: Reported) -> dict[str, Any]:
    """The current tables without `state_since`, which is known only from records that were read."""
    tables = {name: audited.rows(name) for name in CURRENT}
    for row in tables["groups"]:
        del row["state_since"]
    return tables


def assert_holds_all_it_saw(nights: Nights) -> None:
    """Every record that a night found is in the tables that together are the log, once."""
    history = nights.history()
    assert history.keys() == nights.seen
    assert set(history.values()) == {1}


@pytest.mark.in_turn("cleaned after a read")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_cleaning_records_after_they_were_read_changes_nothing(release: str, chosen: Chosen) -> None:
    logs = list(some_logs(release, ("",), 12)) + [(seed, f"dense {seed}", dense_log(seed, 40)) for seed in range(4)]
    shrunk = 0
    for number in chosen.some(range(len(logs)), 1):
        seed, name, files = logs[number]
        log = GrowingLog(files)
        nights = nights_of(log, seed, how_of(release), 0.6, chosen, before=False)
        whole = written(files)
        assert without_places(nights.audited) == without_places(audit(whole, how_of(release))), (name, seed)
        assert_holds_all_it_saw(nights)
        shrunk += size(log.files) < size(whole)
    assert shrunk > len(logs) // 2 or not chosen.every


@pytest.mark.in_turn("cleaned before a read")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_records_cleaned_before_they_were_read_leave_the_same_current_tables(release: str, chosen: Chosen) -> None:
    """The cleaner keeps tombstones and markers here. It takes only records that were overwritten or aborted."""
    missed = 0
    logs = list(some_logs(release, ("wellformed", "compacted"), 5))
    for number in chosen.some(range(len(logs)), 1):
        seed, name, files = logs[number]
        nights = nights_of(GrowingLog(files), seed, how_of(release), 0.9, chosen, before=True)
        whole = audit(written(files), how_of(release))
        assert now(nights.audited) == now(whole), (name, seed)
        assert_holds_all_it_saw(nights)
        missed += whole.record_count() > nights.audited.record_count()
    assert missed or not chosen.every


def size(files: Files) -> int:
    return sum(map(len, files.values()))
