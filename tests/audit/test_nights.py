"""However a log is cut into nights, ranges and chunks, however it is reduced: the same tables come out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.audit.dense_logs import dense_log
from tests.audit.night_logs import RELEASES, logs, told
from tests.audit.pipeline import (
    Audited,
    How,
    audit,
    audit_nights,
    cut_ranges,
    random_cuts,
    segments_of,
)
from tests.chosen import Chosen, some_of


@cache
def by_objects(release: str, log: str) -> Audited:
    """The referee: one audit that replays record by record."""
    return audit(logs(release)[log], How(release, by_objects=True))


def differing(one: Audited, other: Audited) -> list[str]:
    ours, theirs = told(one), told(other)
    return [name for name in ours if ours[name] != theirs[name]]


@pytest.mark.parametrize("release", some_of(2, *RELEASES))
def test_columns_and_groups_say_what_a_shard_of_objects_says(release: str, chosen: Chosen) -> None:
    for log in chosen.some(logs(release), 3):
        assert differing(by_objects(release, log), audit(logs(release)[log], How(release))) == [], log


@pytest.mark.parametrize("release", some_of(2, *RELEASES))
def test_tiny_chunks_change_nothing(release: str, chosen: Chosen) -> None:
    for seed, log in chosen.some(enumerate(logs(release)), 3):
        how = How(release, chunk_bytes=256 << seed % 3)
        assert differing(by_objects(release, log), audit(logs(release)[log], how)) == [], (log, how)


@pytest.mark.parametrize("release", some_of(2, *RELEASES))
def test_nights_and_ranges_add_up_to_one_audit_of_the_whole(release: str, chosen: Chosen) -> None:
    for seed, log in chosen.some(enumerate(logs(release)), 3):
        files, rng = logs(release)[log], np.random.default_rng(seed)
        nights, ranges = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        cuts = random_cuts(files, rng, nights, ranges)
        how = How(release, chunk_bytes=512)
        audited = audit_nights(files, cut_ranges(files, cuts), how)
        assert differing(by_objects(release, log), audited) == [], (log, seed)
        for partition in segments_of(files):  # R1
            assert audited.record_count(partition) == audited.records_read(partition)


@pytest.mark.parametrize("release", some_of(2, *RELEASES))
def test_where_everything_happens_to_everything_cuts_change_nothing_either(release: str, chosen: Chosen) -> None:
    for seed in chosen.some(range(12), 3):
        files, rng = dense_log(seed), np.random.default_rng(seed)
        how = How(release, chunk_bytes=int(rng.choice([256, 512, 4096])))
        whole = audit(files, How(release, by_objects=True))
        assert differing(whole, audit(files, how)) == [], (seed, how)
        cuts = random_cuts(files, rng, int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        audited = audit_nights(files, cut_ranges(files, cuts), how)
        assert differing(whole, audited) == [], (seed, how)
        assert audited.record_count() == audited.records_read()


@pytest.mark.parametrize("release", ["4.3"])
def test_outcomes_are_those_of_the_whole_or_unknown_where_the_marker_is_in_another_range(
    release: str, chosen: Chosen
) -> None:
    unknown = 0
    for log, before, after in outcomes(release, chosen.some(logs(release), 3)):
        assert after in (before, (None, None)), log
        unknown += after != before
    assert not chosen.every or unknown > 10


def outcomes(release: str, names: list[str]) -> Iterator[tuple[str, tuple[Any, Any], tuple[Any, Any]]]:
    """Of each offset commit its outcome and marker offset in one audit of the whole, and in several nights."""
    for log in names:
        files = logs(release)[log]
        cuts = random_cuts(files, np.random.default_rng(1), 3, 2)
        nights = audit_nights(files, cut_ranges(files, cuts), How(release, chunk_bytes=256))
        whole = by_objects(release, log).rows("offset_commits")
        for before, after in zip(whole, nights.rows("offset_commits"), strict=True):
            yield log, (before["outcome"], before["marker_offset"]), (after["outcome"], after["marker_offset"])


def test_history_alone_is_the_history_of_a_whole_audit_but_for_what_only_a_replay_can_tell(
    chosen: Chosen,
) -> None:
    for log in chosen.some(logs("4.3"), 3):
        files = logs("4.3")[log]
        history, whole = audit(files, How(replay=False)), by_objects("4.3", log)
        for name in ("offset_commits", "group_records"):
            assert history.rows(name) == whole.rows(name), log
        assert history.rows("groups") == history.rows("group_traffic") == []
