"""The queries that Spark may run: queries over one lake's tables, views and functions, and nothing else.

A text is checked against lists of what is allowed. It is checked twice, because Spark's analysis itself runs things
(EXECUTE IMMEDIATE runs its text), but only the analysis resolves names:

1. Before the analysis every node of the parsed plan must be of a kind listed here, every table a table or view of the
   lake or a name that WITH introduces, every function one of the lake's or one that is in spark_functions.py.
2. After the analysis, and before anything runs, every node must be of a kind listed here, and every relation must have
   become a view of the lake. The allowed expressions are those that Spark's own functions become.

Functions that a later Spark adds are refused until they are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgroups_spark.nearest import did_you_mean
from kgroups_spark.reading.reader import NAMES_ARE_LISTED, NO_QUERY, SqlError
from kgroups_spark.reading.spark_functions import FUNCTIONS_OF_SPARK, TABLE_FUNCTIONS_OF_SPARK
from kgroups_spark.reading.spark_plan import Plans, elements, strings
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.views import FUNCTIONS, VIEWS

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

_CATALYST = "org.apache.spark.sql.catalyst."
_LOGICAL, _ANALYSIS, _EXPRESSIONS = (
    f"{_CATALYST}{package}." for package in ("plans.logical", "analysis", "expressions")
)
_TABLES_AND_VIEWS = frozenset((*TABLES, *VIEWS))


def _named(prefix: str, names: str) -> frozenset[str]:
    return frozenset(f"{prefix}{name}" for name in names.split())


# Statements that only show something. A table or function in one must be the lake's.
_SHOWING = _named(
    _LOGICAL,
    "ShowTables ShowViews ShowColumns ShowFunctions DescribeRelation DescribeColumn DescribeFunction",
)
# Statements around a query.
_AROUND_A_QUERY = _named("org.apache.spark.sql.execution.command.", "ExplainCommand DescribeQueryCommand")

_RELATIONAL = _named(
    _LOGICAL,
    """Aggregate CTERelationDef CTERelationRef Deduplicate Distinct Except Expand Filter Generate GlobalLimit Intersect
    Join LateralJoin LocalLimit LocalRelation Offset OneRowRelation$ OneRowRelation Pivot Project Range Repartition
    RepartitionByExpression ResolvedHint Sample Sort SubqueryAlias Tail Union UnionLoop UnionLoopRef Unpivot
    UnresolvedHint UnresolvedWith View Window WithCTE WithWindowDefinition""",
)

_UNRESOLVED = _named(
    _ANALYSIS,
    """CurrentNamespace$ MultiAlias NamedParameter ResolvedInlineTable UnresolvedAlias UnresolvedAttribute
    UnresolvedExtractValue UnresolvedFunction UnresolvedFunctionName UnresolvedGenerator UnresolvedHaving
    UnresolvedInlineTable UnresolvedOrdinal UnresolvedQualify UnresolvedRegex UnresolvedRelation UnresolvedStar
    UnresolvedStarExceptOrReplace UnresolvedStarWithColumns UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
    UnresolvedTableOrView UnresolvedTableValuedFunction""",
)

# The parser's nodes for operators and its own syntax. Functions called by name are UnresolvedFunction.
_SYNTAX = _named(
    _EXPRESSIONS,
    """Add Alias And AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Coalesce Collate Concat
    CreateNamedStruct Cube CurrentDate CurrentRow$ CurrentTime CurrentTimestamp CurrentUser Divide EqualNullSafe EqualTo
    Exists ExtractANSIIntervalDays GreaterThan GreaterThanOrEqual GroupingSets ILike In InSubquery IntegralDivide
    IsNotNull IsNull IsUnknown IsNotUnknown LambdaFunction LateralSubquery LessThan LessThanOrEqual Like LikeAll LikeAny
    ListQuery Literal MultiAlias Multiply NamedArgumentExpression Not NotLikeAll NotLikeAny Or OuterReference Overlay
    PipeExpression PipeOperator RLike Remainder Rollup ScalarSubquery SemiStructuredExtract ShiftLeft ShiftRight
    ShiftRightUnsigned SortOrder SpecifiedWindowFrame StringLocate StringTrim StringTrimBoth StringTrimLeft
    StringTrimRight Substring Subtract TimestampAdd TimestampDiff TryCast UnaryMinus UnaryPositive UnboundedFollowing$
    UnboundedPreceding$ UnresolvedCollation UnresolvedNamedLambdaVariable UnresolvedWindowExpression UnspecifiedFrame$
    WindowExpression WindowSpecDefinition aggregate.AggregateExpression aggregate.AnyValue aggregate.Count
    aggregate.First aggregate.Last""",
)

# Spark's own expressions after the analysis that are refused: they call foreign code, name files, or read variables of
# the session.
_NOT_OF_SPARK = _named(
    _EXPRESSIONS,
    """ApplyFunctionExpression CallMethodViaReflection InputFileBlockLength InputFileBlockStart InputFileName PythonUDAF
    PythonUDF PythonUDTF ScalaUDF TryReflect UserDefinedExpression VariableReference""",
)
_LAKE_VIEW = f"{_LOGICAL}View"
# Nodes that are entered, because they contain the arguments.
_LAKE_FUNCTIONS = _named(_ANALYSIS, "SQLFunctionNode SQLScalarFunction")

_PARSED = _SHOWING | _AROUND_A_QUERY | _RELATIONAL | _UNRESOLVED | _SYNTAX
_LEAVES = _named(_EXPRESSIONS, "AttributeReference Literal")
_RELATIONS = _named(_ANALYSIS, "UnresolvedRelation UnresolvedTableOrView")
# For each node of a function call: its name, and the allowed functions of Spark.
_FUNCTION_CALLS: dict[str, tuple[Callable[[JavaObject], str], frozenset[str]]] = {
    f"{_ANALYSIS}UnresolvedFunction": (lambda node: _dotted(node.nameParts()), FUNCTIONS_OF_SPARK),
    f"{_ANALYSIS}UnresolvedFunctionName": (lambda node: _dotted(node.multipartIdentifier()), FUNCTIONS_OF_SPARK),
    f"{_ANALYSIS}UnresolvedTableValuedFunction": (lambda node: _dotted(node.name()), TABLE_FUNCTIONS_OF_SPARK),
    f"{_ANALYSIS}UnresolvedGenerator": (lambda node: str(node.name().unquotedString()), TABLE_FUNCTIONS_OF_SPARK),
}

# Statements that also list the catalog's current schema: the column of names, and the names to show.
_OF_EVERYTHING: dict[str, tuple[str, frozenset[str]]] = {
    f"{_LOGICAL}ShowTables": ("tableName", _TABLES_AND_VIEWS),
    f"{_LOGICAL}ShowViews": ("viewName", _TABLES_AND_VIEWS),
    f"{_LOGICAL}ShowFunctions": ("function", FUNCTIONS_OF_SPARK | TABLE_FUNCTIONS_OF_SPARK | frozenset(FUNCTIONS)),
}


class SparkQueries:
    """Checks and runs texts in one session, in which the lake's tables, views and functions are temporary."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._plans = Plans(spark._jvm)
        self._state = spark._jsparkSession.sessionState()

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

    def names(self, text: str) -> set[str]:
        """The lake's tables, views and functions in the text. Raises SqlError unless the text is one query over these
        alone; ParseException."""
        parsed = self._state.sqlParser().parsePlan(text)
        nodes = list(self._plans.nodes(parsed, lambda name, _: name in _LEAVES))
        for name, node in nodes:
            if name not in _PARSED or (name in _SHOWING | _AROUND_A_QUERY and node is not nodes[0][1]):
                raise _refused(name)
        with_names = {name for kind, node in nodes for name in _introduced(kind, node)}
        found = {name for kind, node in nodes for name in _asked_for(kind, node, with_names)}
        return {*TABLES, *VIEWS, *FUNCTIONS} if nodes[0][0] in _OF_EVERYTHING else found

    def frame(self, text: str, parameters: Mapping[str, Any]) -> DataFrame:
        """The text's answer. Its `names` must have been checked, and exist. Raises SqlError, PySparkException."""
        parsed = self._state.sqlParser().parsePlan(text)
        kind = parsed.getClass().getName()
        if kind in _AROUND_A_QUERY:
            # Spark runs it at once.
            self._require_of_lake(self._analysed(parsed))
        frame = self._spark.sql(text, args={name: _argument(value) for name, value in parameters.items()})
        if kind in _OF_EVERYTHING:
            column, names = _OF_EVERYTHING[kind]
            is_ours = frame[column].isin(*sorted(names))
            return frame.filter(is_ours & frame["isTemporary"] if "isTemporary" in frame.columns else is_ours)
        if kind not in _SHOWING | _AROUND_A_QUERY:
            self._require_of_lake(frame._jdf.queryExecution().analyzed())
        return frame

    def _analysed(self, statement: JavaObject) -> JavaObject:
        """The analysed query inside a statement."""
        skip = getattr(self._spark._jvm, "org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
        [query] = [inner for inner in elements(statement) if self._plans.is_plan(inner)]
        return self._state.executePlan(query, skip).analyzed()

    def _require_of_lake(self, analysed: JavaObject) -> None:
        """Raises SqlError for a plan that reads anything but the lake's views."""
        for name, node in self._plans.nodes(analysed, lambda kind, _: kind == _LAKE_VIEW or kind in _LEAVES):
            if name == _LAKE_VIEW:
                is_known = _is_view_of_lake(node)
            elif name in _LAKE_FUNCTIONS:
                is_known = node.function().name().unquotedString().lower() in FUNCTIONS
            else:
                is_known = name in _RELATIONAL or (name.startswith(_EXPRESSIONS) and name not in _NOT_OF_SPARK)
            if not is_known:
                raise _refused(name)


def _argument(value: object) -> object:
    """A parameter for Spark, which finds no type for the elements of an empty list."""
    return F.array() if value == [] else value


def _introduced(kind: str, node: JavaObject) -> Iterator[str]:
    """Names that a WITH gives to queries."""
    if kind == f"{_LOGICAL}UnresolvedWith":
        relations = node.cteRelations()
        for index in range(relations.size()):
            yield str(relations.apply(index).productElement(0)).lower()


def _asked_for(kind: str, node: JavaObject, with_names: Collection[str]) -> Iterator[str]:
    """The lake's names in a node of a parsed plan. Raises SqlError for a name that is neither the lake's nor one of
    Spark's allowed functions."""
    if kind in _RELATIONS:
        yield from _table_or_view(strings(node.multipartIdentifier()), with_names)
        if kind == f"{_ANALYSIS}UnresolvedRelation" and not (node.options().isEmpty() and not node.isStreaming()):
            raise _refused("options of a table")
    elif kind in _FUNCTION_CALLS:
        name_of, known = _FUNCTION_CALLS[kind]
        name = name_of(node).lower()
        if name in FUNCTIONS:
            yield name
        elif name not in known:
            near = did_you_mean(name, {*known, *FUNCTIONS})
            raise SqlError(f"no query here may call the function {name}{near}", NAMES_ARE_LISTED)


def _dotted(parts: JavaObject) -> str:
    return ".".join(strings(parts))


def _table_or_view(parts: list[str], with_names: Collection[str]) -> Iterator[str]:
    name = ".".join(parts).lower()
    if len(parts) == 1 and name in _TABLES_AND_VIEWS:
        yield name
    elif len(parts) != 1 or name not in with_names:
        near = did_you_mean(name, _TABLES_AND_VIEWS)
        raise SqlError(f"the lake has no table or view {'.'.join(parts)}{near}", NAMES_ARE_LISTED)


def _is_view_of_lake(view: JavaObject) -> bool:
    """Whether it is one of the temporary views for the lake's tables and views; we define their content."""
    return bool(view.isTempView()) and view.desc().identifier().unquotedString().lower() in _TABLES_AND_VIEWS


def _refused(what: str) -> SqlError:
    return SqlError(f"{NO_QUERY} ({what.rpartition('.')[2].rstrip('$')} is refused)")
