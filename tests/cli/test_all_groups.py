"""Commands on all groups of a lake: twice the groups take twice the calls, and only a limited number of rows
is in memory at a time."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kgroups_spark.cli.main import main
from kgroups_spark.sql import reader
from kgroups_spark.sql.by_duckdb import DuckDbReader
from tests.chosen import one_of, some_of
from tests.cli.written_lake import AS_OF, ledger, waiting, write_lake
from tests.lake.table_rows import rows_of

PARTITIONS, OFFSETS = 8, 3


def lake_of(path: Path, groups: int) -> str:
    """This many groups, each with OFFSETS offsets and a member; every tenth is in a second partition, too."""
    places = [
        {"group_id": f"g{number}", "offsets_partition": (number + moved) % PARTITIONS}
        for number in range(groups)
        for moved in ((0, 1) if number % 10 == 0 else (0,))
    ]
    at = {"log_timestamp": AS_OF}
    group = {"group_type": "classic", "state": "Stable", "is_simple": False, "protocol_type": "consumer"}
    reported = [place | group | {"member_count": 1, "generation": 1, "state_since": AS_OF} for place in places]
    held = [{"topic": "t", "topic_id": None, "partition": 0}]
    members = [place | {"member_id": f"m-{place['group_id']}", "assigned_partitions": held} for place in places]
    offsets = [
        place | {"topic": "t", "partition": number, "committed_offset": 10 * number, "commit_timestamp": AS_OF}
        for place in places
        for number in range(OFFSETS)
    ]
    committed = rows_of("committed_offsets", *offsets)
    tables = {
        "audits": ledger({}),
        "groups": rows_of("groups", *reported),
        "group_members": rows_of("group_members", *members),
        "group_versions": rows_of("group_versions", *(row | at | {"is_removed": False} for row in reported)),
        "group_member_versions": rows_of("group_member_versions", *(row | at for row in members)),
        "offset_commits": rows_of("offset_commits", *(row | at for row in offsets)),
        "committed_offsets": committed,
        "offset_expiry": waiting(committed),
        "pending_offsets": rows_of("pending_offsets", *(row | {"topic": "pending"} for row in offsets[::7])),
    }
    return write_lake(path, tables)


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """With one group, with 200, with 400."""
    folder = tmp_path_factory.mktemp("lakes")
    one, few, many = (lake_of(folder / str(count), count) for count in (1, 200, 400))
    return one, few, many


def calls(lake: str, *words: str) -> int:
    """The number of function calls that the command made."""
    with cProfile.Profile() as profile:
        assert main([*words, "--lake", lake]) == 0
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


COMMANDS = (
    "describe --all-groups",
    "describe --all-groups --members",
    "describe --all-groups --state",
    "groups",
    "expiring",
    "expiring --offsets --if-empty",
    "expiring --retention 30d",
    "pending",
)
LINES = (f"{command} --format {form}" for command in COMMANDS for form in ("table", "json"))


@pytest.mark.parametrize("line", one_of("export-offsets --all-groups", *LINES))
def test_twice_the_groups_take_twice_the_calls(lakes: tuple[str, str, str], line: str) -> None:
    # The first run does not count: it loads code that this process has not used yet.
    _, at_least, few, many = (calls(lake, *line.split()) for lake in (lakes[0], *lakes))
    assert many - at_least <= 2.3 * (few - at_least) + 1_000


def described(lake: str, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    assert main(["describe", "--all-groups", "--lake", lake, "--format", "json", *words]) == 0
    return sorted(capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("words", some_of(1, (), ("--members",), ("--state",), ("--as-of", "2026-11-16T06:30")))
def test_groups_are_read_some_offsets_partitions_at_a_time(
    lakes: tuple[str, str, str],
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at_once, answers = described(lakes[1], capsys, *words), list[int]()
    answer = DuckDbReader.batches

    def counted(self: DuckDbReader, query: str, parameters: Any = None) -> Iterator[pa.RecordBatch]:
        answers.append(0)
        for batch in answer(self, query, parameters):
            answers[-1] += batch.num_rows
            yield batch

    monkeypatch.setattr(DuckDbReader, "batches", counted)
    monkeypatch.setattr(reader, "AT_ONCE", 200)
    assert described(lakes[1], capsys, *words) == at_once
    if "--state" not in words:
        assert max(answers) <= 200 < len(at_once)
