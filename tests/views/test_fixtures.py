"""Views over the rows of a file NAME.sql."""

from __future__ import annotations

import pytest

from tests.views.arrow_tables import in_duckdb
from tests.views.fixtures import NAMES, Question, questions


@pytest.mark.parametrize("question", [pytest.param(each, id=name) for name in NAMES for each in questions(name)])
def test_a_query_has_the_rows_that_follow_it(question: Question) -> None:
    with in_duckdb(question.tables) as connection:
        assert sorted(map(repr, connection.sql(question.query).fetchall())) == sorted(map(repr, question.rows))
