"""Reduction of old history as by Kafka's log cleaner, in SQL of DuckDB: the last record of each key stays.

Rules for rows below H of their partition:

    offset_commits       the last record of each key stays, also a tombstone. Values of aborted transactions go.
                         Records of a transaction that is open at H, and records with a producer id but no transaction,
                         stay
    group_records        the last record of each key; records of a transaction that is open at H stay
    quarantine           stays; of records of an unknown type or version only the last of each key
    transaction_markers  stay as long as a record of their transaction stays
    group_versions, group_member_versions   the last version of each group or member stays
    group_events, state_events              rows below H go
    transaction_state_records    the last record of each id, producer and version stays, of those that a load fails at,
                                 too
    share_group_state_records    the newest snapshot or tombstone of each share partition stays, and all records after
                                 it. A release reads only values in its own layout: 4.0 has another layout, and only 4.1
                                 and newer read tombstones
    state_quarantine             as quarantine

Replaced rows below H (lake/replaced.py) go, and have no influence on others. The coordinator applies tombstones at
once, even in aborted transactions, so they count as records here. Each rule can be applied again to its own result, in
any order, without a change: a marker that decides the outcome of a record stays with it. The remaining records of the
two state logs lead to the same state by the rules of any release.

Other tables: whole hours of group_traffic before the moment go; rows of topic_offsets seen before it go, except those
seen last; kept states go if the same partition has a newer one; findings and cluster facts of old audits go, except the
newest facts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kgroups_spark.lake.replaced import STATE_LOGS, Replaced, partition_of
from kgroups_spark.replay.shard_states import Horizons
from kgroups_spark.tables.definitions import KEEP
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES, arrow_schema
from kgroups_spark.words import HOUR_MS

MARKERS = "transaction_markers"
# Tables of records of producers, and which of their rows are records.
OF_PRODUCERS = {"offset_commits": "", "group_records": "", "quarantine": " AND record_count > 0"}
# Tables of records with log times.
OF_RECORDS = (*LOG_TABLES, *(name for name in STATE_LOGS if name != "state_events"))
# The prefix of a stored table's name in a query.
STORED = "stored_"

_IS_UNKNOWN = "reason IN ('unknown_record_type', 'unknown_value_version')"
_HAS_ENDED = "coalesce(own_marker_offset, found.log_offset) < horizon"
_IS_VOID = f"{_HAS_ENDED} AND coalesce(own_outcome, found.outcome) = 'aborted' AND value_version IS NOT NULL"
_STATUS, _VERSION = "value ->> '$.transactionStatus'", "coalesce(value ->> '$.clientTransactionVersion', '0')"
_FITS_BOTH, _IS_SNAPSHOT = "coalesce(layout LIKE '?%', FALSE)", "record_type = 0"


@dataclass(frozen=True)
class Rule:
    """The rule for rows below H, in SQL. A row stays anyway (`stays`), or if it is the last of its key.

    key       columns and expressions, besides the partition
    contests  (rows that take part, those of them that are a base): the rows of a key from its last base on stay
    """

    stays: str = "FALSE"
    key: tuple[str, ...] = ()
    contests: tuple[tuple[str, str], ...] = (("TRUE", "TRUE"),)


RULES: Mapping[str, Rule] = {
    "offset_commits": Rule(
        f"CASE WHEN is_transactional THEN NOT coalesce({_HAS_ENDED}, FALSE) ELSE producer_id IS NOT NULL END",
        ("record_type", "group_id", "topic", '"partition"', "raw_key"),
        ((f"NOT coalesce({_IS_VOID}, FALSE)", "TRUE"),),
    ),
    "group_records": Rule(
        "is_transactional AND NOT coalesce(found.log_offset < horizon, FALSE)",
        ("record_type", "group_id", "member_id", "regular_expression", "raw_key"),
    ),
    "quarantine": Rule(f"NOT ({_IS_UNKNOWN} AND resolved_by IS NULL AND producer_id IS NULL)", ("raw_key",)),
    "group_versions": Rule(key=("group_id",)),
    "group_member_versions": Rule(key=("group_id", "member_id")),
    "group_events": Rule(contests=()),
    MARKERS: Rule("outcome IS NULL OR producer_id IS NULL OR is_needed", contests=()),
    "transaction_state_records": Rule(
        key=(
            "transactional_id",
            "value_version",
            "value ->> '$.producerId'",
            # Whether a load accepts the status, and whether it accepts the client's transaction version.
            f"{_STATUS} IN ('0', '1', '2', '3', '4', '5', '6', '7')"
            f" AND ({_STATUS} = '0' OR (value ->> '$.transactionPartitions') IS NOT NULL)",
            f"{_VERSION} IN ('0', '1', '2')",
        )
    ),
    "share_group_state_records": Rule(
        key=("group_id", "topic_id", '"partition"'),
        contests=(
            (
                f"CASE WHEN value IS NULL THEN {_IS_SNAPSHOT} ELSE coalesce(layout, '') = '' OR {_FITS_BOTH} END",
                _IS_SNAPSHOT,
            ),
            (f"value IS NOT NULL AND (coalesce(layout, '') = '4.0' OR {_FITS_BOTH})", _IS_SNAPSHOT),
        ),
    ),
    "state_quarantine": Rule(f"NOT ({_IS_UNKNOWN})", ("raw_key",)),
    "state_events": Rule(contests=()),
}


@dataclass(frozen=True)
class Reduction:
    """Queries about stored tables (STORED + name), whose history is reduced below the horizons. `replaced`: the
    replaced rows. `moment_ms` (epoch ms) and `old_audits`, those with findings to remove, reduce the other tables."""

    horizons: Horizons
    replaced: Replaced
    moment_ms: int = 0
    old_audits: Collection[int] = ()

    def rows_left(self, name: str) -> str:
        """The rows of a table that stay."""
        columns = ", ".join(f'"{column}"' for column in arrow_schema(name).names)
        return f"{self._decided([name])} SELECT {columns} FROM decided_{name} WHERE stays"

    def counts(self, names: Collection[str]) -> str:
        """The name of each table, its number of rows, and the number of those that stay."""
        each = "SELECT '{0}' AS name, count(*) AS seen, count(CASE WHEN stays THEN 1 END) AS staying FROM decided_{0}"
        return f"{self._decided(names)} {' UNION ALL '.join(map(each.format, names))}"

    def first_later(self, believed_until_ms: int) -> str:
        """of_log, of_partition, log_offset: the first record of each partition that is later than the moment. Times
        later than `believed_until_ms` do not count."""
        columns = "of_log, of_partition, log_offset, log_timestamp"
        records = " UNION ALL ".join(f"SELECT {columns} FROM ({self._live(name)})" for name in OF_RECORDS)
        return (
            f"WITH {self._reduced()} SELECT of_log, of_partition, min(log_offset) AS log_offset FROM ({records}) "
            f"WHERE log_timestamp > make_timestamptz({1000 * self.moment_ms}) "
            f"AND log_timestamp <= make_timestamptz({1000 * believed_until_ms}) GROUP BY of_log, of_partition"
        )

    def first_spanning(self) -> str:
        """The same for the start of the first transaction that was open at H and has ended since."""
        return (
            f"WITH {self._reduced()} SELECT of_log, of_partition, min(transaction_start_offset) AS log_offset "
            f"FROM ({self._live(MARKERS)}) WHERE log_offset >= horizon AND transaction_start_offset < horizon "
            "GROUP BY of_log, of_partition"
        )

    def _decided(self, names: Collection[str]) -> str:
        """The rows of these tables with the column `stays`. Those of records decide about markers."""
        needed = (*(OF_PRODUCERS if MARKERS in names else ()), *names)
        ends = f"ends AS ({self._live(MARKERS)} AND outcome IS NOT NULL AND producer_id IS NOT NULL)"
        decided = (
            f"decided_{name} AS ({self._of_place(name, RULES[name]) if name in RULES else self._of_others(name)})"
            for name in dict.fromkeys(needed)
        )
        return f"WITH {', '.join([self._reduced(), ends, *decided])}"

    def _of_others(self, name: str) -> str:
        is_kept = f"reason = '{KEEP}' AND NOT ({self.replaced.condition(CHECKPOINTS)})"
        newest = f"max(CASE WHEN {is_kept} THEN audit_id END) OVER (PARTITION BY log, offsets_partition)"
        is_newer = f"audit_id NOT IN ({', '.join(map(str, self.old_audits)) or '-1'})"
        is_newest = f"audit_id = (SELECT max(audit_id) FROM {STORED}{name})"
        stays = {
            CHECKPOINTS: f"coalesce(NOT ({is_kept} AND audit_id < {newest}), TRUE)",
            "group_traffic": f"coalesce(epoch_ms(hour) + {HOUR_MS} > {self.moment_ms}, TRUE)",
            "topic_offsets": f"epoch_ms(seen_at) >= {self.moment_ms} OR {is_newest}",
            "cluster_facts": f"{is_newer} OR {is_newest}",
            "findings": is_newer,
        }
        return f"SELECT *, {stays[name]} AS stays FROM {STORED}{name}"

    def _reduced(self) -> str:
        of = [f"('{log or ''}', {number}, {at})" for (log, number), at in self.horizons.items()] or ["('', -1, 0)"]
        return f"reduced AS (SELECT * FROM (VALUES {', '.join(of)}) AS its(its_log, its_partition, horizon))"

    def _placed(self, name: str) -> str:
        """The rows of a table with their partition and its H, and whether they are replaced. A commit's marker may be,
        too."""
        logs = STATE_LOGS.get(name, ("",))
        log, partition = "log" if len(logs) > 1 else f"'{logs[0]}'", partition_of(name)
        own = "".join(f", {sql} AS own_{column}" for column, sql in self.replaced.columns(name).items())
        return (
            f"SELECT *, {log} AS of_log, {partition} AS of_partition, coalesce(log_offset < horizon, FALSE) AS is_old, "
            f"{self.replaced.condition(name)} AS is_replaced{own} FROM {STORED}{name} "
            f"LEFT JOIN reduced ON its_log = {log} AND its_partition = {partition}"
        )

    def _live(self, name: str) -> str:
        return f"SELECT * FROM ({self._placed(name)}) AS placed WHERE NOT is_replaced"

    def _of_place(self, name: str, rule: Rule) -> str:
        contests = [*enumerate(rule.contests)]
        key = ", ".join(("of_log", "of_partition", *rule.key))
        parts = (f", takes_part AND coalesce({its}, FALSE) AS takes_part_{n}" for n, (its, _) in contests)
        bases = (
            f", max(CASE WHEN takes_part_{n} AND {base} THEN log_offset END) OVER (PARTITION BY {key}) AS base_{n}"
            for n, (_, base) in contests
        )
        last = "".join(f" OR (takes_part_{n} AND log_offset >= coalesce(base_{n}, -1))" for n, _ in contests)
        rows = f"SELECT *, coalesce({rule.stays}, FALSE) AS stays_anyway FROM ({self._with_markers(name)})"
        rows = f"SELECT *, is_old AND NOT is_replaced AND NOT stays_anyway AS takes_part FROM ({rows})"
        rows = f"SELECT *{''.join(bases)} FROM (SELECT *{''.join(parts)} FROM ({rows}))"
        return f"SELECT *, NOT is_old OR (NOT is_replaced AND (stays_anyway{last})) AS stays FROM ({rows})"

    def _with_markers(self, name: str) -> str:
        """The rows of a table: records with the marker that ended their transaction (`found`), markers with whether the
        same producer's entry before is a record that stays (`is_needed`)."""
        placed = self._placed(name)
        if name == MARKERS:
            found = _NEEDED
        elif name in ("offset_commits", "group_records"):
            is_asked = "is_old AND NOT is_replaced AND is_transactional"
            is_asked += " AND own_marker_offset IS NULL" if name == "offset_commits" else ""
            found = _ENDED.format(f"({placed}) AS placed WHERE {is_asked}")
        else:
            return placed
        return (
            f"SELECT * FROM ({placed}) AS placed LEFT JOIN ({found}) AS found_ends "
            "ON found_partition = offsets_partition AND found_producer = producer_id AND found_at = log_offset"
        )


# For each record that `{}` selects the next marker of its producer, if its transaction began at or before the record.
_ENDED = """
SELECT DISTINCT offsets_partition AS found_partition, producer_id AS found_producer, log_offset AS found_at, found
FROM (
  SELECT *, min(marker) OVER (PARTITION BY offsets_partition, producer_id ORDER BY log_offset DESC) AS found
  FROM (
    SELECT offsets_partition, producer_id, log_offset, NULL AS marker FROM {}
    UNION ALL
    SELECT offsets_partition, producer_id, log_offset, struct_pack(
      log_offset := log_offset, start_offset := transaction_start_offset, outcome := outcome
    ) FROM ends WHERE transaction_start_offset IS NOT NULL
  ) AS entries
) AS known
WHERE marker IS NULL AND found.start_offset <= log_offset
"""
_RECORDS = " UNION ALL ".join(
    f"SELECT offsets_partition, producer_id, log_offset, TRUE AS is_record FROM decided_{name} "
    f"WHERE stays AND is_old AND producer_id IS NOT NULL{more}"
    for name, more in OF_PRODUCERS.items()
)
_NEEDED = f"""
SELECT DISTINCT
  offsets_partition AS found_partition, producer_id AS found_producer, log_offset AS found_at, TRUE AS is_needed
FROM (
  SELECT *, lag(is_record) OVER (PARTITION BY offsets_partition, producer_id ORDER BY log_offset) AS follows_a_record
  FROM ({_RECORDS} UNION ALL SELECT offsets_partition, producer_id, log_offset, FALSE FROM ends) AS entries
) AS known
WHERE NOT is_record AND follows_a_record
"""
