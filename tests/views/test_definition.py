"""Heads of SQL files: what they say of a view or function, and that it is true."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from kgroups_spark.sql.views import FUNCTIONS, VIEWS, Column, columns_of, definition, described, needed_for, parsed
from kgroups_spark.tables.columns import comment_of, type_name
from kgroups_spark.tables.schemas import TABLES
from tests.logs.in_words import cases
from tests.views.arrow_tables import in_duckdb
from tests.views.fixtures import IN_WORDS, MACROS, NAMES, number_of_questions, questions, rows_by_case

SCALAR = ("java_hash", "offsets_partition_of", "offsets_partition_count", "known_as_of")
TABLE_FUNCTIONS = [name for name in FUNCTIONS if name not in SCALAR]


@pytest.fixture(scope="module")
def views():
    return in_duckdb({})


@pytest.mark.parametrize("name", VIEWS)
def test_a_head_names_the_columns_of_the_view_in_their_order(views, name):
    assert list(definition(name).columns) == views.sql(f"SELECT * FROM {name}").columns
    assert all(column.comment for column in definition(name).columns.values())


@pytest.mark.parametrize("name", TABLE_FUNCTIONS)
def test_a_head_names_the_columns_of_the_function_with_their_types(views, name):
    answer = views.sql(f"SELECT * FROM {name}(NULL)").to_arrow_table().schema
    assert {column: reported.type for column, reported in definition(name).columns.items()} == {
        field.name: type_name(field.type) for field in answer
    }


def test_a_column_taken_from_a_table_has_the_tables_comment():
    reported = {field.name: comment_of(field) for field in TABLES["committed_offsets"].columns}
    assert list(reported.items()) == [
        (name, comment) for name, comment in described("lag").columns.items() if name in reported
    ]


HEAD = """-- What it is: a test.
--
-- argument ts TIMESTAMP: the moment
-- argument retention INTERVAL DAY TO SECOND = NULL: how long; null: as it was
-- columns of groups but state
-- group_id: the group: a name
-- topic of committed_offsets
-- known STRING: what is known

-- A reason.
SELECT 1
"""


def test_a_head_is_read():
    groups = {"group_id": Column("Group", "STRING"), "state": Column("State", "STRING"), "at": Column("When", "INT")}
    tables = {"groups": groups, "committed_offsets": {"topic": Column("Topic", "STRING")}}
    found = parsed(HEAD, tables.__getitem__, is_function=True)
    assert found.comment == "What it is: a test."
    assert found.query == "-- A reason.\nSELECT 1"
    assert found.arguments == {
        "ts": Column("the moment", "TIMESTAMP"),
        "retention": Column("how long; null: as it was", "INTERVAL DAY TO SECOND", "NULL"),
    }
    assert list(found.columns.items()) == [
        ("group_id", Column("the group: a name", "STRING")),
        ("at", Column("When", "INT")),
        ("topic", Column("Topic", "STRING")),
        ("known", Column("what is known", "STRING")),
    ]


@pytest.mark.parametrize("line", ["-- columns groups", "-- nothing"])
def test_a_line_that_says_nothing_is_refused(line):
    with pytest.raises(ValueError, match="no line of a definition"):
        parsed(f"-- What it is.\n--\n{line}\n\nSELECT 1\n", columns_of, is_function=False)


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(KeyError, match="nosuch"):
        parsed("-- What it is.\n--\n-- nosuch of groups\n\nSELECT 1\n", columns_of, is_function=False)


def test_duckdb_views_do_not_import_sqlglot():
    """Its import is a fifth of what a command costs."""
    asked = "import sys; from kgroups_spark.sql.views import *; "
    asked += "[view_sql(name, 'duckdb') for name in (*VIEWS, *FUNCTIONS)]"
    code = f"{asked}; import kgroups_spark.sql.by_duckdb; assert 'sqlglot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


# Views over the rows of a file NAME.sql.


@pytest.mark.parametrize(("name", "number"), [(name, n) for name in NAMES for n in range(number_of_questions(name))])
def test_a_query_has_the_rows_that_follow_it(name, number):
    question = questions(name)[number]
    with in_duckdb(question.tables) as connection:
        connection.execute(MACROS)
        if question.error:
            with pytest.raises(duckdb.Error, match=question.error):
                connection.sql(question.query).fetchall()
            return
        assert sorted(map(repr, connection.sql(question.query).fetchall())) == sorted(map(repr, question.rows))


@pytest.mark.parametrize(
    ("view", "number"),
    [
        pytest.param(view, n, id=f"{view}-{case.title}")
        for view in IN_WORDS
        for n, case in enumerate(cases(IN_WORDS[view]))
    ],
)
def test_a_view_has_the_rows_of_a_case(view, number, pytestconfig):
    cases(IN_WORDS[view])[number].check(rows_by_case(view)[number], pytestconfig)


# The tables, views and functions of a lake that a query needs.


def test_functions_in_an_arguments_default_are_needed_too():
    functions = ["java_hash", "offsets_partition_count", "offsets_partition_of"]
    assert [
        name for name in needed_for("SELECT offsets_partition_of(group_id) FROM groups") if name in functions
    ] == functions
