"""Open transactions, and transactional ids from __transaction_state."""

from __future__ import annotations

from datetime import datetime, timedelta

from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.report.figures import Section, table
from kgroups_spark.report.queries import Row
from kgroups_spark.report.sections.shared import DAYS, Answers
from kgroups_spark.report.words import ABORTS
from kgroups_spark.transaction_coordinator.shard import TWO_PHASE_TIMEOUT_MS


def transactions_section(answers: Answers) -> Section:
    rows = answers["open_transactions"]
    heading = "Open transactions"
    if not rows:
        return Section("transactions", heading, ["No transaction was open at the end of the log."])
    lake = answers["lake"][0]
    as_of, is_known = lake["as_of"], lake["has_transaction_state"]
    sentences = _sentences(len(rows), sum(row["is_hanging"] for row in rows), is_known)
    columns = (
        "producer_id Producer id; transactional_id- Transactional id; open_since- Open since (UTC) :time; age Age; "
        "verdict Hanging; groups Group; offsets Offsets :count; offsets_partition- Offsets partition :count; "
        "records_held- Records after it :count"
    )
    shown = [
        {
            **row,
            "producer_id": str(row["producer_id"]),
            "age": _age(as_of, row["open_since"]),
            "verdict": "yes" if row["is_hanging"] else "no",
            "groups": _groups_named(row),
        }
        for row in rows
    ]
    caption = "Transactions, the longest open first; records after it: those that the cleaner cannot reach"
    return Section("transactions", heading, sentences, [table("open_transactions", caption, columns, shown)])


def _sentences(count: int, hanging: int, is_known: bool) -> list[str]:
    """`is_known`: by __transaction_state, not by age alone."""
    likely, why = (
        ("", ", and by __transaction_state the coordinator will write no marker")
        if is_known
        else ("likely ", ". This is by age alone: __transaction_state was not read, and a marker may still come")
    )
    verdict = (
        f"{hanging:,} {likely}hanging: open for longer than 15 minutes, Kafka’s default of "
        f"transaction.max.timeout.ms{why}"
    )
    return [
        f"{counted(count, 'transaction')} {'was' if count == 1 else 'were'} open at the end of the log, "
        f"{verdict if hanging else 'none hanging'}.",
        "Until a transaction ends, consumers that ask for stable offsets wait, and the log cleaner cannot pass the "
        "transaction’s first record.",
    ]


def _groups_named(row: Row) -> str | None:
    if row["group_count"] > 1:
        return f"{row['group_id']} and {row['group_count'] - 1} more"
    return None if row["group_id"] is None else str(row["group_id"])


def transactional_ids_section(answers: Answers) -> Section:
    states, aborted = answers["transactional_states"], answers["aborted_by_coordinator"]
    named = answers["named_transactions"]
    heading = "Transactions by name"
    if not states and not aborted:
        nothing = "No transactional id is known: there is none, or __transaction_state was not read."
        return Section("transactional-ids", heading, [nothing])
    as_of = answers["lake"][0]["as_of"]
    ids = counted(sum(row["transactional_ids"] for row in states), "transactional id")
    sentences = [
        f"The transaction coordinator has {ids}; {len(named):,} have an open transaction. It aborted "
        f"{counted(len(aborted), 'transaction')} by itself in the {DAYS} days before the audit."
    ]
    figures = []
    if named:
        columns = (
            "transactional_id Transactional id; producer_id- Producer id; state State; "
            "start_timestamp- Began (UTC) :time; age Age; timeout Timeout; "
            "topic_partitions Partitions written to :count; groups- Groups :count; offsets- Offsets :count"
        )
        shown = [
            {
                **row,
                **_as_texts(row),
                "age": _age(as_of, row["start_timestamp"]),
                "timeout": _timeout(row["timeout_ms"]),
            }
            for row in named
        ]
        figures.append(table("named_transactions", "Open transactions, the longest open first", columns, shown))
    if aborted:
        columns = (
            "log_timestamp When (UTC) :time; transactional_id Transactional id; why Why; producer_id- Producer id; "
            "start_timestamp- Began (UTC) :time; timeout- Timeout"
        )
        shown = [{**row, **_as_texts(row), "why": ABORTS[row["event"]]} for row in aborted]
        caption = "Transactions that the coordinator aborted, the newest first"
        figures.append(table("aborted_by_coordinator", caption, columns, shown))
    if states:
        columns = "state State; transactional_ids Ids :count; newest_change Newest change (UTC) :time"
        caption = "Transactional ids by state"
        figures.append(table("transactional_states", caption, columns, states, is_small=True))
    return Section("transactional-ids", heading, sentences, figures)


def _as_texts(row: Row) -> Row:
    """The row with its producer id as text, because the number is a name, without thousands separators."""
    producer_id = None if row["producer_id"] is None else str(row["producer_id"])
    return {"producer_id": producer_id, "timeout": _timeout(row["timeout_ms"])}


def _age(as_of: datetime, since: datetime | None) -> str | None:
    return None if since is None else format_duration((as_of - since) // timedelta(milliseconds=1))


def _timeout(timeout_ms: int) -> str:
    return "none (two-phase)" if timeout_ms == TWO_PHASE_TIMEOUT_MS else format_duration(timeout_ms)
