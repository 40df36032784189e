"""The API for programs and notebooks: a lake opened for reading, and an audit."""

from __future__ import annotations

import argparse
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import pyarrow as pa

from kgroups_spark.audit.options import STATE_LOGS, AuditOptions, parse_state_logs, silent
from kgroups_spark.cli.form import (
    WRITERS,
    byte_count_value,
    delivery_count_value,
    name_value,
    option_value,
    partition_count_value,
    partition_values,
    positive_duration_value,
    release_value,
    time_value,
)
from kgroups_spark.cli.open_lake import require_lake
from kgroups_spark.errors import KgroupsError, UsageError, require_pyspark
from kgroups_spark.report.figures import GROUP_NAMES, NAMES, group_query, query
from kgroups_spark.sources.files import require_bucket
from kgroups_spark.sql.by_duckdb import DuckDbReader, duckdb_reader
from kgroups_spark.sql.reader import LakeReader, Rows, parameters_in, python_rows
from kgroups_spark.sql.views import FUNCTIONS, VIEWS
from kgroups_spark.tables.schemas import TABLES, is_path
from kgroups_spark.words import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kgroups_spark.audit.result import AuditSummary
    from kgroups_spark.cluster.client_properties import ClientProperties
    from kgroups_spark.sql.by_spark import SparkReader

Answer = TypeVar("Answer")
Value = TypeVar("Value")

# The questions that Lake.ask answers.
QUESTIONS = (*NAMES, *GROUP_NAMES)


class Lake(ABC, Generic[Answer]):
    """The tables, views and functions of a lake, as its last finished audit left them when the lake was opened;
    `tables`, `views` and `functions` are their names."""

    tables = tuple(name for name, table in TABLES.items() if table.kind != "internal")
    views = tuple(VIEWS)
    functions = tuple(FUNCTIONS)

    def __init__(self, reader: LakeReader) -> None:
        self._reader = reader

    @abstractmethod
    def sql(self, query: str, **parameters: Any) -> Answer:
        """The answer to one query: a pyarrow.Table by DuckDB, a DataFrame by Spark.

        A parameter `group` is written in the query as `:group`. It is a str, int, bool, None, datetime with a zone, or
        a list of str. Raises UsageError for a parameter that the query lacks and for a datetime without a zone,
        KgroupsError for a query that the engine rejects.

            >>> lake.sql("SELECT state, member_count FROM groups WHERE group_id = :group", group=GROUP).to_pylist()
            [{'state': 'Stable', 'member_count': 2}]
        """

    def table(self, name: str) -> Answer:
        """All rows of a table or a view. Raises UsageError for any other name.

        >>> lake.table("committed_offsets").num_rows
        186
        """
        if name not in (*self.tables, *self.views):
            raise UsageError(f"the lake has no table or view {name}{did_you_mean(name, (*self.tables, *self.views))}")
        return self.sql(f"SELECT * FROM {name}")

    def rows(self, query: str, **parameters: Any) -> Rows:
        """The answer to one query as dicts: times as datetimes with a zone, structs and maps as dicts."""
        self._require(query, parameters)
        return python_rows(self._reader.arrow(query, parameters))

    def _require(self, query: str, parameters: Mapping[str, Any]) -> None:
        """Raises UsageError for a parameter that is not in the query, or a time without a zone."""
        known = parameters_in(query, self._reader.engine)
        for name, value in parameters.items():
            if name not in known:
                raise UsageError(f"parameter {name} is not in the query as :{name}{did_you_mean(name, known)}")
            _require_zone(name, value)

    def ask(self, question: str, **parameters: Any) -> Rows:
        """The answer to one of QUESTIONS, those of the report. Raises UsageError for any other question or parameter.

        `events`, `offsets`, `owners`, `rewound` and `states` are about one group, so they take `group_id`. `offsets`
        and `rewound` also take `since` and `until`.

            >>> lake.ask("states", group_id=GROUP)[-1]["state"]
            'Stable'
        """
        if question not in QUESTIONS:
            raise UsageError(f"no question {question}{did_you_mean(question, QUESTIONS)}")
        text = self._reader.translated((group_query if question in GROUP_NAMES else query)(question))
        needed = parameters_in(text, self._reader.engine)
        if missing := [name for name in needed if name not in parameters]:
            raise UsageError(f"question {question} needs {', '.join(missing)}")
        if unknown := [name for name in parameters if name not in needed]:
            takes = f"it takes {', '.join(needed)}" if needed else "it takes none"
            raise UsageError(f"question {question} has no parameter {unknown[0]}; {takes}")
        return self.rows(text, **parameters)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    @property
    def location(self) -> str:
        """The lake's location: a path, a URI, or `catalog.schema`."""
        return self._reader.location

    @property
    def last_audit(self) -> dict[str, Any]:
        """The row of `audits` of the last finished audit. Raises KgroupsError if there is none."""
        return self._reader.last_audit


class LakeByDuckDb(Lake[pa.Table]):
    """A lake in a folder or an object store, read without Spark."""

    _reader: DuckDbReader

    def sql(self, query: str, **parameters: Any) -> pa.Table:
        self._require(query, parameters)
        return self._reader.arrow(query, parameters)


class LakeBySpark(Lake["DataFrame"]):
    """A lake read in a Spark session. Tables, views and functions that a query needs become temporary views and
    functions of that session, in place of those of other lakes."""

    _reader: SparkReader

    def sql(self, query: str, **parameters: Any) -> DataFrame:
        self._require(query, parameters)
        return self._reader.frame(query, parameters)


def _place(location: str | os.PathLike[str]) -> str:
    """Raises UsageError for an empty text, which would be the present folder, and for S3 without a bucket."""
    place = os.fspath(location)
    if not place:
        raise UsageError("the location of the lake is empty")
    require_bucket(place)
    return place


@overload
def open_lake(location: str | os.PathLike[str]) -> LakeByDuckDb: ...
@overload
def open_lake(location: str | os.PathLike[str], spark: SparkSession) -> LakeBySpark: ...
def open_lake(location: str | os.PathLike[str], spark: SparkSession | None = None) -> LakeByDuckDb | LakeBySpark:
    """The lake, opened for reading: by DuckDB, or in a Spark session that has Delta (`spark_session()` returns one).

    `location` is a folder or the URI of one; with Spark, also `catalog.schema`. Days, and times without a zone, are in
    UTC by DuckDB, in the session's time zone by Spark. Raises UsageError if there is no lake, KgroupsError if DuckDB
    cannot read it.

        >>> lake = open_lake("./lake")
        >>> lake.last_audit["audit_id"]
        1
    """
    place = _place(location)
    if spark is None:
        require_lake(place if is_path(place) else f"./{place}")  # only Spark knows schemas
        reader = duckdb_reader(place, must=True)
        assert reader is not None
        return LakeByDuckDb(reader)
    from kgroups_spark.lake.lake import Lake as LakeTables
    from kgroups_spark.sql.by_spark import SparkReader

    return LakeBySpark(SparkReader(spark, LakeTables.open(spark, place)))


def run_audit(
    lake: str | os.PathLike[str],
    *,
    segments: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    records: str | os.PathLike[str] | None = None,
    bootstrap_servers: str | None = None,
    properties: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    engine: str = "spark",
    as_of: datetime | str | None = None,
    retention: timedelta | str | None = None,
    release_version: str | None = None,
    partitions: Iterable[int] | str | None = None,
    include: Iterable[str] | str = STATE_LOGS,
    offsets_partitions: int | None = None,
    share_delivery_count_limit: int | None = None,
    full: bool = False,
    accept_log_change: bool = False,
    delete_retention: timedelta | str | None = None,
    max_bytes_per_second: int | str | None = None,
    strict: bool = False,
    take_over: bool = False,
    progress: Callable[[str], None] = silent,
) -> AuditSummary:
    """Reads new records of the log into the lake's tables, as `kgroups audit` does.

    The log is that of the folders `segments`, of the archive `records`, or of the cluster at `bootstrap_servers` with
    Kafka's client `properties`. `spark` is a session that has Delta; None: the active one, else one on this machine.
    `engine` "local" needs no session: processes of this machine do the work, for a lake in a folder of it. The other
    arguments are the options of the command, whose help has their defaults. A time is a datetime with a zone, a
    duration a timedelta, `include` and `partitions` are lists, or each is text as on the command line. `progress` is
    called with a few words at each step. Returns the new row of the ledger (`.audit`), and lines for a person
    (`.lines()`).

    Raises UsageError for invalid arguments, KgroupsError for an audit that fails; then nothing that it wrote counts.
    With `strict` it also raises a KgroupsError, with those lines, if the command would exit 3; that audit counts.

        >>> summary = run_audit("./new-lake", segments="./segments", retention="14d")
        >>> summary.audit.audit_id
        1
    """
    folders = [segments] if isinstance(segments, str | os.PathLike) else list(segments)
    _require_one_source(
        [folders, records, bootstrap_servers],
        bootstrap_servers,
        properties=properties,
        max_bytes_per_second=max_bytes_per_second,
    )
    is_strict = _flag("strict", strict)
    options = AuditOptions(
        lake=_place(lake),
        segments=[os.fspath(folder) for folder in folders],
        records=None if records is None else os.fspath(records),
        client=_client(bootstrap_servers, properties) if bootstrap_servers else None,
        as_of=_optional("as_of", time_value, as_of),
        retention_ms=_optional("retention", positive_duration_value, retention),
        release_version=_optional("release_version", release_value, release_version),
        partitions=_optional("partitions", partition_values, partitions),
        include=_read("include", option_value(parse_state_logs), include),
        offsets_partitions=_optional("offsets_partitions", partition_count_value, offsets_partitions),
        share_delivery_count_limit=_optional(
            "share_delivery_count_limit", delivery_count_value, share_delivery_count_limit
        ),
        full=_flag("full", full),
        accept_log_change=_flag("accept_log_change", accept_log_change),
        delete_retention_ms=_optional("delete_retention", positive_duration_value, delete_retention),
        max_bytes_per_second=_optional("max_bytes_per_second", byte_count_value, max_bytes_per_second),
        take_over=_flag("take_over", take_over),
        progress=progress,
    )
    summary = _run(spark, _read("engine", name_value(WRITERS), engine), options)
    if is_strict and summary.lacks_records:
        raise KgroupsError("the audit counts, but some records could not be read or used:", *summary.lines())
    return summary


def _require_one_source(sources: Sequence[object], bootstrap_servers: str | None, **of_a_cluster: object) -> None:
    """Raises UsageError unless there is one source, and for an argument that only a cluster has."""
    if len([source for source in sources if source]) != 1:
        raise UsageError("an audit reads segments, records or the cluster at bootstrap_servers: give one of them")
    for name, value in of_a_cluster.items():
        if value is not None and not bootstrap_servers:
            raise UsageError(f"{name} needs a live cluster: give bootstrap_servers, too")


def _run(spark: SparkSession | None, engine: str, options: AuditOptions) -> AuditSummary:
    if engine == "local" and spark is not None:
        raise UsageError('engine "local" needs no session: give spark, or engine')
    from kgroups_spark.audit.run import run_audit as run
    from kgroups_spark.lake.local import Local

    if engine == "local":
        return run(Local(), options)
    require_pyspark()
    from kgroups_spark.sources.files import is_s3
    from kgroups_spark.spark.session import spark_session

    return run(spark or spark_session("kgroups audit", s3=is_s3(options.lake)), options)


def _client(bootstrap_servers: str, properties: Mapping[str, str] | None) -> ClientProperties:
    from kgroups_spark.cluster.client_properties import client_properties

    return client_properties(bootstrap_servers, properties or {})


def _read(name: str, read: Callable[[str], Value], given: object) -> Value:
    """The value of an argument, by the command line's rules. Raises UsageError, which names the argument."""
    _require_zone(name, given)
    try:
        return read(_as_typed(given))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{name}: {error}") from error


def _flag(name: str, given: object) -> bool:
    """Raises UsageError for any other value than True and False: a text such as "false" would be true."""
    if not isinstance(given, bool):
        raise UsageError(f"{name} is True or False, not {given!r}")
    return given


def _require_zone(name: str, given: object) -> None:
    if isinstance(given, datetime) and given.tzinfo is None:
        raise UsageError(f"{name}: {given} has no zone: give it one, as in tzinfo=UTC")


def _optional(name: str, read: Callable[[str], Value], given: object) -> Value | None:
    return None if given is None else _read(name, read, given)


def _as_typed(given: object) -> str:
    """The text of a value as a user would type it on a command line."""
    if isinstance(given, datetime):
        return given.isoformat()
    if isinstance(given, timedelta):
        return f"{given // timedelta(milliseconds=1)}ms"
    if isinstance(given, Iterable) and not isinstance(given, str):
        return ",".join(map(str, given)) or "none"
    return str(given)
