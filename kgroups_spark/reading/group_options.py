"""The groups, topics and conditions that `--group`, `--all-groups` and `--topic` select."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from kgroups_spark.counts import counted
from kgroups_spark.errors import KgroupsError
from kgroups_spark.escapes import quoted, typed_word
from kgroups_spark.nearest import did_you_mean
from kgroups_spark.number_ranges import named_partitions
from kgroups_spark.reading.reader import LakeReader

_NAMED_TOPICS = 5


class TopicPartitions(NamedTuple):
    """A topic, and partitions of it; none: all of them."""

    topic: str
    partitions: tuple[int, ...]


class SqlCondition(NamedTuple):
    """A condition in SQL of both dialects, and its parameters."""

    sql: str
    parameters: dict[str, Any]


EVERYTHING = SqlCondition("true", {})


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
            nearest = did_you_mean(group, names, typed_word) or _other_groups(len(names))
            raise KgroupsError(f"no group {quoted(group)} in the log ({reader.known_as_of()}){nearest}")


def _other_groups(count: int) -> str:
    return f"; it has {counted(count, 'other')}, kgroups groups lists the current ones" if count else "; it has none"


def _named_topics(names: Collection[str]) -> str:
    first = ", ".join(map(typed_word, sorted(names)[:_NAMED_TOPICS]))
    return f"; there are {first}{', ...' if len(names) > _NAMED_TOPICS else ''}" if names else ""


def require_known_topics(reader: LakeReader, topics: Iterable[TopicPartitions], groups: Iterable[str] | None) -> None:
    """Raises KgroupsError, with the nearest names or the existing partitions, for a topic or partition without an
    offset record or share partition of these groups (None: of any group)."""
    wanted = list(dict.fromkeys(topic for topic, _ in topics))
    if not wanted:
        return
    chosen, asked = of_groups(groups), of_topics(TopicPartitions(topic, ()) for topic in wanted)
    query = (
        "SELECT DISTINCT {} FROM (SELECT group_id, topic, partition FROM offset_commits UNION ALL "
        "SELECT group_id, topic, partition FROM share_partitions) AS named WHERE {} AND topic IS NOT NULL"
    )
    parameters = chosen.parameters | asked.parameters
    found: dict[str, set[int]] = {}
    for row in reader.sql(query.format("topic, partition", f"{chosen.sql} AND {asked.sql}"), **parameters):
        found.setdefault(row["topic"], set()).add(row["partition"])
    where = f"in the offset records{'' if groups is None else ' of these groups'} ({reader.known_as_of()})"
    for topic in wanted:
        if topic not in found:
            names = {row["topic"] for row in reader.sql(query.format("topic", chosen.sql), **chosen.parameters)}
            nearest = did_you_mean(topic, names, typed_word) or _named_topics(names)
            raise KgroupsError(f"no topic {quoted(topic)} {where}{nearest}")
    for topic, partitions in topics:
        if missing := sorted(set(partitions) - found[topic]):
            there = f"found {named_partitions(sorted(found[topic]))}"
            raise KgroupsError(f"no partition {missing[0]} of topic {quoted(topic)} {where}; {there}")


def deleted_next(reader: LakeReader, groups: Iterable[str] | None) -> list[str]:
    """A sentence for each of the named groups (None: for no group) that the brokers delete because it has no committed
    offsets."""
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
