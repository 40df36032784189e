"""A partition read again from its start: what its notes say, and which corrections are replayed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kgroups_spark.coordinator.state_entries import STATE_FORMAT
from kgroups_spark.replay.corrections import corrections_of
from kgroups_spark.sources.segment_log import SegmentLog
from kgroups_spark.tables.definitions import REREAD
from kgroups_spark.tables.schemas import arrow_schema
from tests.chosen import one_of
from tests.nights.cleaned_nights import Nights
from tests.nights.forgetful_nights import (
    assert_as_the_log_is,
    assert_rebuild_says_the_same,
    corrections,
    three_nights,
)
from tests.nights.nights_here import how_of
from tests.nights.reported_tables import Row


@pytest.mark.parametrize("decided", one_of("while planning", "while reading"))
def test_a_log_is_read_again_and_notes_say_what_was_corrected(monkeypatch: pytest.MonkeyPatch, decided: str) -> None:
    if decided == "while reading":  # as of a live log
        monkeypatch.setattr(SegmentLog, "missing_from", lambda self, offset: None)
    first, second, third = three_nights()
    nights = Nights(how_of())
    nights.audit(first)
    row = nights.audit(second, delete_retention_ms=1)
    assert_as_the_log_is(nights, second)
    assert [p.records_reread > 0 for p in row.partitions or ()] == [True, True]
    notes = row.notes or ()
    assert any("partition 0 was read again from its start: last read" in note for note in notes)
    corrected = "was corrected: compaction removed records before we read them"
    assert f"partition 0 {corrected}: 2 groups gone (c, m); 1 group changed (b)" in notes
    assert f"partition 1 {corrected}: 2 groups changed (c, n); 1 transaction ended" in notes
    last = nights.audit(third)
    assert not any(p.records_reread for p in last.partitions or ())
    assert not any("corrected" in note for note in last.notes or ())
    assert {row["payload"] is None for row in corrections(nights.audited)} == {True, False}
    assert_rebuild_says_the_same(nights.audited, nights.how)


def test_only_corrections_of_the_state_are_replayed_the_newest_of_each_entry() -> None:
    def row(audit_id: int, entry_type: str, group_id: str | None, payload: str | None, **other: Any) -> Row:
        fields = {"log_offset": 9, "state_format": STATE_FORMAT, "release_version": "4.3", "rules_version": 1, **other}
        names = ("audit_id", "offsets_partition", "reason", "entry_type", "group_id", "payload")
        return {**dict(zip(names, (audit_id, 0, REREAD, entry_type, group_id, payload), strict=True)), **fields}

    made = [
        row(2, "group", "a", "old"),
        row(3, "group", "a", "new"),
        row(3, "group", "a", "later", log_offset=10),
        row(3, "producer", None, '{"producer_id": 1}'),
        row(2, "producer", None, '{"producer_id": 2}'),
        row(3, "noted", "a", None, state_format=0),
        row(3, "group", "b", "unreadable by now", state_format=0),
    ]
    table = pa.Table.from_pylist(made, schema=arrow_schema("checkpoints"))
    found = {(each.log_offset, *correction) for each in corrections_of(table) for correction in each.corrections}
    assert found == {
        (9, "group", "a", "new"),
        (10, "group", "a", "later"),
        (9, "producer", None, '{"producer_id": 1}'),
        (9, "producer", None, '{"producer_id": 2}'),
        (9, "noted", "a", None),
    }
