"""Groups now or as of a moment, in the rows of `kgroups describe`: one for each offset, each member, or each group.

A group may be in two partitions of __consumer_offsets: each is described by itself. The queries are templates: FROM_NOW
or FROM_THEN name the tables, `{chosen}` is the condition on groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from kgroups_spark.reading.group_options import EVERYTHING, SqlCondition, of_groups, require_known
from kgroups_spark.reading.reader import LakeReader, Row, Rows
from kgroups_spark.tables.conditions import partitions_in_lots
from kgroups_spark.times import to_datetime

# The wanted rows: one for each offset, each member, or each group.
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
}
# Log ends and expiry are known for the present state only.
FROM_THEN = {
    "groups": "groups_as_of(:as_of)",
    "members": "group_members_as_of(:as_of)",
    "committed": "committed_offsets_as_of(:as_of)",
    "offsets": "(SELECT *, NULL AS log_end_offset, NULL AS lag, NULL AS will_reset "
    "FROM committed_offsets_as_of(:as_of))",
    "pending": "pending_offsets_as_of(:as_of)",
    "expiry": "(SELECT * FROM offset_expiry WHERE false)",
    "topic_ends": "(SELECT * FROM topic_offsets WHERE false)",
    "ends": "log_ends_as_of(:as_of)",
    "shares": "(SELECT *, NULL AS log_end_offset, NULL AS lag FROM share_partitions_as_of(:as_of))",
    "share_log": "(SELECT known FROM state_known_as_of(:as_of) WHERE log = '__share_group_state')",
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
    offsets.lag, offsets.will_reset, expiry.expires_at
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
    lag, will_reset, member_id AS owner_member_id, client_host AS owner_client_host, client_id AS owner_client_id,
    expires_at, pending_offsets
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
    NULL AS metadata, write_timestamp AS commit_timestamp, shares.log_offset, log_end_offset, lag,
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
SELECT places.*, group_type, state, is_misplaced, assignment_epoch, members.* EXCLUDE (offsets_partition, group_id)
FROM places
LEFT JOIN known USING (offsets_partition, group_id)
LEFT JOIN (SELECT * FROM {members} WHERE {chosen}) AS members USING (offsets_partition, group_id)
ORDER BY group_id, offsets_partition, member_id"""
)
# KIP-848's coordinator chooses the assignor that most members request. If none requests one, it is the broker's, which
# is not in the log.
STATE = (
    PLACES
    + """
SELECT places.*, known.* EXCLUDE (offsets_partition, group_id, member_count), coalesce(member_count, 0) AS member_count,
  CASE WHEN group_type = 'consumer' THEN server_assignor END AS server_assignor,
  coalesce(offset_count, 0) AS offset_count, expires_at, coalesce(pending_count, 0) AS pending_count
FROM places
LEFT JOIN known USING (offsets_partition, group_id)
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


@dataclass(frozen=True)
class GroupReader:
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
