"""A log that is cut back and continues with other records: a lake equals a new lake of the log as it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from kgroups_spark.audit.same_log import AnotherLog
from tests.chosen import Chosen, one_of
from tests.logs.cleaner import Files, clean
from tests.logs.cut_corpora import cut_log
from tests.logs.cut_logs import random_night
from tests.logs.night_logs import without_outcome
from tests.logs.planned_batches import TOPIC_ID
from tests.nights.cleaned_nights import Nights
from tests.nights.forgetful_nights import (
    assert_as_the_log_is,
    assert_rebuild_says_the_same,
    assert_versions_say_what_is,
    log_as_it_is,
)
from tests.nights.nights_here import how_of
from tests.nights.reported_tables import CURRENT, RECORD_TABLES, VERSIONS, Reported


def now(audited: Reported) -> dict[str, Any]:
    """Everything that a reader sees, but for events, which end with an audit."""
    tables = {name: audited.rows(name) for name in (*CURRENT, *VERSIONS, *RECORD_TABLES)}
    tables["offset_commits"] = [without_outcome(row) for row in tables["offset_commits"]]
    for row in tables["quarantine"]:
        del row["file"], row["file_position"]
    return tables


def audited_anyway(nights: Nights, files: Files, reported: Counter[str]) -> None:
    """One night; where it is refused, the user accepts that."""
    try:
        row = nights.audit(files)
        reported.update("cut" for each in row.replaced_ranges or () if each.audit_id == row.audit_id)
    except AnotherLog as refused:
        assert "--accept-log-change" in str(refused)
        nights.audit(files, accept=True)
        reported["accepted"] += 1


@pytest.mark.in_turn("cut back anywhere")
@pytest.mark.parametrize("release", one_of("4.3", "3.9"))
def test_a_lake_of_a_log_cut_back_anywhere_and_again_equals_a_new_lake(release: str, chosen: Chosen) -> None:
    reported: Counter[str] = Counter()
    for seed in chosen.some(range(8), 1):
        rng, log = np.random.default_rng(seed), cut_log(seed, release)
        nights = Nights(how_of(release), TOPIC_ID)
        for night in range(8 if chosen.every else 4):
            random_night(log, rng, cut=night > 0 and rng.random() < 0.5)
            audited_anyway(nights, log.files, reported)
            assert now(nights.audited) == now(log_as_it_is(log.files, nights))
            assert_versions_say_what_is(nights.audited)
        assert_rebuild_says_the_same(nights.audited, nights.how)
    if chosen.every:
        assert reported["cut"] > 8
        assert reported["accepted"] > 0


@pytest.mark.in_turn("cut back and cleaned")
@pytest.mark.parametrize("release", one_of("4.3", "3.9"))
def test_a_lake_of_a_log_cleaned_before_and_after_the_cut_equals_a_new_lake(release: str, chosen: Chosen) -> None:
    reported: Counter[str] = Counter()
    for seed in chosen.some(range(8), 1):
        rng, log = np.random.default_rng(seed), cut_log(seed, release)
        nights = Nights(how_of(release), TOPIC_ID)
        for _ in range(8 if chosen.every else 4):
            is_cut = bool(nights.audited.nights) and rng.random() < 0.5
            random_night(log, rng, cut=is_cut)
            files = clean(log.files, drop_tombstones=bool(rng.random() < 0.5)) if rng.random() < 0.7 else log.files
            audited_anyway(nights, files, reported)
            row = nights.audited.nights[-1].audit
            if row.replaced_ranges and row.replaced_ranges[-1].audit_id == row.audit_id:
                assert_as_the_log_is(nights, files)
        again = nights.audited.rebuilt(nights.how)
        for name in (*CURRENT, *VERSIONS):
            assert again.rows(name) == nights.audited.rows(name), name
    assert not chosen.every or reported["cut"] > 8
