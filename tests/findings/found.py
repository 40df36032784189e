"""Findings of the tables of a log in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from kgroups_spark.audit.result import findings_table
from kgroups_spark.findings.finders import look
from kgroups_spark.findings.finding import (
    Condition,
    Evidence,
    Finding,
    LargeRecord,
    TimesOff,
    TransactionState,
    moment,
)
from kgroups_spark.replay.ranges import newest_time
from kgroups_spark.tables.columns import expression_of
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.words import to_epoch_ms
from tests.expiry import twin
from tests.nights.replayed_logs import MemoryTables

DAY = 86_400_000
RETENTION_MS = 7 * DAY
OF_SHARES = (
    "share_partitions",
    "share_batches",
    "topic_offsets",
    "transactional_ids",
    "cluster_facts",
    "previous_offset_expiry",
)
Row = dict[str, Any]
AUDIT_ID = 1


@dataclass(frozen=True)
class ArrowTables:
    """Tables in memory; `read`: how often each was asked for."""

    tables: Mapping[str, pa.Table]

    def rows(self, name: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        table = self.tables[name]
        if conditions and len(table):
            table = table.filter(expression_of(conditions))
        return table.select(columns)

    def source(self, name: str, *conditions: Condition) -> pa.Table:
        return self.rows(name, self.tables[name].column_names, *conditions)


def evidence_of(
    audited: MemoryTables,
    *,
    as_of: int | None = None,
    retention_ms: int = RETENTION_MS,
    version: tuple[int, ...] = (4, 3),
    java: bool = True,
    before: Sequence[Row] = (),
) -> Evidence:
    """The evidence that the audit has. `as_of`: ms; None: the newest time in the log."""
    newest = newest_time(p.log_times for p in audited.progress) or 0
    at = newest if as_of is None else as_of
    tables = audited.tables()
    tables["offset_expiry"] = _offset_expiry(audited, at, retention_ms, version, java)
    moment_of = moment(at)
    assert moment_of is not None
    return Evidence(
        ArrowTables(tables),
        AUDIT_ID,
        moment_of,
        moment_of,
        retention_ms,
        [LargeRecord(p.offsets_partition, *fields) for p in audited.progress for fields in p.large_records],
        [TimesOff(p.offsets_partition, *fields) for p in audited.progress for fields in p.times_off],
        before=before,
    )


def all_findings(evidence: Evidence) -> list[Finding]:
    """Everything odd that can be found."""
    return look(evidence).findings


def findings(audited: MemoryTables, *, tables: Mapping[str, list[Row]] | None = None, **how: Any) -> list[Finding]:
    """All findings; they fit the table, its nulls and its key. `tables`: rows of the other
    coordinators' tables, if their logs were read."""
    evidence = evidence_of(audited, **how)
    if tables:
        made = {name: pa.Table.from_pylist(tables.get(name, []), schema=arrow_schema(name)) for name in OF_SHARES}
        state = TransactionState(frozenset({0}))
        evidence = replace(with_tables(evidence, **made), log_starts={0: 0}, transaction_state=state)
    found = all_findings(evidence)
    rows = findings_table(found, AUDIT_ID)
    rows.validate(full=True)
    keys = [tuple(v for k, v in row.items() if k not in ("detail", "since", "severity")) for row in rows.to_pylist()]
    assert len(set(keys)) == len(keys)
    return found


def _offset_expiry(
    audited: MemoryTables, as_of: int, retention_ms: int, version: tuple[int, ...], java: bool
) -> pa.Table:
    groups, members = (list(map(_in_ms, audited.rows(name))) for name in ("groups", "group_members"))
    for group in groups:
        group["topology"] = group["topology"] and json.loads(group["topology"])
    pending = audited.rows("pending_offsets")
    rows = []
    failing = twin.failing_partitions(audited.rows("committed_offsets"), groups, version)
    for offset in map(_in_ms, audited.rows("committed_offsets")):
        judged = twin.judge_offset(offset, groups, members, pending, as_of, retention_ms, version, java, failing)
        reason, base, base_time, expires_at, if_empty = judged
        kept = {name: offset[name] for name in ("offsets_partition", "group_id", "topic", "partition", "log_offset")}
        rows.append(
            kept
            | {"audit_id": AUDIT_ID, "as_of": as_of * 1000, "retention_ms": retention_ms, "reason": reason}
            | {"committed_offset": offset["committed_offset"], "base": base}
            | {"decision": "expire" if twin.expires(reason) else "keep", "base_timestamp": _us(base_time)}
            | {"expires_at": _us(expires_at), "expires_at_if_empty": _us(if_empty)}
        )
    return pa.Table.from_pylist(rows, schema=arrow_schema("offset_expiry"))


def _in_ms(row: Row) -> Row:
    return {name: to_epoch_ms(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _us(ms: int | None) -> int | None:
    return None if ms is None else ms * 1000


def with_tables(evidence: Evidence, **tables: pa.Table) -> Evidence:
    """The same evidence with other tables."""
    assert isinstance(evidence.tables, ArrowTables)
    return replace(evidence, tables=ArrowTables({**evidence.tables.tables, **tables}))
