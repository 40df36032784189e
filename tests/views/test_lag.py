"""Views lag and share_lag: offsets beside the ends of their topics, in both dialects."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kgroups_spark.coordinator.share_shard import share_lag
from kgroups_spark.lake.claim import Claim, clear_up
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.sql.by_duckdb import duckdb_reader
from kgroups_spark.tables.schemas import TABLES
from tests.lake.table_rows import MOMENT, rows_of
from tests.protocol.local_spark import LocalSpark
from tests.views.arrow_tables import InSpark, in_duckdb
from tests.views.arrow_tables import rows_of as view_rows

LATER = MOMENT + timedelta(days=1)
GREATEST = 2**63 - 1
QUERY = "SELECT group_id, topic, partition, log_start_offset, log_end_offset, lag, will_reset, seen_at FROM lag"


def committed(group: str, topic: str, partition: int, offset: int, **more: Any) -> dict[str, Any]:
    return {"group_id": group, "topic": topic, "partition": partition, "committed_offset": offset, **more}


def seen(audit_id: int, topic: str, partition: int, start: int | None, end: int | None, **more: Any) -> dict[str, Any]:
    ends = {"log_start_offset": start, "log_end_offset": end, "status": "ok" if end is not None else "unavailable"}
    return {"audit_id": audit_id, "topic": topic, "partition": partition, **ends, **more}


COMMITTED = (
    committed("behind", "t", 0, 40),
    committed("behind", "t", 1, 9),
    committed("at the end", "t", 0, 100),
    committed("at the start", "t", 1, 10),
    # After the number of partitions was raised a group can be in two; both rows are there.
    committed("behind", "t", 0, 41, offsets_partition=7),
    committed("beyond the end", "t", 0, 130, commit_timestamp=LATER),
    committed("one beyond the end", "t", 0, 101, commit_timestamp=MOMENT),
    committed("beyond an empty log's end", "it's", 0, 7, commit_timestamp=MOMENT),
    committed("at an empty log's end", "it's", 0, 6),
    committed("beyond the end since", "t", 0, 130, commit_timestamp=LATER + timedelta(seconds=1)),
    committed("beyond the end at an unknown time", "t", 0, 130, commit_timestamp=None),
    committed("below the start since", "t", 1, 9, commit_timestamp=LATER + timedelta(seconds=1)),
    committed("nothing committed", "t", 0, -1),
    committed("of a topic that is gone", "gone", 0, 5),
    committed("of a partition that is gone", "t", 2, 5),
    committed("new since", "new", 0, 5),
    committed("quoted", "it's", 0, 5),
    # A broker stores any number that a client commits.
    committed("lowest", "t", 0, -GREATEST - 1),
    committed("highest", "t", 1, GREATEST),
)
# The audit before saw other ends; the newest one has rows for all but the topic `new`.
SEEN = (
    seen(3, "t", 0, 0, 50),
    seen(3, "new", 0, 0, 50),
    seen(5, "t", 0, 0, 100, seen_at=LATER),
    seen(5, "t", 1, 10, 12, seen_at=LATER),
    seen(5, "t", 2, None, None, status="unknown_topic", seen_at=LATER),
    seen(5, "gone", 0, None, None, status="unknown_topic", seen_at=LATER),
    seen(5, "it's", 0, 6, 6, seen_at=LATER),
    seen(5, "nobody's", 0, 0, 1, seen_at=LATER),
    seen(5, "jobs", 0, 0, 100, topic_id="A", seen_at=LATER),
    seen(5, "jobs", 1, 0, 12, seen_at=LATER),
    seen(5, "jobs", 2, None, None, topic_id="A", status="unavailable", seen_at=LATER),
)
LAG = {
    ("behind", "t", 0, 0, 100, 60, False, LATER),
    ("behind", "t", 0, 0, 100, 59, False, LATER),
    ("behind", "t", 1, 10, 12, 3, True, LATER),
    ("at the end", "t", 0, 0, 100, 0, False, LATER),
    ("at the start", "t", 1, 10, 12, 2, False, LATER),
    ("beyond the end", "t", 0, 0, 100, -30, True, LATER),
    ("one beyond the end", "t", 0, 0, 100, -1, True, LATER),
    ("beyond an empty log's end", "it's", 0, 6, 6, -1, True, LATER),
    ("at an empty log's end", "it's", 0, 6, 6, 0, False, LATER),
    ("beyond the end since", "t", 0, 0, 100, -30, None, LATER),
    ("beyond the end at an unknown time", "t", 0, 0, 100, -30, None, LATER),
    ("below the start since", "t", 1, 10, 12, 3, True, LATER),
    ("nothing committed", "t", 0, 0, 100, None, True, LATER),
    ("of a topic that is gone", "gone", 0, None, None, None, None, LATER),
    ("of a partition that is gone", "t", 2, None, None, None, None, LATER),
    ("new since", "new", 0, None, None, None, None, None),
    ("quoted", "it's", 0, 6, 6, 1, True, LATER),
    ("lowest", "t", 0, 0, 100, None, True, LATER),
    ("highest", "t", 1, 10, 12, 12 - GREATEST, None, LATER),
}


# Topic id, partition, start offset, records that are done: the lag by the rule of the brokers, if it is a BIGINT.
SHARED = (
    ("A", 0, 40, 3),
    ("A", 0, None, 3),
    ("A", 0, 40, None),
    ("A", 1, 13, 0),
    ("A", 0, -GREATEST - 1, 0),
    ("A", 0, 100 - GREATEST, 0),
    ("of a topic created before", 0, 40, 3),
    ("A", 2, 5, 0),
    ("A", 9, 5, 0),
)
ENDS = {0: 100, 1: 12, 2: None}


def shared(number: int, topic_id: str, partition: int, start: int | None, done: int | None) -> dict[str, Any]:
    place = {"group_id": f"s{number}", "topic_id": topic_id, "topic": "jobs", "partition": partition}
    return place | {"start_offset": start, "delivery_complete_count": done}


def tables(*topic_offsets: dict[str, Any]) -> dict[str, pa.Table]:
    found = {
        "committed_offsets": rows_of("committed_offsets", *COMMITTED),
        "share_partitions": rows_of("share_partitions", *(shared(n, *row) for n, row in enumerate(SHARED))),
    }
    return found | ({"topic_offsets": rows_of("topic_offsets", *topic_offsets)} if topic_offsets else {})


def lag(view: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in view_rows(view, QUERY)]


def test_every_committed_offset_has_a_row_with_the_ends_that_the_newest_audit_saw() -> None:
    found = lag(in_duckdb(tables(*SEEN)))
    assert set(found) == LAG
    assert len(found) == len(COMMITTED)


def test_without_a_live_audit_committed_offsets_have_no_ends_and_no_lag() -> None:
    found = lag(in_duckdb(tables()))
    assert len(found) == len(COMMITTED)
    assert {row[3:] for row in found} == {(None, None, None, None, None)}


@pytest.mark.parametrize(("topic_offsets", "ends"), [(SEEN, ENDS), ((), {})], ids=["a live audit", "none"])
def test_every_share_partition_has_a_row_with_its_lag(
    topic_offsets: tuple[dict[str, Any], ...], ends: dict[int, int | None]
) -> None:
    found = in_duckdb(tables(*topic_offsets)).sql("SELECT group_id, lag, log_end_offset FROM share_lag").fetchall()
    expected = set()
    for number, (topic_id, partition, start, done) in enumerate(SHARED):
        end = ends.get(partition) if topic_id == "A" else None
        lag = share_lag(start, done, end)
        expected.add((f"s{number}", None if lag is not None and lag > GREATEST else lag, end))
    assert set(found) == expected
    assert len(found) == len(SHARED)


@pytest.mark.spark
@pytest.mark.parametrize("topic_offsets", [SEEN, ()], ids=["a live audit", "none"])
def test_both_dialects_agree_on_every_column(spark: SparkSession, topic_offsets: tuple[dict[str, Any], ...]) -> None:
    given = tables(*topic_offsets)
    duck, in_spark = in_duckdb(given), InSpark(spark, given)
    for view, table in (("lag", "committed_offsets"), ("share_lag", "share_partitions")):
        by_duckdb, by_spark = (view_rows(one, f"SELECT * FROM {view}") for one in (duck, in_spark))
        assert by_spark == by_duckdb
        added = {"lag": ("log_start_offset", "log_end_offset", "lag", "will_reset", "seen_at")}
        assert list(by_duckdb[0]) == [
            *TABLES[table].schema.names,
            *added.get(view, ("log_end_offset", "lag", "seen_at")),
        ]


def an_audit(lake: Lake, *, finishes: bool, **given: list[dict[str, Any]]) -> None:
    """An audit that writes these tables, and finishes or is given up."""
    with Claim.take(lake, take_over=True) as claim:
        clear_up(claim)
        its = LakeWriter(lake, claim.audit_id, claim.check)
        for name, rows in given.items():
            numbered = rows_of(name, *({**row, "audit_id": claim.audit_id} for row in rows))
            (its.append_table if TABLES[name].kind == "history" else its.replace_table)(name, numbered)
        if finishes:
            claim.finish()


def test_topic_offsets_of_an_unfinished_audit_do_not_count(local: LocalSpark, tmp_path: Path) -> None:
    lake = Lake.create(local, str(tmp_path / "lake"))
    offsets = [committed("g", "t", 0, 40)]
    an_audit(lake, finishes=True, committed_offsets=offsets, topic_offsets=[seen(0, "t", 0, 0, 50)])
    an_audit(lake, finishes=False, topic_offsets=[seen(0, "t", 0, 0, 90)])
    # An audit of segments comes after it and clears up: what it asked for is nowhere to be seen.
    for _ in range(2):
        found = duckdb_reader(lake.location, must=True)
        assert found is not None
        assert [tuple(row.values()) for row in found.sql(QUERY)] == [("g", "t", 0, 0, 50, 10, False, MOMENT)]
        an_audit(lake, finishes=True, committed_offsets=offsets)
