"""Sums of the ledger's entries are the same by footers, by entries file by file, and by SQL over all entries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from kgroups_spark.lake import ledger_sums as module
from kgroups_spark.lake.ledger_sums import FIELDS, ledger_sums
from kgroups_spark.lake.parts_writer import PartWriter
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.views import view_sql
from tests.chosen import one_of
from tests.lake.table_rows import rows_of
from tests.views.arrow_tables import in_duckdb

Row = dict[str, Any]


def entry(partition: int, **more: Any) -> Row:
    reported = {"offsets_partition": partition, "start_offset": 5, "end_offset": 9, "records": 7, "bytes": 99}
    return reported | {"records_reread": 0} | more


def audit(number: int, *entries: Row, status: str = "finished") -> Row:
    return {"audit_id": number, "status": status, "partitions": list(entries) if entries else None}


def files_of(folder: Path, *files: Sequence[Row]) -> pa.dataset.Dataset:
    (folder / "audits").mkdir()
    for rows in files:
        assert PartWriter("audits", str(folder), 1).write(rows_of("audits", *rows))
    return pyarrow.dataset.dataset(folder / "audits", arrow_schema("audits"))


def footers(audits: pa.dataset.Dataset) -> int:
    """The number of files with sums in their footers."""
    reported = [pq.read_metadata(path).metadata or {} for path in audits.files]
    return sum(module.KEY.encode() in metadata for metadata in reported)


def totals(audits: pa.dataset.Dataset, entries: pa.Table | None) -> list[Row]:
    """log_totals, over these entries; None: over all, by its own SQL."""
    with in_duckdb({"audits": audits.to_table()}) as connection:
        text = view_sql("log_totals", "duckdb")
        if entries is not None:
            connection.register("ledger_sums", entries)
            text = text.replace("FROM audit_partitions", "FROM ledger_sums")
        connection.execute(text.replace("CREATE OR REPLACE VIEW", "CREATE OR REPLACE TEMPORARY VIEW"))
        return connection.sql("SELECT * FROM log_totals ORDER BY offsets_partition").to_arrow_table().to_pylist()


LEDGER = (
    (audit(1, status="running"), audit(1, entry(0), entry(1, lost_from=3, lost_to=8)), audit(2, status="running")),
    (audit(2, entry(0, records=8)), audit(3, entry(1), status="abandoned")),
    (audit(4, status="running"),),
)


def test_sums_are_those_of_finished_audits_alone(tmp_path: Path) -> None:
    found = ledger_sums(files_of(tmp_path, *LEDGER))
    assert found.column_names == ["audit_id", *FIELDS]
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == [
        (1, 0, 5, 7, 0, 99, None, None),
        (1, 1, 5, 7, 0, 99, 0, 5),
        (2, 0, 5, 8, 0, 99, None, None),
    ]


def random_rows(rng: random.Random, first: int, last: int, again: float) -> list[Row]:
    """Audits of four partitions, of which some are read again from their start, or lost offsets."""
    rows = []
    for number in range(first, last + 1):
        entries = []
        for partition in range(4):
            is_again = rng.random() < again
            lost = {"lost_from": number, "lost_to": number + rng.randrange(9)} if rng.random() < 0.1 else {}
            numbers = {"start_offset": 0 if is_again else 10 * number, "records": rng.randrange(99)}
            reread = {"records_reread": rng.randrange(1, 9) if is_again else 0, "bytes": rng.randrange(9999)}
            entries.append(entry(partition, **numbers, **reread, **lost))
        rows += [audit(number, status="running"), audit(number, *entries)]
    return rows


@pytest.mark.parametrize("again", one_of(0, 0.01, 0.2))
@pytest.mark.parametrize("files", [[(1, 40), (41, 80), (81, 82)], [(1, 82)], [(1, 40), (30, 80), (81, 82)]], ids=str)
def test_log_totals_are_those_of_all_entries(files: list[tuple[int, int]], again: float, tmp_path: Path) -> None:
    """Also for files of overlapping times."""
    rng = random.Random(f"{files} {again}")
    audits = files_of(tmp_path, *(random_rows(rng, *span, again) for span in files))
    assert footers(audits) == sum(last - first > 1 for first, last in files)
    expected = totals(audits, None)
    assert totals(audits, ledger_sums(audits)) == expected
    assert len(expected) == 4 and any(row["offsets_lost"] for row in expected)
    assert any(row["read_from_start_by"] for row in expected) == (again > 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "KEY", "nobody's")
        assert totals(audits, ledger_sums(audits)) == expected


def test_totals_are_right_if_a_reread_falls_between_the_audits_of_another_file(tmp_path: Path) -> None:
    """Only a handmade ledger has this: the sums of a file cannot be split."""
    read_again = [audit(number, entry(0, records_reread=int(number == 40))) for number in range(2, 81, 2)]
    audits = files_of(tmp_path, read_again, [audit(number, entry(0)) for number in range(1, 80, 2)])
    assert footers(audits) == 2
    [row] = totals(audits, ledger_sums(audits))
    assert [row] == totals(audits, None)
    assert row["records"] == 7 * len(range(40, 81))


def test_files_with_sums_in_their_footers_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audits = files_of(tmp_path, random_rows(random.Random(1), 1, 400, 0), random_rows(random.Random(1), 401, 402, 0))
    asked: list[set[str]] = []
    read = pq.ParquetFile.read

    def watched(file: pq.ParquetFile, columns: list[str]) -> pa.Table:
        asked.append({path.rpartition(".")[2] for path in columns})
        return read(file, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "read", watched)
    assert len(ledger_sums(audits)) == 2 * 4
    assert asked == [{"audit_id", "status", "topic", *FIELDS}]


def test_entries_of_other_logs_are_left_out(tmp_path: Path) -> None:
    of_states = entry(0, records=99, topic="__transaction_state")
    first, later = [entry(0), of_states], [entry(0), entry(1), of_states]
    audits = files_of(tmp_path, [audit(1, *first)], [audit(number, *later) for number in range(2, 50)])
    assert footers(audits) == 1
    assert totals(audits, ledger_sums(audits)) == totals(audits, None)
    assert [row["records"] for row in totals(audits, None)] == [7 * 49, 7 * 48]


def test_more_sums_than_a_footer_holds_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY_SUMS", 20)
    audits = files_of(tmp_path, random_rows(random.Random(1), 1, 40, 0.2))
    assert footers(audits) == 0
    assert totals(audits, ledger_sums(audits)) == totals(audits, None)


def test_a_file_of_an_older_layout_may_lack_a_field(tmp_path: Path) -> None:
    audits = files_of(tmp_path, [audit(1, entry(5))])
    fields = [pa.field("offsets_partition", pa.int32()), pa.field("records", pa.int64())]
    entries = pa.array([[{"offsets_partition": 5, "records": 1}]], pa.list_(pa.struct(fields)))
    old = pa.table({"audit_id": [9], "status": ["finished"], "partitions": entries})
    pq.write_table(old, tmp_path / "audits" / "old.parquet")
    again = pyarrow.dataset.dataset(tmp_path / "audits", arrow_schema("audits"))
    assert sorted(tuple(row.values()) for row in ledger_sums(again).to_pylist()) == [
        (1, 5, 5, 7, 0, 99, None, None),
        (9, 5, None, 1, None, None, None, None),
    ]
    assert len(ledger_sums(audits)) == 1


def test_a_lake_without_files() -> None:
    empty = pyarrow.dataset.dataset(arrow_schema("audits").empty_table())
    assert len(ledger_sums(empty)) == 0
