"""Entries of the ledger's column `partitions` as columns: of every finished audit, and no other fields are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from kgroups_spark.tables.parts_writer import PartWriter
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.views.ledger_entries import ledger_entries
from tests.tables.table_rows import rows_of

FIELDS = ("offsets_partition", "records", "lost_from")


def entry(partition: int, **more: Any) -> dict[str, Any]:
    return {"offsets_partition": partition, "start_offset": 0, "end_offset": 9, "records": 7, "bytes": 99} | more


def audit(number: int, *entries: dict[str, Any], status: str = "finished") -> dict[str, Any]:
    return {"audit_id": number, "status": status, "partitions": list(entries) if entries else None}


LEDGER = (
    (audit(1, status="running"), audit(1, entry(0), entry(1, lost_from=3)), audit(2, status="running")),
    (audit(2, entry(0, records=8)), audit(3, entry(1), status="abandoned")),
    (audit(4, status="running"),),
)


@pytest.fixture
def audits(tmp_path: Path) -> pa.dataset.Dataset:
    (tmp_path / "audits").mkdir()
    for rows in LEDGER:
        PartWriter("audits", str(tmp_path), 1).write(rows_of("audits", *rows))
    return pyarrow.dataset.dataset(tmp_path / "audits", arrow_schema("audits"))


def found(audits: pa.dataset.Dataset) -> list[tuple[Any, ...]]:
    table = ledger_entries(audits, FIELDS)
    assert table.column_names == ["audit_id", *FIELDS]
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_entries_of_finished_audits_alone(audits: pa.dataset.Dataset) -> None:
    assert found(audits) == [(1, 0, 7, None), (1, 1, 7, 3), (2, 0, 8, None)]


def test_a_file_of_an_older_layout_may_lack_a_field(audits: pa.dataset.Dataset, tmp_path: Path) -> None:
    fields = [pa.field("offsets_partition", pa.int32()), pa.field("records", pa.int64())]
    entries = pa.array([[{"offsets_partition": 5, "records": 1}]], pa.list_(pa.struct(fields)))
    old = pa.table({"audit_id": [9], "status": ["finished"], "partitions": entries})
    pq.write_table(old, tmp_path / "audits" / "old.parquet")
    again = pyarrow.dataset.dataset(tmp_path / "audits", arrow_schema("audits"))
    assert found(again) == [*found(audits), (9, 5, 1, None)]


def test_other_fields_are_not_read(audits: pa.dataset.Dataset, monkeypatch) -> None:
    asked: list[set[str]] = []
    read = pq.ParquetFile.read

    def watched(file: pq.ParquetFile, columns: list[str]) -> pa.Table:
        asked.append({path.rpartition(".")[2] for path in columns})
        return read(file, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "read", watched)
    found(audits)
    assert asked == [{"audit_id", "status", "topic", *FIELDS}] * len(LEDGER)


def test_entries_of_other_logs_are_left_out(tmp_path: Path) -> None:
    of_states = entry(0, records=99, topic="__transaction_state")
    (tmp_path / "audits").mkdir()
    PartWriter("audits", str(tmp_path), 1).write(rows_of("audits", audit(1, entry(0), of_states)))
    assert found(pyarrow.dataset.dataset(tmp_path / "audits", arrow_schema("audits"))) == [(1, 0, 7, None)]


def test_a_lake_without_files() -> None:
    empty = pyarrow.dataset.dataset(arrow_schema("audits").empty_table())
    assert pc.sum(ledger_entries(empty, FIELDS)["records"]).as_py() is None
