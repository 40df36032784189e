"""An audit's summary for people: what was new, what changed, what was gone before the audit could read it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kgroups_spark.audit.result import (
    CHANGES,
    AuditSummary,
    CurrentTables,
    Shortfall,
    answer,
    changes,
    gone_before_we_came,
)
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.tables.schemas import GROUP, arrow_schema

STARTED, FINISHED = datetime(2026, 11, 20, 1, 0, tzinfo=UTC), datetime(2026, 11, 20, 1, 0, 12, tzinfo=UTC)
AUDIT = AuditRow(
    audit_id=7,
    status="finished",
    owner="host 1 2 3",
    started_at=STARTED,
    finished_at=FINISHED,
    as_of=datetime(2026, 11, 19, 23, 59, tzinfo=UTC),
    retention_ms=7 * 86_400_000,
    retention_source="default",
    release_version="4.3",
    partitions=(PartitionProgress(3, 100, 220, records=110, bytes=12_345, offsets_missing=10),),
    rows_added={"offset_commits": 100, "group_records": 10},
    quarantined={},
    notes=(),
)


def current(states, rows=None, expiring=0):
    """The groups' rows, and the numbers."""
    columns = [*zip(*((*key, state) for key, state in states.items()), strict=True)] or [[]] * 3
    groups = pa.table(columns, arrow_schema("groups").empty_table().select([*GROUP, "state"]).schema)
    return ds.dataset(groups), CurrentTables(rows or {}, expiring, len({group_id for _, group_id in states}))


def changes_of(before, after):
    return "; ".join(changes(answer(CHANGES, before=before[0], after=after[0]), before[1], after[1]))


THEN = current({(0, "a"): "Stable", (0, "b"): "Stable", (1, "d"): "Empty"}, {"group_members": 2}, expiring=1)
NOW = current({(0, "a"): "Empty", (0, "b"): "Stable", (2, "c"): "Stable"}, {"group_members": 3, "committed_offsets": 4})


def lines(audit=AUDIT, now=NOW[1], changes=None):
    return list(AuditSummary(audit, now, changes).lines())


def test_a_night_is_reported_in_a_few_lines():
    assert lines(changes=changes_of(THEN, NOW)) == [
        "audit 7: read 110 new records from 1 partition (12.3 kB)",
        "  current state: 3 groups (3 members), 4 committed offsets, 0 offsets pending in 0 open transactions",
        "  0 offsets will expire at the brokers' next check (as of 2026-11-19 23:59:00 UTC, retention 7d (default), "
        "rules of Kafka 4.3)",
        "  1 group is new (c); 1 group is gone (d); states changed: 1 Stable to Empty; +1 member; "
        "+4 committed offsets; -1 expiring",
        "  ledger: audit 7 finished 2026-11-20 01:00:12 UTC after 12.0 s; rows added: group_records 10, "
        "offset_commits 100",
    ]


def test_a_night_without_new_records():
    quiet = AUDIT._replace(partitions=(PartitionProgress(3, 220, 220),), rows_added={})
    assert lines(quiet)[0] == "audit 7: no new records"
    assert lines(quiet)[-1].endswith("rows added: none")


def test_the_summary_has_quarantine_and_notes():
    said = lines(AUDIT._replace(quarantined={"truncated": 2}, notes=("partition 4 was not given",)))
    assert said[-2:] == ["  quarantine: 2 truncated", "  partition 4 was not given"]


@pytest.mark.parametrize("short", Shortfall._fields)
def test_a_summary_with_a_shortfall_lacks_records(short):
    summary = AuditSummary(AUDIT, NOW[1], None)
    assert not summary.lacks_records
    assert replace(summary, shortfall=Shortfall(**{short: (3,)})).lacks_records


def test_the_summary_counts_findings_and_says_where_they_are():
    assert lines(AUDIT._replace(rows_added={"findings": 2}))[-1].startswith("  2 findings: kgroups findings shows ")
    assert lines(AUDIT._replace(rows_added={"findings": 0}))[-1].endswith("rows added: none")


def test_a_group_that_is_also_in_another_offsets_partition_is_not_new():
    """The partition count of __consumer_offsets was raised: the name hashes to another one now."""
    then, both = current({(0, "a"): "Stable"}), current({(0, "a"): "Stable", (2, "a"): "Empty"})
    assert changes_of(then, both) == ""


def test_many_changes_are_summed_up():
    moves = [("Stable", "Empty")] * 9 + [("Empty", "Stable")] * 5 + [("Empty", "Dead")] * 2 + [("Dead", "Empty")]
    then, now = ({(1, f"g{n}"): states[side] for n, states in enumerate(moves)} for side in (0, 1))
    now |= {(0, f"group-{n}"): "Empty" for n in range(5)}
    assert changes_of(current(then), current(now)) == (
        "5 groups are new (group-0, group-1, group-2 and 2 more); "
        "states changed: 9 Stable to Empty, 5 Empty to Stable, 2 Empty to Dead, 1 other"
    )
    less, more = {"group_members": 3, "committed_offsets": 3}, {"group_members": 4, "committed_offsets": 2}
    one = changes_of(current({}, less, 1), current({}, more, 2))
    assert one == "+1 member; -1 committed offset; +1 expiring"


def planned(*read_before):
    plans = [SimpleNamespace(offsets_partition=p, before=object() if p in read_before else None) for p in range(3)]
    return SimpleNamespace(plan=SimpleNamespace(partitions=plans))


def test_offsets_lost_to_compaction_are_reported_with_the_remedy():
    partitions = [
        PartitionProgress(0, 100, 200, records=60, offsets_missing=40),
        PartitionProgress(1, 50, 100, records=50, lost_from=0, lost_to=50),
        PartitionProgress(2, 0, 1000, records=1, offsets_missing=999),  # read for the first time
    ]
    assert gone_before_we_came(planned(0, 1), partitions) == [
        "45.0 % of the night's offsets (90 of 200) were compacted away before this audit; min.compaction.lag.ms above "
        "the audit interval on __consumer_offsets keeps them"
    ]
    assert gone_before_we_came(planned(), partitions) == []


@pytest.mark.parametrize(
    ("gone", "span", "said"), [(1, 100_000, "0.1 %"), (99_999, 100_000, "99.9 %"), (10, 10, "100 %")]
)
def test_a_small_share_is_never_0_percent_nor_a_large_one_100_percent(gone, span, said):
    partitions = [PartitionProgress(0, 0, span, records=span - gone, offsets_missing=gone)]
    assert gone_before_we_came(planned(0), partitions)[0].startswith(said)
