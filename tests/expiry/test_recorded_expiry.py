"""A broker's clean-ups removed the offsets and groups that are due by the tables as of the moment before.

The corpora: 4.3.1 and 4.4.0, restarted with a short retention and a clean-up every two seconds. Nothing else wrote a
tombstone from then on. Each clean-up of an offsets partition wrote its tombstones in one batch, which has its time.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.chosen import one_of
from tests.expiry.twin import expires, judge_group, judge_offset
from tests.logs.corpora import ALL
from tests.logs.log_files import files_of_nights, segments_of
from tests.logs.recorded_expiry import FILES, in_ms, tombstone_batches
from tests.nights.nights_here import Audited, How, new_lake

CASES = [(release, partition) for release, files in FILES.items() for partition in segments_of(files)]


@pytest.mark.parametrize("case", one_of(*CASES), ids=lambda case: f"{case[0]}-{case[1]}")
def test_each_clean_up_removes_the_offsets_and_groups_that_are_due(case: tuple[str, int]) -> None:
    release, partition = case
    files, retention_ms = FILES[release], ALL[f"expiry-{release}-after"]["retention_ms"]
    restarted_at = ALL[f"expiry-{release}-before"]["ends"][str(partition)]
    checks = [check for check in tombstone_batches(files, partition) if check[0].next_offset >= restarted_at]
    assert checks
    audited, given = new_lake(), files_of_nights(files, {partition: [[begin] for begin, *_ in checks]})
    for (_, log_timestamp, next_offset, removed), until_check in zip(checks, given, strict=True):
        audited.night(until_check, How(release))
        judged = due(audited, log_timestamp, retention_ms, tuple(map(int, release.split("."))))
        assert judged == removed, f"check before log offset {next_offset}"


def due(audited: Audited, as_of: int, retention_ms: int, version: tuple[int, ...]) -> set[tuple[Any, ...]]:
    """The offsets that expire at that moment, and the groups that are deleted with them."""
    groups, members, offsets, pending = (
        [in_ms(row) for row in audited.rows(name)]
        for name in ("groups", "group_members", "committed_offsets", "pending_offsets")
    )
    judged = {
        (row["group_id"], row["topic"], row["partition"]): judge_offset(
            row, groups, members, pending, as_of, retention_ms, version, True
        )
        for row in offsets
    }
    gone: set[tuple[Any, ...]] = {slot for slot, decision in judged.items() if expires(decision[0])}
    for group in groups:
        of_group = [decision for slot, decision in judged.items() if slot[0] == group["group_id"]]
        reason, _, _ = judge_group(group, of_group, pending, set(), as_of, version, True)
        if reason == "empty_and_nothing_left":
            gone.add((group["group_id"],))
    return gone
