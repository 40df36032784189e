"""Rows of the tables of offsets, transactions and topics from the shard of objects: the columns of the tables, without
that of the audit."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from kgroups_spark.tables.schemas import TABLES


def rows_of(table: str, **defaults: Any) -> Any:
    names = [name for name in TABLES[table].columns.names if name != "audit_id"]
    return namedtuple(table, names, defaults=defaults.values())


CommittedRow = rows_of("committed_offsets")
PendingRow = rows_of("pending_offsets")
OpenTransactionRow = rows_of("open_transactions", is_hanging=None)  # without the moment of an audit
TopicRow = rows_of("topics")
