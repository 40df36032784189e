"""A lake that is open for reading: the interface for all commands that print rows. DuckDB reads a folder in a second,
Spark in ten one in a catalog, or that DuckDB's reader of Delta does not support. The rows are the same."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from kgroups_spark.coordinator.transaction_shard import Verdict
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.last_finished import IS_FINISHED
from kgroups_spark.tables.columns import Condition, partitions_in_lots
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import (
    counted,
    did_you_mean,
    first_of,
    format_duration,
    format_utc,
    named_partitions,
    quoted,
    shell_word,
    sized,
    to_datetime,
    to_epoch_ms,
)

Row = dict[str, Any]
Rows = list[Row]

# The number of rows of a large answer that are Python objects at once.
ROWS_AT_ONCE = 16_384


class SqlError(KgroupsError):
    """A query that the engine refused, with its message. `is_of_name`: it does not know a name in it."""

    def __init__(self, *lines: str, is_of_name: bool = False) -> None:
        super().__init__(*lines)
        self.is_of_name = is_of_name


NO_QUERY = (
    "this is not one query: only SELECT, WITH, VALUES, DESCRIBE, SHOW and EXPLAIN run, and nothing here changes a lake"
)


# In each dialect a text, a quoted name, a comment, a cast, or a parameter. Only a parameter has a capturing group.
# DuckDB's e'...' has escapes, and $$...$$ is a text, too.
_NO_TEXT = r"--[^\n]*|/\*.*?\*/|::|:([A-Za-z_]\w*)"
PARAMETER = {
    "duckdb": re.compile(
        rf"""\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\$.*?\$\$|{_NO_TEXT}""", re.DOTALL
    ),
    "spark": re.compile(rf"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|{_NO_TEXT}""", re.DOTALL),
}


def parameters_in(query: str, engine: Literal["duckdb", "spark"]) -> list[str]:
    """The names that are in the query as :name, each once."""
    return list(dict.fromkeys(filter(None, PARAMETER[engine].findall(query))))


class LakeReader(ABC):
    """The tables, views and functions as of the last finished audit, and its row of the ledger. By both engines rows
    are dicts: times as aware UTC datetimes, structs and maps as dicts, lists as lists, whole numbers as int."""

    engine: Literal["duckdb", "spark"]
    location: str

    @abstractmethod
    def table_rows(
        self, table: str, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = ()
    ) -> pa.Table:
        """These columns (None: all) of the rows of a table that meet all conditions, in no order. Files and row groups
        without such a row are not read."""

    def rows(self, table_or_view: str) -> Rows:
        """All rows of a small table or view, in no order."""
        if table_or_view in TABLES:
            return to_rows(self.table_rows(table_or_view))
        return self.sql(f"SELECT * FROM {table_or_view}")

    @property
    @abstractmethod
    def audit_id(self) -> int:
        """The number of the last finished audit; 0: none has."""

    @abstractmethod
    def arrow(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """A query's answer as Arrow, otherwise as `sql`. Raises SqlError, also if the text is not a query."""

    def batches(self, query: str, parameters: Mapping[str, Any] | None = None) -> Iterator[pa.RecordBatch]:
        """A query's answer batch by batch, for answers that are too large for Python objects; otherwise as `arrow`. The
        reader accepts no other query before the last batch."""
        yield from self.arrow(query, parameters).to_batches(max_chunksize=ROWS_AT_ONCE)

    def ask(self, query: str, parameters: Mapping[str, Any], *, times_as_text: bool = False) -> Iterator[Row]:
        """The rows of a query of ours, in DuckDB's dialect, some at a time."""
        for batch in self.batches(self.translated(query), parameters):
            yield from to_rows(pa.Table.from_batches([batch]), times_as_text=times_as_text)

    def translated(self, query: str) -> str:
        """A query in DuckDB's dialect, for this engine."""
        return query

    def sql(self, query: str, **parameters: Any) -> Rows:
        """A query's answer, over tables, views and functions, valid in both dialects. Parameters appear as :name; they
        are str, int, bool, None, datetime with a zone, or a list of str. Raises SqlError."""
        return to_rows(self.arrow(query, parameters))

    @cached_property
    def last_audit(self) -> dict[str, Any]:
        """The ledger's row of the last finished audit. Raises KgroupsError if there is none."""
        rows = self.ledger_rows([Condition("audit_id", "==", self.audit_id), IS_FINISHED])
        if not rows:
            raise KgroupsError(f"the lake at {self.location} has no finished audit: run kgroups audit first")
        return rows[0]

    def ledger_rows(self, conditions: Sequence[Condition], columns: Sequence[str] | None = None) -> Rows:
        """Rows of the ledger, by number: it may have very many, so callers ask for few rows or few columns."""
        return to_rows(self.table_rows("audits", columns, conditions).sort_by("audit_id"))

    def require_audit(self) -> None:
        """Raises KgroupsError, before anything is printed, if no audit has finished."""
        _ = self.last_audit

    @property
    def as_of_ms(self) -> int:
        """`as_of` of the last audit, at which it decided expiry, in epoch ms."""
        return to_epoch_ms(self.last_audit["as_of"])

    def known_as_of(self) -> str:
        """The audit of the rows and its as_of, for a heading."""
        audit = self.last_audit
        return f"audit {audit['audit_id']}, as of {format_utc(audit['as_of'])}"


def to_rows(table: pa.Table, *, times_as_text: bool = False) -> Rows:
    """The rows in order: times as UTC datetimes, or as text of `format_time`, which is cheaper here than either step
    later; structs and maps as dicts, whole numbers as int."""
    names = table.schema.names
    columns = (_values(column, times_as_text) for column in table.columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_rows(table: pa.Table) -> Rows:
    """The rows of any answer, as in `to_rows`. Raises KgroupsError for a value without a Python type: a time outside
    the years 1 to 9999, a map with lists as keys."""
    try:
        return to_rows(table)
    except (OverflowError, TypeError, ValueError, pa.ArrowException) as error:
        raise KgroupsError(
            "the answer has a value that cannot be shown, such as a time outside the years 1 to 9999; "
            "CAST(... AS VARCHAR) shows it"
        ) from error


def _values(column: pa.ChunkedArray, times_as_text: bool) -> list[Any]:
    """A column's values, as in `to_rows`. pyarrow converts them one by one, which takes several times as long."""
    if column.null_count == len(column):
        return [None] * len(column)
    if column.type == pa.timestamp("us", "UTC"):
        return _time_texts(column) if times_as_text else _times(column)
    if pa.types.is_string(column.type) or (pa.types.is_integer(column.type) and not column.null_count):
        return list(column.to_numpy().tolist())
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    if pa.types.is_interval(column.type):
        return [_without_months(value) for value in values]
    if pa.types.is_decimal(column.type) and column.type.scale == 0:  # DuckDB's sums of whole numbers
        return [None if value is None else int(value) for value in values]
    return values


def _without_months(value: pa.MonthDayNano | None) -> pa.MonthDayNano | timedelta | None:
    """DuckDB's interval as a timedelta, as Spark has it, if it is one. A difference of times is always one."""
    if value is None or value.months:
        return value
    return timedelta(days=value.days, microseconds=value.nanoseconds // 1000)


def _times(column: pa.ChunkedArray) -> list[datetime | None]:
    """The column's times as UTC datetimes. Raises pyarrow's error for a time outside the range of datetime."""
    times = column.to_numpy().tolist()
    if int in set(map(type, times)):
        return list(column.to_pylist())
    return [None if at is None else at.replace(tzinfo=UTC) for at in times]


def _time_texts(column: pa.ChunkedArray) -> list[str | None]:
    texts = np.datetime_as_string(column.to_numpy(), "ms", timezone="UTC").tolist()
    return [None if text == "NaT" else text for text in texts]


_NAMED_TOPICS = 5
_NAMED_PARTITIONS = 3


class TopicPartitions(NamedTuple):
    """A topic, and partitions of it; none: all of them."""

    topic: str
    partitions: tuple[int, ...]


class SqlCondition(NamedTuple):
    """A condition in SQL of both dialects, and its parameters."""

    sql: str
    parameters: dict[str, Any]


EVERYTHING = SqlCondition("true", {})


def all_of(*parts: SqlCondition) -> SqlCondition:
    """The condition for rows that meet all of these."""
    parameters = {name: value for part in parts for name, value in part.parameters.items()}
    return SqlCondition(" AND ".join(part.sql for part in parts), parameters)


def between(time: str, limits: Mapping[str, datetime]) -> SqlCondition:
    """The condition for rows whose time, a column, is from `since` and up to `until`; each may be missing."""
    compared = [f"{time} {'>=' if name == 'since' else '<='} :{name}" for name in limits]
    return SqlCondition(" AND ".join(compared), dict(limits)) if compared else EVERYTHING


def of_groups(groups: Iterable[str] | None) -> SqlCondition:
    """The condition for rows of these groups; None: all rows."""
    if groups is None:
        return EVERYTHING
    # One parameter for each name instead of a list, because only then the files' statistics are used.
    parameters = {f"group_{number}": group for number, group in enumerate(groups)}
    return SqlCondition(f"group_id IN ({', '.join(f':{name}' for name in parameters)})", parameters)


def of_topics(topics: Iterable[TopicPartitions]) -> SqlCondition:
    """The condition for rows of these topics' partitions; no topics: all rows."""
    parts, parameters = [], {}
    for number, (topic, partitions) in enumerate(topics):
        parameters[f"topic_{number}"] = topic
        only = f" AND partition IN ({', '.join(map(str, partitions))})" if partitions else ""
        parts.append(f"(topic = :topic_{number}{only})")
    return SqlCondition(f"({' OR '.join(parts)})", parameters) if parts else EVERYTHING


def require_known(reader: LakeReader, groups: Iterable[str]) -> None:
    """Raises KgroupsError, with the nearest names, for a group that none of the read records names."""
    wanted = list(groups)
    if not wanted:
        return
    chosen = of_groups(wanted)
    query = "SELECT group_id FROM {} WHERE {} GROUP BY group_id"
    tables = ("group_versions", "group_traffic")
    found = {
        row["group_id"] for table in tables for row in reader.sql(query.format(table, chosen.sql), **chosen.parameters)
    }
    for group in wanted:
        if group not in found:
            names = {row["group_id"] for table in tables for row in reader.sql(query.format(table, "true"))}
            others = f"; it has {counted(len(names), 'other')}, kgroups groups lists the current ones"
            nearest = did_you_mean(group, names, shell_word) or (others if names else "; it has none")
            raise KgroupsError(f"no group {quoted(group)} in the log ({reader.known_as_of()}){nearest}")


def _named_topics(names: Collection[str]) -> str:
    first = ", ".join(map(shell_word, sorted(names)[:_NAMED_TOPICS]))
    return f"; there are {first}{', ...' if len(names) > _NAMED_TOPICS else ''}" if names else ""


def of_known(reader: LakeReader, groups: list[str] | None, topics: list[TopicPartitions]) -> SqlCondition:
    """The condition for rows of these groups (None: all) and topics. Raises KgroupsError for unknown ones."""
    require_known(reader, groups or ())
    _require_known_topics(reader, topics, groups)
    return all_of(of_groups(groups), of_topics(topics))


def _require_known_topics(reader: LakeReader, topics: Iterable[TopicPartitions], groups: Iterable[str] | None) -> None:
    """Raises KgroupsError, with the nearest names or the existing partitions, for a topic or partition without an
    offset record or share partition of these groups (None: of any group)."""
    wanted = list(dict.fromkeys(topic for topic, _ in topics))
    if not wanted:
        return
    chosen = of_groups(groups)
    both = all_of(chosen, of_topics(TopicPartitions(topic, ()) for topic in wanted))
    query = (
        "SELECT DISTINCT {} FROM (SELECT group_id, topic, partition FROM offset_commits UNION ALL "
        "SELECT group_id, topic, partition FROM share_partitions) AS named WHERE {} AND topic IS NOT NULL"
    )
    found: dict[str, set[int]] = {}
    for row in reader.sql(query.format("topic, partition", both.sql), **both.parameters):
        found.setdefault(row["topic"], set()).add(row["partition"])
    where = f"in the offset records{'' if groups is None else ' of these groups'} ({reader.known_as_of()})"
    for topic in wanted:
        if topic not in found:
            names = {row["topic"] for row in reader.sql(query.format("topic", chosen.sql), **chosen.parameters)}
            nearest = did_you_mean(topic, names, shell_word) or _named_topics(names)
            raise KgroupsError(f"no topic {quoted(topic)} {where}{nearest}")
    for topic, partitions in topics:
        if missing := sorted(set(partitions) - found[topic]):
            there = f"found {named_partitions(sorted(found[topic]))}"
            raise KgroupsError(f"no partition {missing[0]} of topic {quoted(topic)} {where}; {there}")


def deleted_next(reader: LakeReader, groups: Iterable[str] | None) -> list[str]:
    """A sentence for each named group (None: none) that brokers delete, as it has no committed offsets."""
    if groups is None:
        return []
    chosen = of_groups(groups)
    query = f"""
        SELECT DISTINCT group_id
        FROM (SELECT * FROM group_expiry WHERE {chosen.sql} AND decision = 'delete') AS expiry
        LEFT JOIN (SELECT offsets_partition, group_id, topic FROM committed_offsets WHERE {chosen.sql}) AS committed
          USING (offsets_partition, group_id)
        WHERE topic IS NULL
        ORDER BY group_id"""
    return [
        f"Group {quoted(row['group_id'])} has no committed offsets: the brokers delete it at their next check."
        for row in reader.sql(query, **chosen.parameters)
    ]


def about_waiting(reader: LakeReader, groups: Iterable[str] | None) -> list[str]:
    """A sentence for each member of these groups (None: all) that waits for partitions, and for each holder."""
    chosen = of_groups(groups)
    query = f"""
        SELECT group_id, wanted_by, held_by, is_asked, revoking_since, out_by, min(since) AS since,
          array_sort(array_agg(coalesce(topic, topic_id) || '-' || partition)) AS partitions
        FROM (SELECT * FROM waiting_partitions WHERE {chosen.sql})
        GROUP BY group_id, wanted_by, held_by, is_asked, revoking_since, out_by
        ORDER BY group_id, since, wanted_by, held_by"""
    return [_waits(row, reader.as_of_ms) for row in reader.sql(query, **chosen.parameters)]


def _waits(row: Row, now_ms: int) -> str:
    partitions = first_of(row["partitions"], _NAMED_PARTITIONS)
    line = f"Group {quoted(row['group_id'])}: {row['wanted_by']} waits for {partitions}"
    if row["held_by"] is None:
        return f"{line}, held by no member: it gets them with its next heartbeat."
    if row["revoking_since"] is None:
        has_been = "has been" if row["is_asked"] else "has not been"
        return f"{line}, held by {row['held_by']}, which {has_been} asked to release it."
    revoking_ms = max(0, now_ms - to_epoch_ms(row["revoking_since"]))
    line += f", held by {row['held_by']}, revoking for {format_duration(revoking_ms)}"
    if row["out_by"] is None:
        return f"{line}."
    left = to_epoch_ms(row["out_by"]) - now_ms
    return f"{line}, out in {format_duration(left)}." if left > 0 else f"{line}, should have been out by now."


def with_what_is_held_back(reader: LakeReader, rows: list[Row]) -> list[Row]:
    """The rows with the log offsets from the first record of each transaction on, which the cleaner cannot reach, their
    estimated bytes, and the command that ends hanging ones."""
    read = (reader.last_audit or {}).get("partitions") or ()
    logs = {each["offsets_partition"]: each for each in read if each["topic"] is None}
    return [row | _held_back(row, logs[row["offsets_partition"]]) for row in rows]


def _held_back(transaction: Row, log: Row) -> Row:
    """`log`: the ledger's entry of the transaction's partition. Bytes are estimated by the average of the records that
    this audit read; null: it read none. Brokers from 3.0 on give Kafka's tool all other values (KIP-664)."""
    start = transaction["transaction_start_offset"]
    offsets = log["end_offset"] - start
    abort = f"{_tool('abort', transaction)} --start-offset {start}"
    return {
        "log_offsets_behind": offsets,
        "bytes_behind": int(log["bytes"] * offsets / log["records"]) if log["records"] else None,
        "abort_command": abort if transaction["is_hanging"] else None,
    }


def _tool(action: str, transaction: Row) -> str:
    where = f"--topic __consumer_offsets --partition {transaction['offsets_partition']}"
    return f"kafka-transactions.sh --bootstrap-server HOST:PORT {action} {where}"


def waiting_groups(rows: Iterable[Row]) -> list[str]:
    """A sentence with the groups that have offsets in open transactions; empty if there are none."""
    groups = Counter(row["group_id"] for row in rows if row["group_id"] is not None)
    if not groups:
        return []
    names = ", ".join(f"{group} ({counted(count, 'offset')})" for group, count in sorted(groups.items()))
    return [
        f"members of {names} wait for these offsets: a consumer that asks for stable ones gets "
        "UNSTABLE_OFFSET_COMMIT (Java consumers since 2.5 always ask so)"
    ]


def _producer(row: Row) -> str:
    name = "" if row["transactional_id"] is None else f" ({row['transactional_id']})"
    return f"producer {row['producer_id']}{name}"


def _hangs(row: Row) -> str:
    why = Verdict[row["verdict"].upper()]
    return f"hanging, {why.value}" if why.is_hanging else "likely hanging"


def about_hanging(rows: Iterable[Row]) -> list[str]:
    """For each hanging transaction: the size of the uncleaned log, how to check it, and the command that ends it."""
    lines: list[str] = []
    reported = set[tuple[int, int]]()
    for row in rows:
        producer = row["offsets_partition"], row["producer_id"]
        if not row["is_hanging"] or producer in reported:
            continue
        reported.add(producer)
        partition = f"__consumer_offsets-{row['offsets_partition']}"
        size = "" if row["bytes_behind"] is None else f", about {sized(row['bytes_behind'])},"
        behind = counted(row["log_offsets_behind"], "offset")
        find = f"  does its coordinator know it?   {_tool('find-hanging', row)}"
        known = [find] if row["verdict"] == "not_known" else []
        lines += [
            f"{_producer(row)} on {partition}, open for {format_duration(row['age_ms'])}: {_hangs(row)}; "
            f"the cleaner cannot pass {row['transaction_start_offset']}: {behind}{size} to the log's end",
            *known,
            f"  {'if not, ' if known else ''}this ends it:{'          ' if known else ''} {row['abort_command']}",
        ]
    return lines


# Groups now or as of a moment, a row for each offset, each member, or each group in each offsets partition. Queries
# are templates: FROM_NOW or FROM_THEN name the tables, `{chosen}` is the condition on groups.


What = Literal["offsets", "members", "state"]
DEAD = "Dead"
# The number of offsets or members of one query's answer, unless one offsets partition has more.
AT_ONCE = 100_000

FROM_NOW = {
    "groups": "groups",
    "members": "group_members",
    "committed": "committed_offsets",
    "offsets": "lag",
    "pending": "pending_offsets",
    "expiry": "offset_expiry",
    "topic_ends": "(SELECT * FROM topic_offsets WHERE audit_id = (SELECT max(audit_id) FROM topic_offsets))",
    "ends": "(SELECT 0 AS offsets_partition, 0 AS end_offset WHERE false)",
    "shares": "share_lag",
    "share_log": "(SELECT 'complete' AS known FROM share_partitions LIMIT 1)",
    "coordinators": "(SELECT CAST(name AS INTEGER) AS offsets_partition, value || ' (' || broker || ')' AS coordinator "
    "FROM cluster_facts WHERE kind = 'leader' AND audit_id = (SELECT max(audit_id) FROM cluster_facts))",
    "settings": "group_settings",
    "timeouts": "member_timeouts",
}
# Log ends, expiry and facts of the cluster are known for the present state only.
FROM_THEN = {
    "groups": "groups_as_of(:as_of)",
    "members": "group_members_as_of(:as_of)",
    "committed": "committed_offsets_as_of(:as_of)",
    "offsets": "(SELECT *, NULL AS log_end_offset, NULL AS lag, NULL AS records_lost, NULL AS will_reset "
    "FROM committed_offsets_as_of(:as_of))",
    "pending": "pending_offsets_as_of(:as_of)",
    "expiry": "(SELECT * FROM offset_expiry WHERE false)",
    "topic_ends": "(SELECT * FROM topic_offsets WHERE false)",
    "ends": "log_ends_as_of(:as_of)",
    "shares": "(SELECT *, NULL AS log_end_offset, NULL AS lag, NULL AS records_lost "
    "FROM share_partitions_as_of(:as_of))",
    "share_log": "(SELECT known FROM state_known_as_of(:as_of) WHERE log = '__share_group_state')",
    "coordinators": "(SELECT 0 AS offsets_partition, '' AS coordinator WHERE false)",
    "settings": "(SELECT * FROM group_settings WHERE false)",
    "timeouts": "(SELECT * FROM member_timeouts WHERE false)",
}

# Groups, and places of offsets without a group.
PLACES = """
WITH known AS (
  SELECT * FROM {groups} WHERE {chosen}
),
places AS (
  SELECT *, count(*) OVER (PARTITION BY group_id) > 1 AS is_split
  FROM (
    SELECT offsets_partition, group_id FROM known
    UNION
    SELECT offsets_partition, group_id FROM {committed} WHERE {chosen}
  )
)"""
# The wanted rows of each offsets partition with a group.
LOTS = """
SELECT offsets_partition, CAST(sum(one) AS BIGINT) AS rows
FROM (SELECT offsets_partition, 0 AS one FROM {groups} UNION ALL SELECT offsets_partition, 1 AS one FROM {counted})
GROUP BY offsets_partition"""
SPLIT = f"{PLACES} SELECT DISTINCT group_id FROM places WHERE is_split"
OFFSETS = (
    PLACES
    + """,
committed AS (
  SELECT offsets_partition, group_id, topic, partition, offsets.topic_id, offsets.leader_epoch,
    offsets.committed_offset, offsets.metadata, offsets.commit_timestamp, offsets.log_offset, offsets.log_end_offset,
    offsets.lag, offsets.records_lost, offsets.will_reset, expiry.expires_at
  FROM (SELECT * FROM {offsets} WHERE {chosen}) AS offsets
  LEFT JOIN (SELECT * FROM {expiry} WHERE {chosen}) AS expiry USING (offsets_partition, group_id, topic, partition)
),
-- Several members may own a partition: the last one that got it counts.
owners AS (
  SELECT *
  FROM (
    SELECT owners.offsets_partition, group_id, coalesce(topic, 'topic id ' || topic_id) AS topic, partition, topic_id,
      member_id, client_host, client_id,
      row_number() OVER (
        PARTITION BY owners.offsets_partition, group_id, topic, topic_id, partition ORDER BY log_offset DESC, member_id
      ) AS number
    FROM (SELECT * FROM partition_owners WHERE {chosen}) AS owners
    LEFT JOIN {ends} AS ends ON ends.offsets_partition = owners.offsets_partition
    WHERE coalesce(log_offset < end_offset, true)
      AND coalesce(released_log_offset >= end_offset, released_log_offset IS NULL)
  )
  WHERE number = 1
),
pending AS (
  SELECT offsets_partition, group_id, coalesce(topic, 'topic id ' || topic_id) AS topic, partition,
    array_sort(array_agg(committed_offset)) AS pending_offsets
  FROM {pending}
  WHERE {chosen}
  GROUP BY ALL
),
-- The partitions with a start offset, for share groups. The start offsets themselves are in another topic.
initialized AS {initialized},
share_log AS (
  SELECT max(known) AS share_known FROM {share_log}
),
found AS (
  SELECT offsets_partition, group_id, topic, coalesce(committed.topic_id, owners.topic_id) AS topic_id, partition,
    leader_epoch, committed_offset, metadata, commit_timestamp, log_offset,
    coalesce(committed.log_end_offset, CASE WHEN committed_offset IS NULL THEN topic_ends.log_end_offset END)
      AS log_end_offset,
    lag, records_lost, will_reset, member_id AS owner_member_id, client_host AS owner_client_host,
    client_id AS owner_client_id, expires_at, pending_offsets
  FROM committed
  FULL JOIN owners USING (offsets_partition, group_id, topic, partition)
  FULL JOIN pending USING (offsets_partition, group_id, topic, partition)
  FULL JOIN initialized USING (offsets_partition, group_id, topic, partition)
  LEFT JOIN {topic_ends} AS topic_ends USING (topic, partition)
),
-- If an audit has read it, a share group's offsets are those in __share_group_state.
stored AS (
  SELECT offsets_partition, group_id, coalesce(topic, 'topic id ' || topic_id) AS topic, topic_id, partition,
    CASE WHEN start_offset IS NOT NULL THEN leader_epoch END AS leader_epoch, start_offset AS committed_offset,
    NULL AS metadata, write_timestamp AS commit_timestamp, shares.log_offset, log_end_offset, lag, records_lost,
    NULL AS will_reset, NULL AS owner_member_id, NULL AS owner_client_host, NULL AS owner_client_id, NULL AS expires_at,
    NULL AS pending_offsets
  FROM known JOIN (SELECT * FROM {shares} WHERE {chosen_groups}) AS shares USING (group_id)
  WHERE group_type = 'share' AND init_state = 'initialized'
),
described AS (
  SELECT places.*, group_type, state, is_misplaced, CASE WHEN group_type = 'share' THEN share_known END AS share_known
  FROM places LEFT JOIN known USING (offsets_partition, group_id), share_log
)
SELECT described.*, offsets.* EXCLUDE (offsets_partition, group_id)
FROM described LEFT JOIN found AS offsets USING (offsets_partition, group_id)
WHERE share_known IS NULL
UNION ALL
SELECT described.*, offsets.* EXCLUDE (offsets_partition, group_id)
FROM described LEFT JOIN stored AS offsets USING (offsets_partition, group_id)
WHERE share_known IS NOT NULL
ORDER BY group_id, offsets_partition, topic, partition"""
)
INITIALIZED = """(
  SELECT offsets_partition, group_id, coalesce(of.topic_name, 'topic id ' || of.topic_id) AS topic,
    unnest(of.partitions) AS partition
  FROM (
    SELECT records.offsets_partition, group_id, unnest(initialized_topics) AS of,
      log_offset = max(log_offset) OVER (PARTITION BY records.offsets_partition, group_id) AS is_newest
    FROM (SELECT * FROM share_group_state_partition_metadata_records WHERE {chosen}) AS records
    LEFT JOIN {ends} AS ends ON ends.offsets_partition = records.offsets_partition
    WHERE coalesce(log_offset < end_offset, true)
  )
  WHERE is_newest
)"""
# Without a share group the records need not be read.
NOT_INITIALIZED = "(SELECT 0 AS offsets_partition, '' AS group_id, '' AS topic, 0 AS partition WHERE false)"
MEMBERS = (
    PLACES
    + """
SELECT places.*, group_type, state, is_misplaced, assignment_epoch,
  members.* EXCLUDE (offsets_partition, group_id, session_timeout_ms),
  coalesce(members.session_timeout_ms, timeouts.session_timeout_ms) AS session_timeout_ms, heartbeat_interval_ms
FROM places
LEFT JOIN known USING (offsets_partition, group_id)
LEFT JOIN (SELECT * FROM {members} WHERE {chosen}) AS members USING (offsets_partition, group_id)
LEFT JOIN (SELECT * FROM {timeouts} WHERE {chosen}) AS timeouts USING (offsets_partition, group_id, member_id)
ORDER BY group_id, offsets_partition, member_id"""
)
# KIP-848's coordinator chooses the assignor that most members request. If none requests one, it is the brokers' first.
STATE = (
    PLACES
    + """
SELECT places.*, known.* EXCLUDE (offsets_partition, group_id, member_count), coalesce(member_count, 0) AS member_count,
  CASE WHEN group_type = 'consumer' THEN server_assignor END AS server_assignor, assignors, coordinator,
  coalesce(offset_count, 0) AS offset_count, expires_at, coalesce(pending_count, 0) AS pending_count
FROM places
LEFT JOIN known USING (offsets_partition, group_id)
LEFT JOIN {coordinators} AS coordinators USING (offsets_partition)
LEFT JOIN (
  SELECT offsets_partition, group_id, value AS assignors
  FROM {settings} AS settings WHERE {chosen} AND name = 'consumer.assignors'
) USING (offsets_partition, group_id)
LEFT JOIN (
  SELECT offsets_partition, group_id, mode(server_assignor) AS server_assignor
  FROM {members} WHERE {chosen} GROUP BY ALL
) USING (offsets_partition, group_id)
LEFT JOIN (
  SELECT offsets_partition, group_id, count(*) AS offset_count FROM {committed} WHERE {chosen} GROUP BY ALL
) USING (offsets_partition, group_id)
LEFT JOIN (
  SELECT offsets_partition, group_id, min(expires_at) AS expires_at FROM {expiry} WHERE {chosen} GROUP BY ALL
) USING (offsets_partition, group_id)
LEFT JOIN (
  SELECT offsets_partition, group_id, count(*) AS pending_count FROM {pending} WHERE {chosen} GROUP BY ALL
) USING (offsets_partition, group_id)
ORDER BY group_id, offsets_partition"""
)
QUERIES: dict[What, str] = {"offsets": OFFSETS, "members": MEMBERS, "state": STATE}

# The newest removal of a group. Offsets that were removed one by one all still existed a millisecond before the first
# removal after the last commit; removals because of deleted topics do not count.
REMOVAL = """
WITH ends AS (
  SELECT * FROM {ends}
),
removed AS (
  SELECT offsets_partition, log_timestamp AS removed_at
  FROM group_versions LEFT JOIN ends USING (offsets_partition)
  WHERE {chosen} AND coalesce(log_offset < end_offset, true)
  ORDER BY log_timestamp DESC NULLS FIRST, log_offset DESC
  LIMIT 1
),
events AS (
  SELECT event, cause, log_offset, log_timestamp
  FROM all_events JOIN removed USING (offsets_partition) LEFT JOIN ends USING (offsets_partition)
  WHERE {chosen} AND event IN ('group_removed', 'offset_removed') AND coalesce(log_offset < end_offset, true)
),
commits AS (
  SELECT max(effective_log_offset) AS last
  FROM effective_commits JOIN removed USING (offsets_partition) LEFT JOIN ends USING (offsets_partition)
  WHERE {chosen} AND committed_offset IS NOT NULL AND coalesce(effective_log_offset < end_offset, true)
),
after AS (
  SELECT min_by(struct_pack(at := log_timestamp), log_offset) AS first
  FROM events, commits
  WHERE log_offset > last AND cause IS DISTINCT FROM 'topic_deleted'
),
members AS (
  SELECT max(log_timestamp) AS last
  FROM group_member_versions JOIN removed USING (offsets_partition) LEFT JOIN ends USING (offsets_partition)
  WHERE {chosen} AND is_removed AND coalesce(log_offset < end_offset, true)
)
SELECT
  removed.offsets_partition,
  removed.removed_at,
  (SELECT max_by(struct_pack(of := cause), log_offset) FROM events WHERE event = 'group_removed').of AS cause,
  CASE WHEN commits.last IS NOT NULL THEN
    CASE WHEN after.first IS NULL THEN removed.removed_at ELSE after.first.at END - INTERVAL 1 MILLISECOND
  END AS offsets_as_of,
  members.last - INTERVAL 1 MILLISECOND AS members_as_of
FROM removed, commits, after, members"""


@dataclass
class Described:
    """A group in one offsets partition; None: in none. `removal`: the row of REMOVAL of a group that does not exist any
    more, whose rows are its last ones; `members`: its last members."""

    group_id: str
    offsets_partition: int | None
    as_of: datetime
    rows: Rows
    group_type: str | None = None
    state: str = DEAD
    is_misplaced: bool | None = None
    is_split: bool = False
    share_known: str | None = None
    removal: Row | None = None
    members: Rows = field(default_factory=list)


class GroupReader(NamedTuple):
    """Reads groups of a lake as of a moment (None: the last audit)."""

    reader: LakeReader
    as_of: datetime | None
    what: What
    times_as_text: bool = False

    def groups(self, names: list[str] | None) -> Iterator[Described]:
        """The groups (None: all existing ones), sorted by name and partition. For all groups of a large lake they come
        some offsets partitions at a time. Raises KgroupsError for a name that no record has."""
        if names is None:
            lots = self._lots()
            split = {row["group_id"] for row in self._ask(SPLIT, EVERYTHING, self.as_of)} if len(lots) > 1 else set()
            for lot in lots:
                yield from self._described(lot, split)
            return
        found = list(self._described(of_groups(names)))
        gone = sorted(set(names) - {each.group_id for each in found})
        require_known(self.reader, gone)
        found += map(self._gone, gone)
        yield from sorted(found, key=lambda each: (each.group_id, each.offsets_partition or 0))

    def _described(self, chosen: SqlCondition, split: Collection[str] = ()) -> Iterator[Described]:
        """`split`: groups that are also in an offsets partition outside of the chosen ones."""
        as_of = self.as_of or to_datetime(self.reader.as_of_ms)
        for (group_id, number), its in groupby(self._ask(QUERIES[self.what], chosen, self.as_of), _PLACE):
            rows = list(its)
            first = rows[0]
            names = ("group_type", "is_misplaced", "share_known")
            facts: dict[str, Any] = {name: first.get(name) for name in names}
            facts["is_split"] = first["is_split"] or group_id in split
            rows = rows if first[_OF_A_ROW[self.what]] is not None else []
            yield Described(group_id, number, as_of, rows, state=first["state"] or DEAD, **facts)

    def _gone(self, name: str) -> Described:
        """A group that has neither a row in `groups` nor offsets."""
        chosen = of_groups([name])
        removal = next(iter([*self._ask(REMOVAL, chosen, self.as_of)]), None)
        now = self.as_of or to_datetime(self.reader.as_of_ms)
        if removal is None:
            return Described(name, None, now, [])
        last = Described(name, removal["offsets_partition"], removal["offsets_as_of"] or now, [], removal=removal)
        if removal["members_as_of"] is not None:
            last.members = self._last("members", chosen, removal["members_as_of"], last)
        if removal["offsets_as_of"] is not None:
            last.rows = self._last("offsets", chosen, removal["offsets_as_of"], last)
        return last

    def _last(self, what: What, chosen: SqlCondition, as_of: datetime, last: Described) -> Rows:
        return [
            row | {"group_type": None, "assignment_epoch": None}
            for row in self._ask(QUERIES[what], chosen, as_of)
            if row["offsets_partition"] == last.offsets_partition and row[_OF_A_ROW[what]] is not None
        ]

    def _ask(self, query: str, chosen: SqlCondition, as_of: datetime | None) -> Iterator[Row]:
        tables, parameters = (FROM_NOW, {}) if as_of is None else (FROM_THEN, {"as_of": as_of})
        by_group = chosen.sql if chosen.parameters else "true"  # __share_group_state has other partitions
        names = tables | {"chosen": chosen.sql, "chosen_groups": by_group}
        if query is OFFSETS:
            shares = self._ask("SELECT 1 FROM {groups} WHERE {chosen} AND group_type = 'share' LIMIT 1", chosen, as_of)
            names["initialized"] = INITIALIZED.format(**names) if [*shares] else NOT_INITIALIZED
        text = query.format(**names)
        as_text = self.times_as_text and query is OFFSETS
        return self.reader.ask(text, chosen.parameters | parameters, times_as_text=as_text)

    def _lots(self) -> list[SqlCondition]:
        """Conditions for some offsets partitions at a time."""
        if self.what == "state":
            return [EVERYTHING]
        query = LOTS.replace("{counted}", "{committed}" if self.what == "offsets" else "{members}")
        rows = {row["offsets_partition"]: row["rows"] for row in self._ask(query, EVERYTHING, self.as_of)}
        lots = [lot.value for lot in partitions_in_lots(rows, AT_ONCE)]
        if len(lots) < 2:
            return [EVERYTHING]
        return [SqlCondition(f"offsets_partition IN ({', '.join(map(str, lot))})", {}) for lot in lots]


_PLACE = itemgetter("group_id", "offsets_partition")
# A column that is null in the row of a group that has no rows.
_OF_A_ROW: dict[What, str] = {"offsets": "topic", "members": "member_id", "state": "group_id"}
