"""The history of one group is read without the files that hold only other groups: those are no Parquet here."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.errors import KgroupsError
from kgroups_spark.sql.reader import LakeReader
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import some_of
from tests.cli.written_lake import add, ledger, write_lake
from tests.views.recorded import tables_of

RECORDING = "classic-4.3"
BY_GROUP = [name for name, table in TABLES.items() if "group_id" in table.statistics]


def group_in_the_middle() -> str:
    """The busiest group with other groups before and after it."""
    tables = tables_of(RECORDING)
    groups = sorted(set(tables["offset_commits"]["group_id"].to_pylist()))
    records = Counter(name for name in tables["group_records"]["group_id"].to_pylist() if name in groups[1:-1])
    return str(records.most_common(1)[0][0])


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recording; tables by group are three files each, of which only the middle one can be read."""
    path, tables, group = tmp_path_factory.mktemp("lakes") / "lake", tables_of(RECORDING), group_in_the_middle()
    divided = {name: tables[name] for name in BY_GROUP if name in tables and tables[name].num_rows}
    write_lake(path, {name: rows for name, rows in tables.items() if name not in divided} | {"audits": ledger({})})
    unreadable = 0
    for name, rows in divided.items():
        for compared in (pc.less, pc.equal, pc.greater):
            part = rows.filter(compared(rows["group_id"], group))
            if part.num_rows:
                file = add(path, name, part, audit_id=1)
                if compared is not pc.equal:
                    file.write_bytes(b"nobody may read this " * (file.stat().st_size // 21 + 1))
                    unreadable += 1
    assert unreadable >= 6
    return str(path)


def opened(location: str | Path) -> LakeReader:
    return open_lake(argparse.Namespace(lake=str(location), command="groups"))


QUERIES = (
    "SELECT * FROM offset_commits WHERE group_id = :g",
    "SELECT * FROM group_versions WHERE group_id IN (:g)",
    "SELECT * FROM group_history WHERE group_id = :g",
    "SELECT * FROM group_member_history WHERE group_id = :g",
    "SELECT * FROM offset_history WHERE group_id = :g",
    "SELECT * FROM effective_commits WHERE group_id = :g",
    "SELECT * FROM rebalances WHERE group_id = :g",
    "SELECT * FROM group_metadata_records WHERE group_id = :g",
)


@pytest.mark.parametrize("query", some_of(3, *QUERIES))
def test_files_of_other_groups_are_not_read(location: str, query: str) -> None:
    rows = opened(location).sql(query, g=group_in_the_middle())
    assert {row["group_id"] for row in rows} == {group_in_the_middle()}


@pytest.mark.parametrize(
    "query", ["SELECT sum(log_offset) FROM offset_commits", "SELECT min(state) FROM group_versions"]
)
def test_a_query_over_all_groups_fails_on_the_unreadable_files(location: str, query: str) -> None:
    with pytest.raises((KgroupsError, OSError, pa.ArrowException)):
        opened(location).sql(query)
