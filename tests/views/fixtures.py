"""NAME.sql: rows of tables, and queries over the views of these tables, each followed by its rows or error. A query
sees the tables' rows above it. Columns that an INSERT does not name are null, or have a value that fits. h(n): n hours
after a full hour.

VIEW.txt: logs or rows in words, and the rows of the view (tests/logs/in_words.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from kgroups_spark.sql.views import VIEWS
from kgroups_spark.tables.schemas import arrow_schema
from tests.lake.table_rows import rows_of
from tests.logs import in_words
from tests.logs.in_words import as_text, at, cases
from tests.views.arrow_tables import in_duckdb

# The ledger's column `partitions`, values of __share_group_state, lists of share partitions, and a topology of streams.
MACROS = """
SET TimeZone = 'UTC';
CREATE TEMP MACRO h(hours) AS TIMESTAMPTZ '2026-11-16 06:00Z' + to_milliseconds((3.6e6 * hours)::BIGINT);
CREATE TEMP MACRO part(number, begins, ends, records, reread := 0, log_start := 0) AS {
  'offsets_partition': number, 'start_offset': begins, 'end_offset': ends, 'records': records, 'records_reread': reread,
  'bytes': 10 * records, 'log_start_offset': log_start};
CREATE TEMP MACRO batch(first_offset, last_offset, state, deliveries) AS {
  'firstOffset': first_offset, 'lastOffset': last_offset, 'deliveryState': state, 'deliveryCount': deliveries};
CREATE TEMP MACRO stored(start_offset, batches) AS to_json({'startOffset': start_offset, 'stateBatches': batches});
CREATE TEMP MACRO listed(partitions) AS list_filter(
  [{'topicId': 'A', 'topicName': 'topic A', 'partitions': partitions}], lambda topic: len(partitions) > 0);
CREATE TEMP MACRO listing(initializing, initialized, deletes := false) AS to_json({
  'initializingTopics': listed(initializing), 'initializedTopics': listed(initialized),
  'deletingTopics': list_filter([{'topicId': 'A', 'topicName': 'topic A'}], lambda topic: deletes)});
CREATE TEMP MACRO subtopology(sources, repartitioned) AS {
  'subtopologyId': '0', 'sourceTopics': sources, 'sourceTopicRegex': ['x.*'], 'repartitionSinkTopics': ['sink'],
  'stateChangelogTopics': [{'name': 'changelog', 'partitions': 1}],
  'repartitionSourceTopics': list_transform(repartitioned, lambda topic: {'name': topic, 'partitions': 1})};
"""
NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.sql"))
INSERT = re.compile(r"INSERT INTO (\w+)\s+\((.*?)\)\s+(.*)", re.DOTALL)


class Question(NamedTuple):
    tables: dict[str, pa.Table]
    query: str
    rows: list[tuple[Any, ...]]
    error: str = ""


@cache
def questions(name: str) -> list[Question]:
    return list(_questions(statements(name)))


def statements(name: str) -> list[str]:
    text = (Path(__file__).parent / f"{name}.sql").read_text()
    return [each.strip() for each in re.sub("^--.*\n", "", text, flags=re.MULTILINE).split(";\n")]


def number_of_questions(name: str) -> int:
    """Without the seconds that DuckDB takes for the rows of all files."""
    return sum(each.startswith(("VALUES", "ERROR")) for each in statements(name))


def tables_of(name: str) -> dict[str, pa.Table]:
    """All rows of the file."""
    if name not in IN_WORDS:
        return questions(name)[-1].tables
    tables = in_words.tables_of(IN_WORDS[name])
    if name == "expiry_outcomes":  # two audits, each of which has read 100 records of every case
        partitions = range(len(cases(IN_WORDS[name])))
        read = {
            end: [{"offsets_partition": p, "start_offset": end - 100, "end_offset": end} for p in partitions]
            for end in (100, 200)
        }
        ended = [
            {"audit_id": end // 100, "status": "finished", "as_of": at(end), "partitions": its}
            for end, its in read.items()
        ]
        tables["audits"] = rows_of("audits", *ended)
    return tables


IN_WORDS = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.txt")) if path.stem in VIEWS}
# Columns that rows do not have there: where a case is, and those of the record itself.
LEFT_OUT = {"audit_id", "offsets_partition"}
OF_RECORDS = {*arrow_schema("offset_commits").names} - {"log_offset", "outcome", "marker_offset"}


@cache
def rows_by_case(view: str) -> list[list[str]]:
    """By case the rows of the view."""
    found: list[list[str]] = [[] for _ in cases(IN_WORDS[view])]
    left_out = OF_RECORDS if view == "offset_history" else LEFT_OUT
    with in_duckdb(tables_of(view)) as connection:
        rows = connection.sql(f"FROM {view}").to_arrow_table().to_pylist()
    for row in sorted(rows, key=lambda row: (row.get("group_id"), row.get("from_log_offset", row.get("log_offset")))):
        found[row["offsets_partition"]].append(as_text({name: row[name] for name in row if name not in left_out}))
    return found


def _questions(given: list[str]) -> Iterator[Question]:
    tables, query = dict[str, pa.Table](), ""
    with duckdb.connect() as connection:
        connection.execute(MACROS)
        for statement in given:
            if insert := INSERT.fullmatch(statement):
                table, columns, values = insert.groups()
                found = connection.sql(f"FROM ({values}) AS given ({columns})").to_arrow_table()
                rows = rows_of(table, *found.to_pylist(maps_as_pydicts="strict"))
                tables[table] = pa.concat_tables([tables[table], rows]) if table in tables else rows
            elif statement.startswith("VALUES"):
                yield Question(dict(tables), query, connection.sql(statement).fetchall())
            elif statement.startswith("ERROR"):
                yield Question(dict(tables), query, [], statement[len("ERROR ") :])
            else:
                query = statement
