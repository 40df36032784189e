"""However a log is cut into nights, ranges and chunks, however it is reduced: the same tables come out."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from tests.chosen import Chosen, one_of
from tests.logs.dense_logs import dense_log
from tests.logs.log_files import Files, random_cuts, segments_of
from tests.logs.night_logs import RELEASES, logs, reported
from tests.logs.old_formats import in_old_format
from tests.nights.nights_here import Audited, audit, audit_nights, how_of
from tests.nights.replayed_logs import MemoryTables, replayed


@cache
def referee(release: str, log: str) -> MemoryTables:
    """The whole log at once, without a lake."""
    return replayed(logs(release)[log], how_of(release))


def differing(files: Files, whole: MemoryTables, audited: Audited) -> list[str]:
    ours, theirs = reported(whole, files), reported(audited, audited.files)
    return [name for name in ours if ours[name] != theirs[name]]


@pytest.mark.in_turn("tiny chunks")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_tiny_chunks_change_nothing(release: str, chosen: Chosen) -> None:
    for seed, log in chosen.some(enumerate(logs(release)), 1):
        files, how = logs(release)[log], how_of(release, 256 << seed % 3)
        assert differing(files, referee(release, log), audit(files, how)) == [], (log, how)


@pytest.mark.in_turn("nights and ranges")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_nights_and_ranges_add_up_to_one_audit_of_the_whole(release: str, chosen: Chosen) -> None:
    """But for an outcome, which is unknown if the marker is in another range."""
    unknown = 0
    for seed, log in chosen.some(enumerate(logs(release)), 1):
        files, rng = logs(release)[log], np.random.default_rng(seed)
        nights, ranges = int(rng.integers(2, 5 if chosen.every else 4)), int(rng.integers(1, 4))
        cuts = random_cuts(files, rng, nights, ranges)
        audited = audit_nights(files, cuts, how_of(release, 512))
        assert differing(files, referee(release, log), audited) == [], (log, seed)
        for partition in segments_of(files):  # R1
            assert audited.record_count(partition) == audited.records_read(partition)
        whole = referee(release, log).rows("offset_commits")
        for before, after in zip(whole, audited.rows("offset_commits"), strict=True):
            said = after["outcome"], after["marker_offset"]
            assert said in ((before["outcome"], before["marker_offset"]), (None, None)), log
            unknown += said != (before["outcome"], before["marker_offset"])
    assert not chosen.every or unknown > 10


@pytest.mark.in_turn("dense logs in nights")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_cuts_change_nothing_in_dense_logs_either(release: str, chosen: Chosen) -> None:
    for seed in chosen.some(range(12), 1):
        files, rng = dense_log(seed), np.random.default_rng(seed)
        how = how_of(release, int(rng.choice([256, 512, 4096])))
        whole = replayed(files, how)
        assert differing(files, whole, audit(files, how)) == [], (seed, how)
        cuts = random_cuts(files, rng, int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        audited = audit_nights(files, cuts, how)
        assert differing(files, whole, audited) == [], (seed, how)
        assert audited.record_count() == audited.records_read()


@pytest.mark.in_turn("old formats in nights")
def test_cuts_change_nothing_in_logs_of_message_formats_0_and_1(chosen: Chosen) -> None:
    """But where an audit ends between the tombstones of one clean-up: their batch is not known."""
    for seed, magic in chosen.some(itertools.product(range(12), (0, 1)), 1):
        rng = np.random.default_rng(seed)
        files, how = in_old_format(dense_log(seed), magic, rng), how_of("2.8", 512)
        whole = replayed(files, how)
        assert differing(files, whole, audit(files, how)) == [], (seed, magic)
        cuts = random_cuts(files, rng, int(rng.integers(2, 4)), int(rng.integers(1, 4)))
        assert differing(files, whole, audit_nights(files, cuts, how)) == [], (seed, magic)
