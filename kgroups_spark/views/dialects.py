"""The statements of DuckDB and Spark that create a view or a function, with its comments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgroups_spark.views.definition import Column, Columns, Definition

NULL = "NULL"


def literal(text: str) -> str:
    """A text as a literal in SQL. It must have no backslash, which Spark would take for an escape; none of ours has."""
    return "'" + text.replace("'", "''") + "'"


def signature(definition: Definition) -> str:
    """A function's arguments, as SQL of DuckDB."""
    arguments = (definition.arguments or {}).items()
    return ", ".join(f"{name} := NULL" if argument.default == NULL else name for name, argument in arguments)


def _rows(columns: Columns, query: str) -> str:
    """The query of a view or table function, with the columns of its head alone, in their order."""
    names = ", ".join(f'"{name}"' for name in columns)
    return f"SELECT {names}\nFROM (\n{query}\n)"


def duckdb_statement(name: str, definition: Definition) -> str:
    """The statement that creates the view or function in DuckDB, without its comments."""
    if definition.arguments is None:
        return f"CREATE OR REPLACE VIEW {name} AS\n{_rows(definition.columns, definition.query)};"
    head = f"CREATE OR REPLACE MACRO {name}"
    if definition.returns is None:
        return f"{head}({signature(definition)}) AS TABLE\n{_rows(definition.columns, definition.query)};"
    forms = ",\n".join(f"({signature(form)}) AS (\n{form.query}\n)" for form in _forms(definition))
    return f"{head}\n{forms};"


def duckdb_comments(name: str, definition: Definition) -> str:
    """The statements that comment the view or function in DuckDB, and the view's columns."""
    comment = literal(comment_of(definition))
    if definition.arguments is not None:
        kind = "MACRO TABLE" if definition.returns is None else "MACRO"
        return f"COMMENT ON {kind} {name} IS {comment};"
    of_columns = (
        f'COMMENT ON COLUMN {name}."{column}" IS {literal(reported.comment)};'
        for column, reported in definition.columns.items()
    )
    return "\n".join((f"COMMENT ON VIEW {name} IS {comment};", *of_columns))


def _forms(definition: Definition) -> Iterator[Definition]:
    """The macro with all arguments, and the macro without the last one if that has a default. If the first form had the
    default, DuckDB 2.0 would take columns of the default's tables for the arguments."""
    yield definition
    arguments = dict(definition.arguments or {})
    if arguments:
        name, argument = arguments.popitem()
        if argument.default is not None:
            yield definition._replace(arguments=arguments, query=_put(argument.default, name, definition.query))


def _put(expression: str, name: str, query: str) -> str:
    """The query with the expression in place of each occurrence of the name."""
    return re.sub(rf"\b{name}\b", expression, query)


def comment_of(definition: Definition) -> str:
    """The comment, with those of the arguments, because DuckDB has no comments on a macro's arguments."""
    arguments = (definition.arguments or {}).items()
    return definition.comment + "".join(f". {name}: {argument.comment}" for name, argument in arguments)


def spark_statement(name: str, definition: Definition) -> str:
    """The statement that creates the view or function in a session of Spark 4."""
    # Imported here, because it imports sqlglot, which DuckDB does not need.
    from kgroups_spark.views.spark_sql import spark_sql

    reported, query = f"COMMENT {literal(definition.comment)}", _with_defaults(definition)
    query = spark_sql(_rows(definition.columns, query) if definition.returns is None else query)
    if definition.arguments is None:
        # A view's columns have the types of its query.
        columns = {column: its._replace(type=None) for column, its in definition.columns.items()}
        return f"CREATE OR REPLACE TEMPORARY VIEW {name} {_spark_columns(columns)}\n{reported}\nAS\n{query}"
    head = f"CREATE OR REPLACE TEMPORARY FUNCTION {name}{_spark_columns(definition.arguments)}"
    if definition.returns is not None:
        return f"{head}\nRETURNS {definition.returns}\n{reported}\nRETURN (\n{query}\n)"
    return f"{head}\nRETURNS TABLE {_spark_columns(definition.columns)}\n{reported}\nRETURN\n{query}"


def _with_defaults(definition: Definition) -> str:
    """The query with the defaults of omitted arguments: in Spark a default has to be a constant, so it is null."""
    query = definition.query
    for name, argument in (definition.arguments or {}).items():
        if argument.default not in (None, NULL):
            query = _put(f"coalesce({name}, {argument.default})", name, query)
    return query


def _spark_columns(columns: Columns) -> str:
    return "(\n" + ",\n".join(_spark_column(name, column) for name, column in columns.items()) + "\n)"


def _spark_column(name: str, column: Column) -> str:
    words = [f"  `{name}`", column.type, "DEFAULT NULL" if column.default else None]
    return " ".join((*filter(None, words), "COMMENT", literal(column.comment)))
