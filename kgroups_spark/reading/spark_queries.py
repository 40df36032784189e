"""One query by Spark, over a lake's temporary views. It is the user's own session: what the query may read is for Spark
to decide, but it must be a query, and a path is not a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgroups_spark.reading.reader import NO_QUERY, SqlError
from kgroups_spark.views.needed import needed_for

# Settings while a query is checked and runs: a path is not a table, and ${env:HOME} in a text stays text.
SETTINGS = {
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    # Spark 4.2 binds parameters while it parses, and Delta's parser (4.4) does not pass their values on, so Spark
    # reports all of them as unbound. With this setting they are bound after the parser, as in earlier releases.
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    # In the SQL of our views and functions a TIMESTAMP has a zone. A view keeps the settings with which it was made.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
# Statements, all commands to Spark, that only show something.
SHOWING = {"ShowTables", "ShowViews", "ShowColumns", "ShowFunctions", "DescribeRelation", "DescribeColumn"}
SHOWING |= {"DescribeFunction", "ExplainCommand", "DescribeQueryCommand"}
COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"


class SparkQueries:
    """Runs queries in one session, in which the lake's tables, views and functions are temporary."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Within the block, the session has SETTINGS, for checking and running a text; then the old values return."""
        before = {name: self._spark.conf.get(name, None) for name in SETTINGS}
        for name, value in SETTINGS.items():
            self._spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                self._spark.conf.unset(name) if old is None else self._spark.conf.set(name, old)

    def names(self, text: str) -> list[str]:
        """The lake's tables, views and functions that the text may need. Raises SqlError unless it is a query."""
        jvm: Any = self._spark._jvm
        plan = self._spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        for node in _with_inner(plan):
            kind = node.getClass().getSimpleName()
            is_command = jvm.py4j.reflection.TypeUtil.isInstanceOf(COMMAND, node) or kind.startswith("Insert")
            if is_command and kind not in SHOWING:
                raise SqlError(f"{NO_QUERY} ({kind} is refused)")
        return list(needed_for(text))

    def frame(self, text: str, parameters: Mapping[str, Any]) -> DataFrame:
        """The text's answer. Its `names` must have been checked, and exist. Raises PySparkException."""
        return self._spark.sql(text, args={name: _argument(value) for name, value in parameters.items()})


def _argument(value: object) -> object:
    """A parameter for Spark, which finds no type for the elements of an empty list."""
    return F.array() if value == [] else value


def _with_inner(plan: Any) -> Iterator[Any]:
    """A parsed plan and the plans in it."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _with_inner(children.apply(index))
