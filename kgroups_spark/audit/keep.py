"""`--keep`: old history is reduced as by Kafka's log cleaner, in SQL of DuckDB: the last record of each key stays.

The state at H is saved, then the history below H is reduced, table by table, each in one commit. A kept state counts
once its audit has finished; only then is history reduced to it, by the next audit number. A kill at any time loses
nothing that a rebuild needs, and the next maintenance reduces the rest.

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

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.state_entries import MARK, made_by
from kgroups_spark.errors import KgroupsError, reported_in_one_line
from kgroups_spark.findings.finders import connected, has_looked
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake, named_if_lost
from kgroups_spark.lake.last_finished import IS_FINISHED, REBUILD_APP_ID
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.replaced import STATE_LOGS, Replaced, partition_of
from kgroups_spark.lake.store import ChangedMeanwhile, TableFile, TableFiles, actions_in, total_rows
from kgroups_spark.lake.writer import LakeWriter, is_of_night
from kgroups_spark.replay.ranges import believed_until
from kgroups_spark.replay.shard_states import Horizons, Place, keep_states, of_groups, reduced_to
from kgroups_spark.tables.columns import Condition, all_may_hold
from kgroups_spark.tables.definitions import KEEP
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES, TABLES, arrow_schema
from kgroups_spark.words import HOUR_MS, to_epoch_ms

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


class Rule(NamedTuple):
    """A row stays (`stays`), or if it is the last of its `key`, which has columns and expressions besides the
    partition. `contests`: rows that take part, and those of them that are a base: a key's last base and later rows
    stay."""

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


class Reduction(NamedTuple):
    """Queries about stored tables (STORED + name), whose history is reduced below the horizons. `replaced`: the
    replaced rows. `moment_ms` (epoch ms) and `old_audits`, those with findings to remove, reduce the other tables."""

    horizons: Horizons
    replaced: Replaced
    moment_ms: int = 0
    old_audits: Collection[int] = ()

    def rows_left(self, name: str) -> str:
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
        """The rows of a table with their partition, its H, and whether they (or a commit's marker) are replaced."""
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


def audits_without_findings(finished: pa.Table, moment_ms: int, decided_by: int | None) -> list[int]:
    """The audits whose findings go, sorted: `as_of` is before the moment, and a later one looked for findings.
    `finished`: their audit_id, as_of, rows_added. Audits from `decided_by` on stay (None: no such decisions): the view
    expiry_outcomes compares its decisions with later records."""
    rows = finished.select(["audit_id", "as_of", "rows_added"]).to_pylist(maps_as_pydicts="strict")
    before = max((row["audit_id"] for row in rows if has_looked(row)), default=0)
    before = before if decided_by is None else min(before, decided_by)
    old = (row for row in rows if row["as_of"] is not None and to_epoch_ms(row["as_of"]) < moment_ms)
    return sorted(row["audit_id"] for row in old if row["audit_id"] < before)


# The order of rows in rewritten files.
IN_ORDER_OF = ("group_id", "transactional_id", "offsets_partition", "topic", "partition", "hour", "log_offset")
ROWS_AT_ONCE = 65_536


def answer(lake: Lake, query: str, files: TableFiles) -> list[tuple[Any, ...]]:
    with connected("1GB", **_stored(lake, query, files)) as connection:
        return connection.execute(query).fetchall()


def write_answer(writer: LakeWriter, name: str, query: str, rows: int, files: TableFiles) -> list[Part]:
    """The rows of a query, sorted, as parts of a table, which have at least `rows` rows each but for the last one."""
    columns = [column for column in IN_ORDER_OF if column in TABLES[name].columns.names] or ["audit_id"]
    order = ", ".join(f'"{column}" NULLS FIRST' for column in columns)
    found = list[Part]()
    with (
        reported_in_one_line(f"table {name}: a part could not be written"),
        connected("1GB", **_stored(writer.lake, query, files)) as connection,
    ):
        batches = connection.sql(f"SELECT * FROM ({query}) ORDER BY {order}").to_arrow_reader(ROWS_AT_ONCE)
        for first in batches:
            found += writer.lake.write(name, _with_next(first, batches, rows), writer.audit_id)
    return found


def _with_next(first: pa.RecordBatch, batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The batch, and the next ones until there are so many rows."""
    yield first
    seen, following = first.num_rows, iter(batches)
    while seen < rows and (batch := next(following, None)) is not None:
        yield batch
        seen += batch.num_rows


def _stored(lake: Lake, query: str, files: TableFiles) -> dict[str, pa.dataset.Dataset]:
    """The tables that the query names."""
    names = {*re.findall(rf"\b{STORED}(\w+)", query)}
    return {f"{STORED}{name}": lake.dataset(name, [file.path for file in files[name]]) for name in names}


# The tables in the order of their commits: markers stay with the remaining records of the others.
IN_ORDER = (
    *(name for name in RULES if name not in (MARKERS, *STATE_LOGS)),
    *("group_traffic", "topic_offsets", "cluster_facts", MARKERS, *STATE_LOGS, CHECKPOINTS, "findings"),
)
# Kinds of tables whose removed rows are reported to people, and whose files are optimized: each audit rewrites current
# tables anyway, and a file of saved states must have those of one audit only.
COUNTED = ("history", "ledger")


def new_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[Place, int]:
    """H of each partition, where it is above the present one: the log offset of the first record later than the moment
    (epoch ms), but at most the start of an open transaction, as Kafka's cleaner stops before one."""
    read = (*(audit.partitions or ()), *audit.state_partitions)
    found = {(each.topic, each.offsets_partition): each.end_offset for each in read}
    files = {name: lake.table(name).files() for name in OF_RECORDS}
    reduction = Reduction({}, lake.replaced, moment_ms)
    # Rows of an unfinished audit, which a dry run sees, may have the first record after the end of this audit's log.
    _lower(found, answer(lake, reduction.first_later(believed_until(audit)), files))
    _lower(found, answer(lake, reduction._replace(horizons=found).first_spanning(), files))
    for row in lake.rows("open_transactions", columns=["offsets_partition", "transaction_start_offset"]).to_pylist():
        place = None, row["offsets_partition"]
        if place in found:
            found[place] = min(found[place], row["transaction_start_offset"])
    known = reduced_to(lake)
    return {place: at for place, at in found.items() if at > known.get(place, 0)}


def _lower(found: dict[Place, int], first: Iterable[tuple[Any, ...]]) -> None:
    for log, partition, log_offset in first:
        place = log or None, partition
        found[place] = min(found.get(place, log_offset), log_offset)


def save_states(writer: LakeWriter, audit: AuditRow, of: Horizons) -> None:
    """Adds the state at H of these partitions to checkpoints; of the two other logs only the offset to which they will
    be reduced. Nothing of it counts before the audit has finished."""
    assert audit.release_version is not None
    if groups := of_groups(of):
        # An audit writes to a table once under each application id.
        keep_states(replace(writer, app_id=REBUILD_APP_ID), groups, audit.release_version)
    facts = {**made_by(writer.audit_id, KEEP, audit.release_version), **MARK._asdict()}
    rows = [{"log": log, "offsets_partition": p, "log_offset": at, **facts} for (log, p), at in of.items() if log]
    writer.append_table(CHECKPOINTS, pa.Table.from_pylist(rows, schema=arrow_schema(CHECKPOINTS)))


@dataclass(frozen=True)
class KeptHistory:
    """A lake's history, reduced below `of`, and traffic, findings and the like before the moment."""

    lake: Lake
    of: Horizons
    moment_ms: int

    def apply(self, writer: LakeWriter, say: Callable[[str], None]) -> dict[str, int]:
        """Reduces every table; returns the number of removed rows by table."""
        say("reducing old history")
        outcomes = self._outcomes()
        for name, (_, staying) in outcomes.items():
            say(f"reducing {name}")
            rewrite(writer, name, self._reduction.rows_left(name), self._files, staying)
        return _counted(outcomes)

    def foreseen(self) -> dict[str, int]:
        return _counted(self._outcomes())

    @cached_property
    def old(self) -> list[int]:
        """The audits whose findings go."""
        columns = ["audit_id", "as_of", "rows_added"]
        then = LakeAsOfAudit.last_finished(self.lake)
        decided_by = pc.min(then.rows("previous_offset_expiry", ["decided_by"])["decided_by"]).as_py()
        finished = self.lake.rows("audits", columns=columns, conditions=[IS_FINISHED])
        return audits_without_findings(finished, self.moment_ms, decided_by)

    @cached_property
    def _files(self) -> dict[str, list[TableFile]]:
        """The files that may have rows to remove; others stay as they are."""
        return {
            name: [file for file in self.lake.table(name).files() if self._may_be_old(name, file)] for name in IN_ORDER
        }

    def _may_be_old(self, name: str, file: TableFile) -> bool:
        if name == CHECKPOINTS:
            return not is_of_night(file) and all_may_hold([Condition("reason", "==", KEEP)], file.bound)
        return name not in RULES or any(
            all_may_hold(
                [Condition(partition_of(name), "==", number), Condition("log_offset", "<=", at - 1)], file.bound
            )
            for (log, number), at in self.of.items()
            if (log or "") in STATE_LOGS.get(name, ("",))
        )

    @cached_property
    def _reduction(self) -> Reduction:
        return Reduction(self.of, self.lake.replaced, self.moment_ms, self.old)

    def _outcomes(self) -> dict[str, tuple[int, int]]:
        """The numbers of a table's rows that go, and that stay; without tables that stay as they are."""
        names = [name for name in self._files if self._files[name]]
        with reported_in_one_line("old history could not be read"):
            counts = answer(self.lake, self._reduction.counts(names), self._files) if names else []
        found = dict[str, tuple[int, int]]()
        for name, seen, staying in sorted(counts, key=lambda count: names.index(count[0])):
            if seen != total_rows(self._files[name]):
                raise KgroupsError(
                    f"table {name}: {seen} of {total_rows(self._files[name])} rows were found; nothing was changed"
                )
            if seen > staying:
                found[name] = seen - staying, staying
        return found


def _counted(outcomes: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    return {name: gone for name, (gone, _) in outcomes.items() if TABLES[name].kind in COUNTED}


# Upkeep of the tables: small files of consecutive nights are rewritten in lots, sorted by group, offsets partition,
# topic, partition and log offset: a query for "one group, last week" reads a few row groups of a few files. Delta's own
# OPTIMIZE only concatenates files; its ZORDER BY starts from the whole table and does not sort inside a file (figures:
# benchmarks/README.md). Neither way needs more than reader version 1 and writer version 2.

# The size to aim for in a file, the size below which it is small, and the size of a lot of nights, sorted at once.
FILE_BYTES = 32 << 20
SMALL_BYTES = FILE_BYTES // 2
LOT_BYTES = 256 << 20


class Rewritten(NamedTuple):
    """The outcome for a table's files, or the expected one (`bytes_after` None: not known before a run)."""

    table: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int | None


def lots(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """The small files, oldest audits first, in lots that are worth rewriting because the result has fewer files."""
    small = sorted(
        (file for file in files if file.size < SMALL_BYTES),
        key=lambda file: (file.bound("minValues", "audit_id") or 0, file.path),
    )
    found: list[list[TableFile]] = [[]]
    for file in small:
        if total_bytes(found[-1]) >= LOT_BYTES:
            found.append([])
        found[-1].append(file)
    return [lot for lot in found if len(lot) > files_for(total_bytes(lot))]


def files_for(size_bytes: int) -> int:
    return max(1, -(-size_bytes // FILE_BYTES))


def total_bytes(files: Sequence[TableFile]) -> int:
    return sum(file.size for file in files)


def optimize(writer: LakeWriter, name: str) -> Rewritten:
    """Compacts the table's small files; one commit for each lot, and none if there is nothing to gain."""
    before = writer.lake.table(name).files()
    for lot in lots(before):
        every = f"SELECT * FROM {STORED}{name}"
        rewrite(writer, name, every, {name: lot}, total_rows(lot), changes_rows=False)
    after = writer.lake.table(name).files()
    return Rewritten(name, len(before), len(after), total_bytes(before), total_bytes(after))


def foreseen(lake: Lake, name: str) -> Rewritten:
    files = lake.table(name).files()
    fewer = sum(len(lot) - files_for(total_bytes(lot)) for lot in lots(files))
    return Rewritten(name, len(files), len(files) - fewer, total_bytes(files), None)


def rewrite(
    writer: LakeWriter,
    name: str,
    query: str,
    files: Mapping[str, Sequence[TableFile]],
    rows: int,
    *,
    changes_rows: bool = True,
) -> None:
    """Replaces the table's files by the query's answer over `files`, which must have so many rows, in one commit.
    Raises KgroupsError, with nothing committed, if a part is missing, or if another process has replaced a file."""
    of_table = files[name]
    size = files_for(total_bytes(of_table) * rows // max(total_rows(of_table), 1))
    parts = write_answer(writer, name, query, rows // size, files)
    missing = rows - sum(part.records for part in parts)
    if missing:
        raise KgroupsError(f"table {name}: of {rows} rows {missing} would be missing; nothing was changed")
    paths = {file.path for file in of_table}
    replace = partial(
        writer.lake.table(name).commit,
        parts,
        by=f"kgroups-spark maintain {writer.audit_id}",
        remove=lambda file: file.path in paths,
        removes=len(paths),
        changes_rows=changes_rows,
    )
    try:
        writer.fence.commit(name, "replace" if changes_rows else "optimize", lambda its: replace(transaction=its))
    except ChangedMeanwhile as meanwhile:
        raise KgroupsError(
            f"table {name}: another program rewrote its files at the same time ({meanwhile}): run maintain again"
        ) from meanwhile


def vacuum(lake: Lake, name: str, retain_ms: int, writer: LakeWriter | None) -> int:
    """Deletes files that no version within `retain_ms` needs; without a writer only finds them. Returns their bytes."""
    old = unneeded(lake, name, retain_ms)

    def delete() -> None:
        for file in old:
            lake.store.delete(f"{lake.table(name).path}/{file}")

    # No version within that time needs them, not even one of an audit that has taken over meanwhile.
    if old and writer is not None:
        with named_if_lost(writer.check_claim):
            lake.commit(name, "vacuum", delete)
    return sum(old.values())


def unneeded(lake: Lake, name: str, retain_ms: int) -> dict[str, int]:
    """The files that `vacuum` would delete, all older than `retain_ms` themselves, and their bytes."""
    log, last_ms = lake.table(name), time.time() * 1000 - retain_ms
    needed = {unquote(file.path) for file in log.files()}
    files = lake.store.files_in(log.path)
    old = {file: size for file, (size, at_ms) in files.items() if file not in needed and at_ms < last_ms}
    if not old:
        return {}
    entries = lake.store.files_in(f"{log.path}/_delta_log")
    for entry, (_, at_ms) in entries.items():
        if at_ms >= last_ms and re.fullmatch(r"\d{20}\.json", entry):
            removed = (each.get("remove") for each in actions_in(log.entry(int(entry[:20])) or "", entry))
            needed |= {unquote(each["path"]) for each in removed if each}
    return {file: size for file, size in old.items() if file not in needed}
