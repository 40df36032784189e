"""Commands on all groups of a lake: twice the groups take twice the calls, and only a limited number of rows
is in memory at a time."""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kgroups_spark.cli.main import main
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.errors import KgroupsError
from kgroups_spark.sql import reader
from kgroups_spark.sql.by_duckdb import DuckDbLake, DuckDbReader
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import one_of, some_of
from tests.cli.written_lake import AS_OF, add, ledger, waiting, write_lake
from tests.lake.table_rows import rows_of
from tests.report.made_lakes import partition_read
from tests.views.recorded import tables_of

PARTITIONS, OFFSETS = 8, 3


def lake_of(path, groups):
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
def lakes(tmp_path_factory):
    """With one group, with 200, with 400."""
    folder = tmp_path_factory.mktemp("lakes")
    one, few, many = (lake_of(folder / str(count), count) for count in (1, 200, 400))
    return one, few, many


def calls(lake, *words):
    """The number of function calls that the command made."""
    with cProfile.Profile() as profile:
        assert main([*words, "--lake", lake]) == 0
    return int(pstats.Stats(profile).total_calls)


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
def test_twice_the_groups_take_twice_the_calls(lakes, line):
    # The first run does not count: it loads code that this process has not used yet.
    _, at_least, few, many = (calls(lake, *line.split()) for lake in (lakes[0], *lakes))
    assert many - at_least <= 2.3 * (few - at_least) + 1_000


def described(lake, capsys, *words):
    capsys.readouterr()
    assert main(["describe", "--all-groups", "--lake", lake, "--format", "json", *words]) == 0
    return sorted(capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("words", some_of(1, (), ("--members",), ("--state",), ("--as-of", "2026-11-16T06:30")))
def test_groups_are_read_some_offsets_partitions_at_a_time(lakes, words, monkeypatch, capsys):
    at_once, answers = described(lakes[1], capsys, *words), list[int]()
    answer = DuckDbReader.batches

    def counted(self, query, parameters=None):
        answers.append(0)
        for batch in answer(self, query, parameters):
            answers[-1] += batch.num_rows
            yield batch

    monkeypatch.setattr(DuckDbReader, "batches", counted)
    monkeypatch.setattr(reader, "AT_ONCE", 200)
    assert described(lakes[1], capsys, *words) == at_once
    if "--state" not in words:
        assert max(answers) <= 200 < len(at_once)


# Commands do not read more as the ledger grows. Its old files are damaged here; or a test counts the rows that a
# command reads.
# It has open transactions; that audits looked for findings is known from the ledger alone.
RECORDING = "transactions-4.3"
LONG = 150


def audit(number, **reported):
    """A finished audit that read ten records of each of eight partitions."""
    at = AS_OF - timedelta(days=LONG - number)
    span = {"start_offset": 0, "end_offset": 10**6, "records": 10, "bytes": 990, "newest_log_timestamp": at}
    read = [partition_read(p, **span) for p in range(8)]
    row: dict[str, object] = {"audit_id": number, "started_at": at, "finished_at": at, "as_of": at, "partitions": read}
    return row | {"rows_added": {"findings": 0}, "quarantined": {}, "notes": [f"note {number}"]} | reported


def lake_of_audits(path, *files):
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
def location(tmp_path_factory):
    older = ledger(*(audit(number) for number in range(1, LONG - 1)))
    # The last one found offsets missing, as one of a compacted log does.
    span = {"start_offset": 10**6, "end_offset": 2 * 10**6, "records": 10, "bytes": 990, "newest_log_timestamp": AS_OF}
    compacted = [partition_read(p, **span) for p in range(8)]
    running = {"audit_id": LONG + 1, "status": "running", "as_of": None}
    newest = ledger(audit(LONG - 1), audit(LONG, partitions=compacted), running)
    return lake_of_audits(tmp_path_factory.mktemp("lakes") / "lake", older, newest)


def group_of(tables):
    return str(tables["committed_offsets"]["group_id"][0].as_py())


ON_A_LEDGER = (
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


@pytest.mark.parametrize("words", some_of(4, *ON_A_LEDGER), ids=" ".join)
def test_no_command_opens_old_files_of_the_ledger(words, location, capsys):
    command, *options = (group_of(tables_of(RECORDING)) if word == "G" else word for word in words)
    assert main([command, "--lake", str(location), "--engine", "duckdb", *options]) == 0
    assert f"audit {LONG}, " in capsys.readouterr().err or command == "sql" or "--as-of" in options


@pytest.fixture
def loaded(monkeypatch):
    """The number of rows and the columns that each query of the ledger returned."""
    seen: list[tuple[int, set[str]]] = []
    rows_of = DuckDbLake.rows

    def counting(lake, name, *arguments, **named):
        rows = rows_of(lake, name, *arguments, **named)
        if name == "audits":
            seen.append((rows.num_rows, set(rows.column_names)))
        return rows

    monkeypatch.setattr(DuckDbLake, "rows", counting)
    yield seen


@pytest.mark.parametrize("audits", [10, LONG])
def test_the_command_audits_loads_only_the_newest_audits(audits, loaded, tmp_path, capsys):
    lake = str(lake_of_audits(tmp_path / "lake", ledger(*(audit(number) for number in range(1, audits + 1)))))
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


# The history of one group is read without the files that hold only other groups: those are no Parquet here.
CLASSIC = "classic-4.3"
BY_GROUP = [name for name, table in TABLES.items() if "group_id" in table.statistics]


def group_in_the_middle():
    """The busiest group with other groups before and after it."""
    tables = tables_of(CLASSIC)
    groups = sorted(set(tables["offset_commits"]["group_id"].to_pylist()))
    records = Counter(name for name in tables["group_records"]["group_id"].to_pylist() if name in groups[1:-1])
    return str(records.most_common(1)[0][0])


@pytest.fixture(scope="module")
def divided_lake(tmp_path_factory):
    """A recording; tables by group are three files each, of which only the middle one can be read."""
    path, tables, group = (
        tmp_path_factory.mktemp("lakes") / "lake",
        tables_of(CLASSIC),
        group_in_the_middle(),
    )
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


def opened(location):
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
def test_files_of_other_groups_are_not_read(divided_lake, query):
    rows = opened(divided_lake).sql(query, g=group_in_the_middle())
    assert {row["group_id"] for row in rows} == {group_in_the_middle()}


@pytest.mark.parametrize(
    "query", ["SELECT sum(log_offset) FROM offset_commits", "SELECT min(state) FROM group_versions"]
)
def test_a_query_over_all_groups_fails_on_the_unreadable_files(divided_lake, query):
    with pytest.raises((KgroupsError, OSError, pa.ArrowException)):
        opened(divided_lake).sql(query)
