"""Findings load a bounded number of rows at once, and find the same in lots of offsets partitions as in the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from kgroups_spark.findings import lots
from kgroups_spark.findings.evidence import Condition, Evidence, Tables
from tests.chosen import Chosen
from tests.findings.cases import CASES
from tests.findings.found import all_findings, evidence_of
from tests.logs.corpora import ANSWERS, files_of
from tests.nights.nights_here import How
from tests.twin.object_nights import by_objects


@dataclass
class Watched:
    """Tables that remember how many rows with nested columns went out at once."""

    tables: Tables
    most: int = 0
    partitions: set[tuple[int, ...]] = field(default_factory=set)

    def rows(self, name: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        found = self.tables.rows(name, columns, *conditions)
        if name == "group_members" and "assigned_partitions" in columns:
            self.most = max(self.most, found.num_rows)
            self.partitions.add(tuple(sorted(found["offsets_partition"].unique().to_pylist())))
        return found


@pytest.fixture(scope="module")
def recorded() -> Evidence:
    """A broker's log with members in several offsets partitions."""
    answers = ANSWERS["expiry-4.3-after"]
    audited = by_objects(files_of("expiry-4.3-after"), How(answers["release"]))
    return evidence_of(audited, retention_ms=answers["retention_ms"])


@pytest.mark.parametrize("rows", [1, 3])
def test_lots_find_what_the_whole_finds_and_never_load_all_members(
    rows: int, recorded: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = all_findings(recorded)
    assert {each.finding for each in whole} >= {"lost_when_emptied"}
    of_partition = recorded.tables.rows("group_members", ["offsets_partition"])["offsets_partition"].value_counts()
    largest = max(each["counts"] for each in of_partition.to_pylist())
    watched = Watched(recorded.tables)
    monkeypatch.setattr(lots, "ROWS_AT_ONCE", rows)
    assert all_findings(replace(recorded, tables=watched)) == whole
    assert watched.most <= max(rows, largest) < len(recorded.members)
    assert len(watched.partitions) > 1


def test_every_case_is_found_in_its_lot(monkeypatch: pytest.MonkeyPatch, chosen: Chosen) -> None:
    numbers = chosen.some(range(len(CASES)), 5)
    evidence = [evidence_of(by_objects(CASES[number].log.files, How())) for number in numbers]
    whole = [all_findings(each) for each in evidence]
    monkeypatch.setattr(lots, "ROWS_AT_ONCE", 0)
    assert [all_findings(each) for each in evidence] == whole
