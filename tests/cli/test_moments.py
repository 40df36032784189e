"""--as-of before, inside and after the time that the history of a lake covers; no Spark."""

from __future__ import annotations

import itertools
import json
from argparse import Namespace
from datetime import UTC, datetime, timedelta

import pytest

from kgroups_spark.cli.main import main
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.tables.schemas import LOG_TABLES
from kgroups_spark.words import format_time, format_time_for_people
from tests.chosen import some_of
from tests.cli.written_lake import ledger, write_lake
from tests.lake.table_rows import rows_of as table_rows
from tests.views.arrow_tables import in_duckdb, rows_of
from tests.views.recorded import tables_of

TABLES = tables_of("kip848-4.3")
TIMES = sorted(time for time in TABLES["offset_commits"]["log_timestamp"].to_pylist() if time is not None)
TIMES_OF_ALL = [time for name in LOG_TABLES for time in TABLES[name]["log_timestamp"].to_pylist()]
MIDDLE = TIMES[len(TIMES) // 2]
GROUP = TABLES["committed_offsets"]["group_id"].to_pylist()[0]


def audits(*, missing, source="segments", as_of=TIMES[-1]):
    """Two audits: the first read all but the missing offsets, the second read the log again from its start."""
    end = max(TABLES["offset_commits"]["log_offset"].to_pylist()) + 1
    read = {"offsets_partition": 0, "start_offset": 0, "end_offset": end, "records": end - missing}
    read |= {"records_reread": 0, "newest_log_timestamp": TIMES[-1]}
    again = read | {"records": 10, "records_reread": 10}
    common = {"source": source, "as_of": as_of}
    return ledger({**common, "partitions": [read]}, {**common, "audit_id": 2, "partitions": [again]})


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """Two lakes by their number of missing offsets."""
    folder = tmp_path_factory.mktemp("lakes")
    return {n: write_lake(folder / str(n), {**TABLES, "audits": audits(missing=n)}) for n in (0, 5)}


def said(capsys, *arguments, code=0):
    assert main(list(arguments)) == code
    return capsys.readouterr()


def test_a_moment_before_the_history_is_not_known(lakes, capsys):
    first = format_time_for_people(min(time for time in TIMES_OF_ALL if time is not None))
    why = f"2020-01-01 00:00:00 UTC is before the history of this lake, which begins at {first} UTC: nothing is known"
    for command in (
        "groups --as-of",
        "describe --all-groups --as-of",
        "export-offsets --all-groups --as-of",
        f"history --group {GROUP} --until",
    ):
        out, text = said(capsys, *command.split(), "2020-01-01", "--lake", lakes[0], code=1)
        assert out == "" and text.startswith(f"kgroups: {why}"), command


def test_a_moment_after_the_history_is_not_known(lakes, capsys):
    location = lakes[0]
    why = "2030-01-01 00:00:00 UTC is after the history of this lake, which ends at "
    _, text = said(capsys, "groups", "--lake", location, "--as-of", "2030-01-01")
    assert "the log up to 2030" not in text and "groups (the log up to 20" in text and why in text
    _, text = said(capsys, "describe", "--lake", location, "--all-groups", "--as-of", "2030-01-01")
    assert "the log up to 2030" not in text and why in text
    out, text = said(capsys, "export-offsets", "--lake", location, "--all-groups", "--as-of", "2030-01-01", code=1)
    assert out == "" and why in text


def test_a_live_log_is_known_up_to_when_it_was_read(tmp_path, capsys):
    later = TIMES[-1] + timedelta(hours=1)
    tables = {**TABLES, "audits": audits(missing=0, source="kafka", as_of=later)}
    location = write_lake(tmp_path / "lake", tables)
    _, text = said(capsys, "groups", "--lake", location, "--as-of", format_time(later))
    assert "is after the history" not in text
    _, text = said(capsys, "groups", "--lake", location, "--as-of", format_time(later + timedelta(seconds=1)))
    assert "is after the history" in text


@pytest.mark.parametrize("missing", [0, 5])
def test_missing_offsets_are_noted_for_an_earlier_moment(lakes, capsys, missing, chosen):
    """Records that were only read again are not missing."""
    location, moment = lakes[missing], format_time(MIDDLE)
    note = "offsets are missing in the log up to "
    commands = (
        ["groups"], ["describe", "--all-groups"], ["export-offsets", "--group", GROUP],
        ["sql", f"SELECT count(*) FROM groups_as_of('{moment}')"],
    )  # fmt: skip
    for command in chosen.some(commands, 1):
        asked = [] if command[0] == "sql" else ["--as-of", moment]
        _, text = said(capsys, *command, "--lake", location, *asked)
        assert (note in text) == bool(missing), command
    _, text = said(capsys, "groups", "--lake", location, "--as-of", format_time(TIMES[-1].astimezone(UTC)))
    assert note not in text
    _, text = said(capsys, "sql", "--lake", location, "SELECT 1")
    assert note not in text


AT = {
    "before": TIMES[0] - timedelta(days=9),
    "incomplete": MIDDLE,
    "complete": TIMES[-1],
    "after": TIMES[-1] + timedelta(days=9),
}


def entry(start, end, at, **more):
    read = {"offsets_partition": 0, "start_offset": start, "end_offset": end, "records": end - start}
    return read | {"records_reread": 0, "newest_log_timestamp": at} | more


WHOLE, AGAIN = entry(0, 50, TIMES[-1]), entry(0, 50, TIMES[-1], records_reread=50)
# How audits read partition 0, by the hole in its log.
READ = {
    "": [WHOLE, AGAIN],
    "compacted": [entry(0, 50, TIMES[-1], records=45), AGAIN],
    "damaged": [WHOLE, AGAIN],
    "lost": [entry(0, 20, TIMES[0]), entry(30, 50, TIMES[-1])],
    "without its first segment": [entry(30, 50, TIMES[-1])],
}
DAMAGE = table_rows("quarantine", {"offsets_partition": 0, "audit_id": 1, "reason": "corrupt_batch"})


@pytest.mark.parametrize(
    "lake_has", some_of(3, *itertools.product([False, True], READ, ["segments", "kafka"])), ids=repr
)
def test_known_history_of_a_reader(tmp_path, lake_has):
    kept, hole, source = lake_has
    as_of = TIMES[-1] + timedelta(hours=1)
    places = [{"offsets_partition": 1, "log_offset": at, "reason": "keep"} for at in (50, 100)]
    common = {"source": source, "as_of": as_of}
    nights = ({**common, "audit_id": n, "partitions": [read]} for n, read in enumerate(READ[hole], start=1))
    tables = {**TABLES, "audits": ledger(*nights)} | ({"quarantine": DAMAGE} if hole == "damaged" else {})
    tables |= {"checkpoints": table_rows("checkpoints", *places)} if kept else {}
    reader = open_lake(Namespace(lake=write_lake(tmp_path / "lake", tables), command="groups"))
    rows = reader.sql("SELECT * FROM known_history")
    records = [row for name in LOG_TABLES for row in TABLES[name].to_pylist()]
    below = [row["log_timestamp"] for row in records if row["offsets_partition"] == 1 and row["log_offset"] < 100]
    assert rows == [
        {
            "begins": min(time for time in TIMES_OF_ALL if time is not None),
            "reduced_to": max(below) if kept else None,
            "incomplete_to": TIMES[-1] if hole else None,
            "ends": as_of if source == "kafka" else TIMES[-1],
        }
    ]


OLD = datetime(1970, 1, 1, tzinfo=UTC)
ROW = TABLES["offset_commits"].to_pylist()[0]


def commits_at(*times):
    return table_rows(
        "offset_commits", *({**ROW, "log_offset": at, "log_timestamp": each} for at, each in enumerate(times))
    )


OLD_TIMES = [
    ([OLD, *TIMES], TIMES[0]),
    ([*TIMES, OLD, None], TIMES[0]),
    ([OLD, OLD + timedelta(days=40), *TIMES], TIMES[0]),
    ([OLD, TIMES[0]], OLD),
    ([OLD], OLD),
    ([OLD, OLD, *TIMES], TIMES[0]),
    ([OLD, OLD + timedelta(milliseconds=1), *TIMES], OLD),
    ([OLD, OLD + timedelta(days=30), *TIMES], OLD),
    ([OLD, OLD + timedelta(days=30, milliseconds=1), *TIMES], TIMES[0]),
    ([None], None),
    ([], None),
]


@pytest.mark.parametrize(("times", "begins"), OLD_TIMES)
def test_one_broken_old_time_does_not_begin_the_history(times, begins):
    history = in_duckdb({"offset_commits": commits_at(*times), "audits": audits(missing=0)})
    assert rows_of(history, "SELECT begins FROM known_history") == [{"begins": begins}]


@pytest.mark.parametrize("known", AT)
def test_an_answer_as_of_a_moment_says_whether_history_covers_it(lakes, capsys, known, chosen):
    """In SQL each row says so, and a function where there is no row; in JSON of commands each row says so."""
    names = chosen.some(("groups", "group_members", "committed_offsets", "pending_offsets"), 2)
    commands = chosen.some((["groups"], ["describe", "--all-groups"], ["describe", "--all-groups", "--state"]), 1)
    capsys.readouterr()
    location, moment = lakes[5], format_time(AT[known])
    reader = open_lake(Namespace(lake=location, command="sql"))
    assert reader.sql(f"SELECT known_as_of('{moment}') AS known, known_as_of(NULL) AS now") == [
        {"known": known, "now": "complete"}
    ]
    for name in names:
        rows = reader.sql(f"SELECT DISTINCT known FROM {name}_as_of('{moment}')")
        assert rows == [{"known": known}] or (rows == [] and (known == "before" or name == "pending_offsets")), name
    for command in commands:
        code = 1 if known == "before" else 0
        out, _ = said(capsys, *command, "--lake", location, "--as-of", moment, "--format", "json", code=code)
        assert {row["known"] for row in map(json.loads, out.splitlines())} == ({known} if code == 0 else set()), command
        out, _ = said(capsys, *command, "--lake", location, "--format", "json")
        assert {row["known"] for row in map(json.loads, out.splitlines())} == {None}, command
