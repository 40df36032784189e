"""Decisions over the current tables of a lake, against the twin."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kgroups_spark.audit import night as decide_again_module
from kgroups_spark.audit.log_source import AuditSettings
from kgroups_spark.audit.night import decide_again
from kgroups_spark.audit.plan import AuditPlan
from kgroups_spark.audit.work import AuditWork, SavedState
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.offsets.expiry import DECIDED_BY, HELD_GROUPS
from kgroups_spark.tables.definitions import NIGHT, REREAD
from tests.chosen import one_of
from tests.expiry import twin_cases
from tests.expiry.cases import NOW, R
from tests.expiry.frames import AUDIT_ID, arrow_table
from tests.expiry.frames import rows_of as ms_rows
from tests.expiry.twin_cases import generated, in_order, twin_rows
from tests.lake.table_rows import rows_of

# A coordinator that looks at groups for which producers are noted.
RELEASE = "4.0.0"
SHARDS = 5
READ = [name for name in DECIDED_BY if name != HELD_GROUPS]

Rows = list[dict[str, Any]]


def spread(row: dict[str, Any]) -> dict[str, Any]:
    """Every group to one of some shards; a number in between stays empty."""
    number = sum(row["group_id"].encode()) % SHARDS * 2 + row["offsets_partition"] * 20
    return {**row, "offsets_partition": number}


@pytest.fixture(scope="module")
def tables() -> tuple[dict[str, Rows], set[tuple[int, str]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twin_cases, "GROUPS_PER_RELEASE", 300)
        tables, held = generated(RELEASE)
    places = [spread({"offsets_partition": number, "group_id": group_id}) for number, group_id in held]
    return (
        {name: [spread(row) for row in rows] for name, rows in tables.items()},
        {(row["offsets_partition"], row["group_id"]) for row in places},
    )


def write(lake: Lake, name: str, audit_id: int, *lots: pa.Table) -> None:
    """A file for each lot."""
    writer = LakeWriter(lake, audit_id, lambda: None).part_writer(name)
    parts = [part for lot in lots if (part := writer.write(lot)) is not None]
    lake.table(name).commit(parts, by="t", transaction=("t", audit_id))


def whole(name: str, rows: Rows, audit_id: int) -> pa.Table:
    """The rows with something in all other columns."""
    given = arrow_table(name, rows)
    filled = rows_of(name, *({"audit_id": audit_id} for _ in rows))
    columns = {
        column: given[column] if column in given.column_names else filled[column] for column in filled.schema.names
    }
    return pa.table(columns, filled.schema)


def lake_of(spark: SparkSession, folder: Path, tables: dict[str, Rows], held: set[tuple[int, str]]) -> Lake:
    lake = Lake.create(spark, str(folder))
    for name in READ:
        rows = whole(name, tables[name], AUDIT_ID).sort_by("offsets_partition")
        write(lake, name, AUDIT_ID, rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2))
    noted = [{"entry_type": "noted", "offsets_partition": number, "group_id": group} for number, group in sorted(held)]
    other = {"entry_type": "group", "offsets_partition": 0, "group_id": "not noted"}
    # The previous audit's state is kept beside this one's, in case this one is killed.
    everybody = [
        {key: row[key] for key in ("offsets_partition", "group_id")} | {"entry_type": "noted"}
        for row in tables["groups"]
    ]
    everybody = [{**row, "reason": reason} for row in everybody for reason in (NIGHT, REREAD)]
    of_night = [{**row, "reason": NIGHT} for row in (*noted, other)]
    reread = [row for row in everybody if row["reason"] == REREAD]
    for audit_id, state in ((AUDIT_ID - 1, everybody), (AUDIT_ID, [*of_night, *reread])):
        write(lake, "checkpoints", audit_id, rows_of("checkpoints", *({**r, "audit_id": audit_id} for r in state)))
    return lake


def decide(lake: Lake, *, as_of_ms: int, shards: Iterable[int]) -> None:
    """Audit AUDIT_ID, in which nothing is new, after audit AUDIT_ID - 1; the state is of AUDIT_ID for once."""
    then = datetime(2026, 1, 1, tzinfo=UTC)
    partitions = tuple(PartitionProgress(number, 0, 1) for number in shards)
    work = AuditWork(
        lake,
        LakeWriter(lake, AUDIT_ID, lambda: None),
        AuditPlan([], None),
        AuditRow(AUDIT_ID - 1, "finished", "t", then, partitions=partitions),
        SavedState(AUDIT_ID),
        AuditSettings(RELEASE, R, "option", 1, NOW),
        lambda _: None,
    )
    decide_again(work, as_of_ms)


def decided(lake: Lake) -> tuple[Rows, Rows]:
    """The rows of offset_expiry and group_expiry that were written."""
    names = ("groups", "committed_offsets")
    shards = {number for name in names for number in lake.rows(name)["offsets_partition"].to_pylist()}
    decide(lake, as_of_ms=NOW, shards=sorted(shards))
    offsets, groups = (in_order(ms_rows(lake.rows(name))) for name in ("offset_expiry", "group_expiry"))
    return offsets, groups


@pytest.mark.parametrize("small_rows", one_of(0, 50_000))
def test_decisions_over_a_lake_equal_those_of_the_twin(
    local: Any,
    tmp_path: Path,
    tables: tuple[dict[str, Rows], set[tuple[int, str]]],
    small_rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decide_again_module, "SMALL_ROWS", small_rows)
    lake = lake_of(local, tmp_path / "lake", *tables)
    offsets, groups = twin_rows(*tables, RELEASE)
    assert {row["reason"] for row in groups} >= {"open_transaction", "empty_and_nothing_left"}
    assert decided(lake) == (in_order(offsets), in_order(groups))


@pytest.mark.in_turn("files that others wrote")
def test_files_that_others_wrote_are_read(
    spark: SparkSession, tmp_path: Path, tables: tuple[dict[str, Rows], set[tuple[int, str]]]
) -> None:
    """Without statistics on offsets partitions, and with times as Spark writes them."""
    lake = lake_of(spark, tmp_path / "lake", *tables)
    for name in READ:
        spark.sql(
            f"ALTER TABLE {lake.identifier(name)} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'audit_id')"
        )
        spark.sql(f"OPTIMIZE {lake.identifier(name)}")
    (file,) = lake.table("groups").files()
    assert file.bound("minValues", "offsets_partition") is None
    offsets, groups = twin_rows(*tables, RELEASE)
    assert decided(lake) == (in_order(offsets), in_order(groups))


def test_decisions_of_the_previous_audit_are_kept(local: Any, tmp_path: Path) -> None:
    lake = Lake.create(local, str(tmp_path / "lake"))
    rows = rows_of("offset_expiry", {"audit_id": 2, "offsets_partition": 7, "topic": "then", "expires_at": None})
    write(lake, "offset_expiry", 2, rows)
    decide(lake, as_of_ms=NOW, shards=range(9))
    (kept,) = lake.rows("previous_offset_expiry").to_pylist()
    assert (kept["audit_id"], kept["decided_by"], kept["topic"], kept["expires_at"]) == (AUDIT_ID, 2, "then", None)
    assert lake.rows("offset_expiry").num_rows == 0
