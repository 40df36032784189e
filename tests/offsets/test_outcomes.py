"""How the transactions of offset commits ended, against the obvious: the producer's next COMMIT or ABORT in the log."""

from __future__ import annotations

import pytest

from tests.chosen import Chosen
from tests.logs.dense_logs import dense_log
from tests.nights.nights_here import Audited, How, audit


def ends(audited: Audited) -> dict[int, tuple[str | None, int | None]]:
    """The outcome and the marker's offset of each commit, by its log offset; None for a commit that no marker ended."""
    markers = [row for row in audited.rows("transaction_markers") if row["outcome"] is not None]
    found = {}
    for row in audited.rows("offset_commits"):
        later = [
            (marker["outcome"], marker["log_offset"])
            for marker in markers
            if marker["producer_id"] == row["producer_id"] and marker["log_offset"] > row["log_offset"]
        ]
        found[row["log_offset"]] = later[0] if row["is_transactional"] and later else (None, None)
    return found


@pytest.mark.parametrize("chunk_bytes", [256, 1024, None])
def test_a_commit_has_the_outcome_of_its_producers_next_marker_in_the_range(
    chunk_bytes: int | None, chosen: Chosen
) -> None:
    known = 0
    for seed in chosen.some(range(20), 1):
        audited = audit(dense_log(seed, 60), How(chunk_bytes=chunk_bytes))
        reported = {row["log_offset"]: (row["outcome"], row["marker_offset"]) for row in audited.rows("offset_commits")}
        assert reported == ends(audited), seed
        known += sum(outcome is not None for outcome, _ in reported.values())
    assert known > (300 if chosen.every else 0)
