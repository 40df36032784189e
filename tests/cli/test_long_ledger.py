"""Commands do not read more as the ledger grows. Its old files are damaged here; or a test counts the rows that a
command reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from kgroups_spark.cli.main import main
from kgroups_spark.sql.by_duckdb import DuckDbLake
from tests.chosen import some_of
from tests.cli.written_lake import AS_OF, add, ledger, waiting, write_lake
from tests.report.made_lakes import partition_read
from tests.views.recorded import tables_of

# It has open transactions; that audits looked for findings is known from the ledger alone.
RECORDING = "transactions-4.3"
LONG = 150


def audit(number: int, **reported: object) -> dict[str, object]:
    """A finished audit that read ten records of each of eight partitions."""
    at = AS_OF - timedelta(days=LONG - number)
    span = {"start_offset": 0, "end_offset": 10**6, "records": 10, "bytes": 990, "newest_log_timestamp": at}
    read = [partition_read(p, **span) for p in range(8)]
    row: dict[str, object] = {"audit_id": number, "started_at": at, "finished_at": at, "as_of": at, "partitions": read}
    return row | {"rows_added": {"findings": 0}, "quarantined": {}, "notes": [f"note {number}"]} | reported


def lake_of(path: Path, *files: pa.Table) -> Path:
    """A recording's tables with these files of the ledger, of which only the last can be read."""
    tables = {name: rows for name, rows in tables_of(RECORDING).items() if name != "audits"}
    judged = waiting(tables["committed_offsets"])
    decided = judged.append_column(
        pa.field("decided_by", pa.int64(), nullable=False), pa.array([LONG - 1] * len(judged))
    )
    write_lake(path, tables | {"offset_expiry": judged, "previous_offset_expiry": decided})
    written = [add(path, "audits", rows, audit_id=1) for rows in files]
    for file in written[:-1]:
        file.write_bytes(b"nobody may read this " * (file.stat().st_size // 21 + 1))
    return path


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    older = ledger(*(audit(number) for number in range(1, LONG - 1)))
    # The last one found offsets missing, as one of a compacted log does.
    span = {"start_offset": 10**6, "end_offset": 2 * 10**6, "records": 10, "bytes": 990, "newest_log_timestamp": AS_OF}
    compacted = [partition_read(p, **span) for p in range(8)]
    running = {"audit_id": LONG + 1, "status": "running", "as_of": None}
    newest = ledger(audit(LONG - 1), audit(LONG, partitions=compacted), running)
    return lake_of(tmp_path_factory.mktemp("lakes") / "lake", older, newest)


def group_of(tables: dict[str, pa.Table]) -> str:
    return str(tables["committed_offsets"]["group_id"][0].as_py())


COMMANDS = (
    ("groups",),
    ("expiring",),
    ("expiring", "--offsets", "--if-empty", "--retention", "30d"),
    ("pending",),
    ("findings",),
    ("describe", "--all-groups"),
    ("describe", "--group", "G"),
    ("describe", "--all-groups", "--state"),
    ("history", "--group", "G"),
    ("export-offsets", "--all-groups"),
    ("sql", "SELECT * FROM last_audit"),
    ("sql", "SELECT offsets_partition_count()"),
    ("sql", "SELECT count(*) FROM lag"),
    ("sql", "SELECT count(*) FROM coverage"),
    ("sql", "SELECT count(*) FROM expiry_outcomes"),
    ("sql", "SELECT count(*) FROM expiring()"),
)


@pytest.mark.parametrize("words", some_of(4, *COMMANDS), ids=" ".join)
def test_no_command_opens_old_files_of_the_ledger(words: tuple[str, ...], location: Path, capsys) -> None:
    command, *options = (group_of(tables_of(RECORDING)) if word == "G" else word for word in words)
    assert main([command, "--lake", str(location), "--engine", "duckdb", *options]) == 0
    assert f"audit {LONG}, " in capsys.readouterr().err or command == "sql" or "--as-of" in options


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, set[str]]]]:
    """The number of rows and the columns that each query of the ledger returned."""
    seen: list[tuple[int, set[str]]] = []
    rows_of = DuckDbLake.rows

    def counting(lake: DuckDbLake, name: str, *arguments: object, **named: object) -> pa.Table:
        rows = rows_of(lake, name, *arguments, **named)  # type: ignore[arg-type]
        if name == "audits":
            seen.append((rows.num_rows, set(rows.column_names)))
        return rows

    monkeypatch.setattr(DuckDbLake, "rows", counting)
    yield seen


@pytest.mark.parametrize("audits", [10, LONG])
def test_the_command_audits_loads_only_the_newest_audits(
    audits: int, loaded: list[tuple[int, set[str]]], tmp_path: Path, capsys
) -> None:
    lake = str(lake_of(tmp_path / "lake", ledger(*(audit(number) for number in range(1, audits + 1)))))
    assert main(["audits", "--lake", lake]) == 0
    reported = capsys.readouterr()
    # The screen's rows are asked in SQL.
    assert loaded == [(audits, {"audit_id"})]
    assert len(reported.out.splitlines()) == 1 + min(audits, 20)
    assert (f"the newest 20 of {audits} audits (--all shows all)" in reported.err) is (audits > 20)
    assert f"note {audits}\n" in reported.err
    loaded.clear()
    assert main(["audits", "--lake", lake, "--format", "json", "--limit", "2"]) == 0
    assert [json.loads(line)["audit_id"] for line in capsys.readouterr().out.splitlines()] == [audits - 1, audits]
    assert [rows for rows, _ in loaded] == [audits, 2]
    loaded.clear()
    assert main(["audits", "--lake", lake, "--format", "csv", "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == audits + 1
    assert max(rows for rows, columns in loaded if "partitions" in columns) <= 100
