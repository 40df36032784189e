"""The ledger that `maintain --keep` leaves answers later audits, readers and rebuilds as the whole one did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.audit.keep import old_audits, reduced_ledger
from kgroups_spark.lake.last_finished import Removal, removal_of, removals
from kgroups_spark.lake.ledger import readings_backwards, what_was_read
from kgroups_spark.replay.shard import ReadBy
from kgroups_spark.sql.known_history import inlined, spans
from kgroups_spark.sql.reader import logs_read
from kgroups_spark.tables.columns import expression_of
from kgroups_spark.words import to_epoch_ms
from tests.chosen import examples
from tests.lake.table_rows import rows_of
from tests.views.arrow_tables import in_duckdb
from tests.views.arrow_tables import rows_of as answers

START = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NUMBERS = range(3)


def at(day: int) -> datetime:
    return START + day * DAY


def entry(number: int, start: int, end: int, records: int, day: int, **more: Any) -> dict[str, Any]:
    its = {"offsets_partition": number, "start_offset": start, "end_offset": end, "records": records}
    its |= {"records_reread": 0, "bytes": 9 * records, "offsets_missing": end - start - records}
    return its | {"log_start_offset": 0, "newest_log_timestamp": at(day), "last_batch_crc": day} | more


def audit(day: int, *entries: dict[str, Any], looked: bool = True, status: str = "finished") -> list[dict[str, Any]]:
    """The rows of an audit: the one of that day, or one that did not finish."""
    facts: dict[str, Any] = {"audit_id": day, "owner": "o", "started_at": at(day)}
    finished = {"as_of": at(day), "partitions": list(entries), "newest_log_timestamp": at(day)}
    finished |= {"rows_added": {"offset_commits": 5} | ({"findings": 0} if looked else {})}
    end = finished if status == "finished" else {}
    return [facts | {"status": "running"}, facts | {"status": status} | end]


@st.composite
def ledgers(draw: st.DrawFn) -> pa.Table:
    """Ten nights of three partitions: in some nights nothing is new, offsets are lost, or a partition is read again."""
    ends, rows = dict.fromkeys(NUMBERS, 0), []
    for day in range(1, 11):
        if draw(st.integers(0, 5)) == 0:
            rows += audit(day, status="abandoned")
            continue
        entries = []
        for number in NUMBERS:
            lost = draw(st.sampled_from([0, 0, 0, 2]))
            start = ends[number] + lost
            end = start + draw(st.sampled_from([0, 0, 1, 5]))
            records = draw(st.integers(0, end - start))
            reread = draw(st.sampled_from([0, 0, 0, start])) if records else 0
            more: dict[str, Any] = {"records_reread": reread, "offsets_missing": end - start - records}
            if lost:
                more |= {"lost_from": start - lost, "lost_to": start}
            entries.append(entry(number, start, end, records + reread, day, **more))
            ends[number] = end
        rows += audit(day, *entries, looked=draw(st.booleans()))
    return rows_of("audits", *rows, *audit(11, *(entry(n, ends[n], ends[n], 0, 11) for n in NUMBERS)))


class Rows:
    """A ledger as audits and readers see it."""

    def __init__(self, table: pa.Table, audit_id: int = 11) -> None:
        self.table, self.audit_id = table, audit_id

    def rows(self, _: str, columns: Any = None, conditions: Any = ()) -> pa.Table:
        found = self.table.filter(expression_of(conditions))
        return found if columns is None else found.select(list(columns))

    table_rows = rows


def reported(table: pa.Table, horizons: dict[int, int]) -> dict[str, Any]:
    """The ledger's answers to all that is asked of it, about log offsets at or above the horizons."""
    ledger = Rows(table)
    views = in_duckdb({"audits": table})
    last_reads: dict[int, Any] = {}
    for reading in readings_backwards(ledger, 11):  # type: ignore[arg-type]
        for number in reading.offsets_partitions:
            last_reads.setdefault(number, (reading.started_at, reading.newest_log_timestamp))
    read = what_was_read(ledger, 11)  # type: ignore[arg-type]
    by = ReadBy.of(read)
    return {
        "totals": answers(views, "SELECT * FROM log_totals ORDER BY offsets_partition"),
        "now": answers(views, "SELECT * FROM audit_partitions WHERE audit_id = 11 ORDER BY offsets_partition"),
        "compacted": spans(lambda query, **names: answers(views, inlined(query, names))[0], 11).incomplete_to,
        "last_reads": last_reads,
        "held_back": logs_read(ledger, list(NUMBERS)),  # type: ignore[arg-type]
        "read_by": {
            (number, place): by._at(number, pa.array([place], pa.int64()).to_numpy()).tolist()
            for number in NUMBERS
            if number in by._ends
            for place in range(horizons[number], by._ends[number][-1])
        },
    }


def finished(table: pa.Table) -> pa.Table:
    return table.filter(pc.equal(table["status"], "finished"))


@examples(6)
@given(ledger=ledgers(), day=st.integers(2, 11), share=st.floats(0, 1), decided_by=st.sampled_from([None, 4, 10]))
def test_the_reduced_ledger_answers_as_the_whole_one(
    ledger: pa.Table, day: int, share: float, decided_by: int | None
) -> None:
    ends = {e["offsets_partition"]: e["end_offset"] for e in finished(ledger)["partitions"][-1].as_py()}
    horizons = {number: int(share * end) for number, end in ends.items()}
    old = old_audits(finished(ledger), to_epoch_ms(at(day)), decided_by)
    left = reduced_ledger(ledger, old, horizons)
    assert reported(left, horizons) == reported(ledger, horizons)
    # Whole audits: with a row `finished`, and those that are not old as they were.
    assert set(left["audit_id"].to_pylist()) >= set(range(old.newest + 1, 12)) | ({old.looked_last} - {0})
    newer = pc.field("audit_id") > old.newest
    assert left.filter(newer).sort_by("audit_id").equals(ledger.filter(newer).sort_by("audit_id"))
    assert reduced_ledger(left, old, horizons).equals(left.combine_chunks())


def nightly(days: int) -> pa.Table:
    nights = (audit(day, *(entry(n, 10 * day, 10 * day + 10, 10, day) for n in NUMBERS)) for day in range(1, days + 1))
    return rows_of("audits", *(row for night in nights for row in night))


@pytest.mark.parametrize("days", [20, 400])
def test_the_remainder_of_old_audits_does_not_grow(days: int) -> None:
    ledger = nightly(days)
    old = old_audits(finished(ledger), to_epoch_ms(at(days - 4)), None)
    left = reduced_ledger(ledger, old, dict.fromkeys(NUMBERS, 10 * (days - 4)))
    # One audit has the sums, the one after it the last reading; five audits are not old.
    assert left["audit_id"].unique().sort().to_pylist() == [days - 6, days - 5, *range(days - 4, days + 1)]
    sums = finished(left)["partitions"][0].as_py()
    assert [(e["start_offset"], e["end_offset"], e["records"]) for e in sums] == [
        (10, 10 * (days - 5), 10 * (days - 6)) for _ in NUMBERS
    ]


def test_rows_above_the_horizon_and_audits_whose_decisions_are_still_judged_are_not_reduced() -> None:
    ledger = nightly(9)
    rows = finished(ledger)
    old = old_audits(rows, to_epoch_ms(at(9)), None)
    assert old.numbers == frozenset(range(1, 9))
    # A transaction that was open then keeps partition 0's history from offset 15 on.
    left = reduced_ledger(ledger, old, {0: 15, 1: 1000, 2: 1000})
    of_0 = [e for row in finished(left)["partitions"].to_pylist() for e in row if e["offsets_partition"] == 0]
    assert [e["start_offset"] for e in of_0] == [10 * day for day in range(1, 10)]
    assert old_audits(rows, to_epoch_ms(at(9)), 3).numbers == {1, 2}


def test_only_the_last_old_audit_that_looked_for_findings_still_says_so() -> None:
    nights = [audit(day, entry(0, day, day + 1, 1, day), looked=day < 4) for day in range(1, 7)]
    ledger = rows_of("audits", *(row for night in nights for row in night))
    old = old_audits(finished(ledger), to_epoch_ms(at(6)), None)
    assert (old.looked_last, old.without_findings) == (3, [1, 2, 4, 5])
    left = finished(reduced_ledger(ledger, old, {0: 100})).sort_by("audit_id")
    looked = {row["audit_id"]: "findings" in dict(row["rows_added"]) for row in left.to_pylist()}
    assert looked == {3: True, 4: False, 5: False, 6: False}
    # All that is left of this audit is that it looked.
    assert left["partitions"][0].as_py() == []


def test_the_ledger_names_the_run_that_removed_an_audit() -> None:
    rows = [
        {"audit_id": number, "status": status, "removed_up_to": up_to}
        for number, status, up_to in ((9, "finished", 4), (12, "finished", None), (15, "finished", 11), (16, "x", 14))
    ]
    ledger = rows_of("audits", *rows)
    found = removals(lambda _, columns, conditions: ledger.filter(expression_of(conditions)).select(columns))
    assert found == [Removal(4, 9), Removal(11, 15)]
    assert removal_of(found, 3) == Removal(4, 9)
    assert removal_of(found, 5) == Removal(11, 15)
    assert removal_of(found, 12) is None
