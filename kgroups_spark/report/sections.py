"""Which figures the page has, in which order, and what is said where there is nothing to draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.report.figures import LONGEST_DETAIL, Column, Plot, Section, Table, table
from kgroups_spark.report.plots import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    PALE_BLUE,
    PURPLE,
    RED,
    STATE_COLORS,
    Axes,
    days_chart,
    numbered_chart,
    svg,
)
from kgroups_spark.report.queries import Row, query
from kgroups_spark.report.words import ABORTS, CAUSES, MOVES, OTHER_REBALANCE, REBALANCES, counted_from
from kgroups_spark.transaction_coordinator.shard import TWO_PHASE_TIMEOUT_MS

Answers = Mapping[str, Sequence[Row]]  # rows by query

DAYS = 30
_DAY, _DAY_ENDS = "day (UTC)", "as each day ended"
_OFFSETS_BY_DAY = Axes(_DAY, "offsets", "offset")
_GROUP = Column("group_id", "Group")
_TYPE = Column("group_type", "Type", is_minor=True)
_STATE = Column("state", "State", is_minor=True)
# Tables with a row a group are to hold 5,000; all tables together stay below 4 MB.
_ALL_GROUPS_BYTES, _GROUPS_BYTES = 900_000, 550_000


def sections(answers: Answers) -> list[Section]:
    """All parts of the page, what is urgent first."""
    return [
        _expiring(answers),
        _if_empty(answers),
        _transactions(answers),
        _transactional_ids(answers),
        _share_groups(answers),
        _moves(answers),
        _removals(answers),
        _findings(answers),
        _groups(answers),
        _rebalances(answers),
        _migration(answers),
        _offsets_topic(answers),
        _quarantine(answers),
        _coverage(answers),
        *_each_group(answers),
    ]


def _expiring(answers: Answers) -> Section:
    lake, soon = answers["lake"][0], answers["expiring_soon"][0]
    groups = answers["expiring_groups"]
    what_if = _what_if(answers)
    if not groups:
        nothing = (
            "No committed offset expires as things stand." if soon["offsets"] else "There are no committed offsets."
        )
        return Section("expiring", "Expiring offsets by day", [nothing], what_if if soon["offsets"] else [])
    sentences = [
        f"If every group stays as it was at {_minute(lake['as_of'])} UTC, {counted(soon['month_offsets'], 'offset')} "
        f"of {counted(soon['month_groups'], 'group')} expire within {DAYS} days."
    ]
    if soon["due_offsets"]:
        sentences.append(f"{counted(soon['due_offsets'], 'offset')}, due already, go at the broker’s next check.")
    rows = [{**row, "counted_from": counted_from(row)} for row in groups]
    columns = [
        _GROUP,
        _TYPE,
        _STATE,
        Column("offsets", "Offsets", "count"),
        Column("first_expires_at", "First expires (UTC)", "time"),
        Column("last_expires_at", "Last (UTC)", "time", is_minor=True),
        Column("counted_from", "Counted from", is_minor=True),
    ]
    by_day = [
        {"day": row["day"], "series": "due now" if row["is_due"] else "later", "value": row["offsets"]}
        for row in answers["expiring_by_day"]
    ]
    figures: list[Table | Plot] = [
        _days_to_come_plot(
            answers,
            "expiring_by_day",
            f"Offsets that expire, by day, in the {DAYS} days after the audit",
            by_day,
            [("due now", RED), ("later", BLUE)],
        ),
        *what_if,
        _groups_table("expiring_groups", "Groups that lose offsets, the soonest first", columns, rows),
    ]
    return Section("expiring", "Expiring offsets by day", sentences, figures)


def _what_if(answers: Answers) -> list[Table | Plot]:
    """The effect of another retention: offsets of groups that have members, or are subscribed, stay in any case."""
    actual = answers["lake"][0]["retention_ms"]
    rows = []
    bars = []
    for row in answers["what_if_retention"]:
        retention = format_duration(row["retention_ms"])
        rows.append({**row, "retention": f"{retention} (as it is)" if row["retention_ms"] == actual else retention})
        parts = {
            "at once": row["due_offsets"],
            "within 7 days": row["week_offsets"] - row["due_offsets"],
            "within 30 days": row["month_offsets"] - row["week_offsets"],
        }
        bars += [{"at": retention, "series": name, "value": value} for name, value in parts.items()]
    columns = [
        Column("retention", "Retention"),
        Column("due_offsets", "At once", "count"),
        Column("due_groups", "Groups", "count", is_minor=True),
        Column("week_offsets", "Within 7 days", "count"),
        Column("month_offsets", "Within 30 days", "count"),
    ]
    series = [("at once", RED), ("within 7 days", BLUE), ("within 30 days", PALE_BLUE)]
    plot = Plot(
        "what_if_plot",
        "Offsets that expire, if offsets.retention.minutes were",
        svg(numbered_chart(bars, series, Axes("retention", "offsets", "offset"))),
        _drawn([bar for bar in bars if bar["value"]], series),
        query("what_if_retention"),
    )
    return [
        plot,
        _table(
            "what_if_retention",
            "The same in figures: offsets that expire, and of how many groups at once",
            columns,
            rows,
            is_small=True,
        ),
    ]


def _if_empty(answers: Answers) -> Section:
    rows = answers["if_empty"]
    at_once = [row for row in rows if row["at_once"]]
    heading = "Offsets lost at once if a group empties"
    if not rows:
        return Section("if-empty", heading, ["No offset is kept only because its group has members."])
    offsets, groups = sum(row["at_once"] for row in rows), len(at_once)
    kept = sum(row["offsets"] for row in rows)
    sentences = [
        f"{counted(kept, 'offset')} of {counted(len(rows), 'group')} are kept only as long as their groups stay as "
        f"they are. "
        + (
            f"{offsets:,} of them, of {counted(groups, 'group')}, would be due the moment the last member leaves: "
            "KIP-848 groups count from the commit, however long ago."
            if offsets
            else "None would be due at once: each has a full retention left when its group empties, or part of it."
        )
    ]
    columns = [
        _GROUP,
        _TYPE,
        _STATE,
        Column("member_count", "Members", "count", is_minor=True),
        Column("at_once", "At once", "count"),
        Column("offsets", "In all", "count"),
        Column("last_expires_at", "All gone by (UTC)", "time", is_minor=True),
    ]
    caption = "If a group lost its members now: offsets lost at once, and when the rest would expire"
    return Section("if-empty", heading, sentences, [_groups_table("if_empty", caption, columns, rows)])


def _transactions(answers: Answers) -> Section:
    rows = answers["open_transactions"]
    heading = "Open transactions"
    if not rows:
        return Section("transactions", heading, ["No transaction was open where the log ends."])
    as_of = answers["lake"][0]["as_of"]
    hanging = [row for row in rows if row["is_hanging"]]
    sentences = [
        f"{counted(len(rows), 'transaction')} had neither committed nor aborted where the log ends; {len(hanging):,} "
        "hanging: open for longer than 15 minutes, Kafka’s default of transaction.max.timeout.ms, and as far as "
        "__transaction_state was read, its coordinator will not end them. Consumers that ask for stable offsets wait "
        "for them, and the log cleaner stops at their first record."
    ]
    columns = [
        Column("producer_id", "Producer id"),
        Column("transactional_id", "Transactional id", is_minor=True),
        Column("open_since", "Open since (UTC)", "time", is_minor=True),
        Column("age", "Age"),
        Column("verdict", "Hanging"),
        Column("groups", "Group"),
        Column("offsets", "Offsets", "count"),
        Column("offsets_partition", "Offsets partition", "count", is_minor=True),
        Column("records_held", "Records behind it", "count", is_minor=True),
    ]
    shown = [
        {
            **row,
            "producer_id": str(row["producer_id"]),
            "age": None if row["open_since"] is None else format_duration(_milliseconds(as_of - row["open_since"])),
            "verdict": "yes" if row["is_hanging"] else "no",
            "groups": _groups_named(row),
        }
        for row in rows
    ]
    caption = "Transactions, the longest open first; records behind it: what the cleaner cannot pass"
    return Section("transactions", heading, sentences, [_table("open_transactions", caption, columns, shown)])


def _groups_named(row: Row) -> str | None:
    if row["group_count"] > 1:
        return f"{row['group_id']} and {row['group_count'] - 1} more"
    return None if row["group_id"] is None else str(row["group_id"])


def _transactional_ids(answers: Answers) -> Section:
    states, aborted = answers["transactional_states"], answers["aborted_by_coordinator"]
    named = answers["named_transactions"]
    heading = "Transactions by name"
    if not states and not aborted:
        nothing = "No transactional id is known: there is none, or __transaction_state was not read."
        return Section("transactional-ids", heading, [nothing])
    as_of = answers["lake"][0]["as_of"]
    ids = counted(sum(row["transactional_ids"] for row in states), "transactional id")
    sentences = [
        f"The transaction coordinator knows {ids}; {len(named):,} have an open transaction. It aborted "
        f"{counted(len(aborted), 'transaction')} by itself in the {DAYS} days before the audit."
    ]
    figures = []
    if named:
        columns = [
            Column("transactional_id", "Transactional id"),
            Column("producer_id", "Producer id", is_minor=True),
            Column("state", "State"),
            Column("start_timestamp", "Began (UTC)", "time", is_minor=True),
            Column("age", "Age"),
            Column("timeout", "Timeout"),
            Column("topic_partitions", "Partitions written to", "count"),
            Column("groups", "Groups", "count", is_minor=True),
            Column("offsets", "Offsets", "count", is_minor=True),
        ]
        shown = [
            {
                **row,
                **_as_texts(row),
                "age": _age(as_of, row["start_timestamp"]),
                "timeout": _timeout(row["timeout_ms"]),
            }
            for row in named
        ]
        figures.append(_table("named_transactions", "Open transactions, the longest open first", columns, shown))
    if aborted:
        columns = [
            Column("log_timestamp", "When (UTC)", "time"),
            Column("transactional_id", "Transactional id"),
            Column("why", "Why"),
            Column("producer_id", "Producer id", is_minor=True),
            Column("start_timestamp", "Began (UTC)", "time", is_minor=True),
            Column("timeout", "Timeout", is_minor=True),
        ]
        shown = [{**row, **_as_texts(row), "why": ABORTS[row["event"]]} for row in aborted]
        caption = "Transactions that the coordinator aborted, the newest first"
        figures.append(_table("aborted_by_coordinator", caption, columns, shown))
    if states:
        columns = [
            Column("state", "State"),
            Column("transactional_ids", "Ids", "count"),
            Column("newest_change", "Newest change (UTC)", "time"),
        ]
        caption = "Transactional ids by state"
        figures.append(_table("transactional_states", caption, columns, states, is_small=True))
    return Section("transactional-ids", heading, sentences, figures)


def _as_texts(row: Row) -> Row:
    """A producer id is a name, not a number to be grouped."""
    producer_id = None if row["producer_id"] is None else str(row["producer_id"])
    return {"producer_id": producer_id, "timeout": _timeout(row["timeout_ms"])}


def _age(as_of: datetime, since: datetime | None) -> str | None:
    return None if since is None else format_duration(_milliseconds(as_of - since))


def _timeout(timeout_ms: int) -> str:
    return "none (two-phase)" if timeout_ms == TWO_PHASE_TIMEOUT_MS else format_duration(timeout_ms)


def _share_groups(answers: Answers) -> Section:
    rows, near = answers["share_partitions"], answers["share_near_limit"]
    heading = "Share groups"
    if not rows:
        nothing = "No share partition is known: there is none, or __share_group_state was not read."
        return Section("share-groups", heading, [nothing])
    groups = counted(len({row["group_id"] for row in rows}), "share group")
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    waiting = (
        f"{counted(sum(lags), 'record')} of {counted(len(lags), 'partition')} are still to be processed."
        if lags
        else "Their lag is not known: no audit of a live cluster saw where the topics end, or they are older than 4.2."
    )
    sentences = [f"{groups} with {counted(len(rows), 'share partition')}. {waiting}"]
    columns = [
        _GROUP,
        Column("topic", "Topic"),
        Column("partition", "Partition", "count"),
        Column("init_state", "State", is_minor=True),
        Column("start_offset", "Start offset", "count"),
        Column("lag", "Lag", "count"),
        Column("archived", "Archived", "count", is_minor=True),
        Column("log_timestamp", "Last stored (UTC)", "time", is_minor=True),
    ]
    figures = [_groups_table("share_partitions", "Share partitions, the longest lag first", columns, rows)]
    if near:
        records = counted(sum(row["records"] for row in near), "record")
        sentences.append(
            f"{records} can be delivered once more at most: what fails then is archived, and nobody gets it any more."
        )
        columns = [
            _GROUP,
            Column("topic", "Topic"),
            Column("partition", "Partition", "count"),
            Column("first_offset", "From offset", "count"),
            Column("last_offset", "To offset", "count"),
            Column("delivery_count", "Delivered", "count"),
            Column("attempts_left", "Attempts left", "count"),
        ]
        figures.insert(0, _table("share_near_limit", "Records near their delivery limit", columns, near))
    return Section("share-groups", heading, sentences, figures)


def _moves(answers: Answers) -> Section:
    rows = answers["offset_moves"]
    heading = "Offsets rewound or skipped ahead"
    if not rows:
        return Section("moves", heading, ["No committed offset was rewound or skipped ahead in the log that was read."])
    shown = [{**row, "how": MOVES[row["event"]], "why": CAUSES[row["cause"]]} for row in rows]
    columns = [
        Column("event_timestamp", "When (UTC)", "time"),
        _GROUP,
        Column("topic", "Topic"),
        Column("how", "What", is_minor=True),
        Column("why", "How", is_minor=True),
        Column("partitions", "Partitions", "count", is_minor=True),
        Column("read_again", "Read again", "count"),
        Column("skipped", "Never read", "count", is_minor=True),
    ]
    bars = [
        {"day": row["day"], "series": MOVES[row["event"]], "value": row["events"]}
        for row in answers["events_by_day"]
        if row["event"] in MOVES
    ]
    series = list(zip(MOVES.values(), (RED, AMBER, PURPLE), strict=True))
    sentences = [
        "The log does not say who committed: a commit that goes back while the group has no members is an admin’s "
        "reset, most likely."
    ]
    figures: list[Table | Plot] = [_table("offset_moves", "Moves, the newest first", columns, shown)]
    if bars:
        caption = f"Partitions whose offset moved, by day, in the {DAYS} days before the audit"
        figures.insert(0, _last_days_plot(answers, "moves_by_day", caption, bars, series, "events_by_day", "offset"))
    return Section("moves", heading, sentences, figures)


def _removals(answers: Answers) -> Section:
    rows = answers["removals"]
    heading = "Offsets and groups that were removed"
    if not rows:
        return Section("removals", heading, ["No offset and no group was removed in the log that was read."])
    shown = [{**row, "why": CAUSES[row["cause"]]} for row in rows]
    columns = [
        Column("event_timestamp", "When (UTC)", "time"),
        _GROUP,
        Column("why", "Cause"),
        Column("offsets", "Offsets", "count"),
        Column("topics", "Topics", "count", is_minor=True),
        Column("is_group_removed", "Group, too", is_minor=True),
    ]
    colors = {"expired": BLUE, "group_deleted": RED, "offset_deleted": AMBER, "topic_deleted": GREEN, "unknown": GREY}
    bars = [
        {"day": row["day"], "series": CAUSES[row["cause"]], "value": row["events"]}
        for row in answers["events_by_day"]
        if row["event"] == "offset_removed"
    ]
    figures: list[Table | Plot] = [_table("removals", "Removals, the newest first", columns, shown)]
    if bars:
        series = [(CAUSES[cause], color) for cause, color in colors.items()]
        caption = f"Offsets that were removed, by day, in the {DAYS} days before the audit"
        figures.insert(0, _last_days_plot(answers, "removals_by_day", caption, bars, series, "events_by_day", "offset"))
    removed = sum(row["offsets"] for row in rows)
    groups = sum(row["is_group_removed"] for row in rows)
    sentence = f"{counted(removed, 'offset')} and {counted(groups, 'group')} were removed in the log that was read."
    return Section("removals", heading, [sentence], figures)


def _findings(answers: Answers) -> Section:
    rows = answers["findings"]
    if not rows:
        nothing = "The last audit found nothing odd."
        if answers["lake"][0]["looked_by"] is None:
            nothing = "No audit has looked for what is odd yet; the next one does."
        return Section("findings", "Findings", [nothing])
    columns = [
        Column("severity", "Severity"),
        Column("finding", "Finding"),
        _GROUP,
        Column("topic", "Topic", is_minor=True),
        Column("partition", "Partition", "count", is_minor=True),
        Column("since", "Since (UTC)", "time", is_minor=True),
        Column("detail", "The fact, why it matters, what to do", longest=LONGEST_DETAIL),
    ]
    kinds = answers["findings_by_kind"]
    kind_columns = [
        Column("severity", "Severity"),
        Column("finding", "Finding"),
        Column("findings", "Findings", "count"),
        Column("group_count", "Groups", "count"),
        Column("since", "Since (UTC)", "time", is_minor=True),
    ]
    by_severity = {name: sum(row["severity"] == name for row in rows) for name in ("error", "warning", "notice")}
    said = [counted(count, name) for name, count in by_severity.items() if count]
    figures = [
        _table("findings_by_kind", "Findings of the last audit by kind, errors first", kind_columns, kinds),
        table("findings", "All of them", columns, rows, query("findings"), budget_bytes=_GROUPS_BYTES),
    ]
    return Section("findings", "Findings", [", ".join(said) + "."], figures)


def _groups(answers: Answers) -> Section:
    if not answers["groups_now"] and not answers["groups_by_day"]:
        return Section("groups", "Groups", ["The log that was read has no groups."])
    now = answers["groups_now"]
    states = sorted({row["state"] for row in now})
    by_type: dict[str, Row] = {}
    for row in now:
        group_type = by_type.setdefault(row["group_type"], {"group_type": row["group_type"], "total": 0})
        group_type[row["state"]] = row["group_count"]
        group_type["total"] += row["group_count"]
    crosstab = [dict.fromkeys(states) | row for row in by_type.values()]
    crosstab_columns = [
        Column("group_type", "Type"),
        *(Column(state, state, "count") for state in states),
        Column("total", "All", "count"),
    ]
    state_bars = _by_day(answers, "state")
    columns = [
        _GROUP,
        Column("group_type", "Type"),
        Column("state", "State"),
        Column("state_since", "Since (UTC)", "time", is_minor=True),
        Column("member_count", "Members", "count", is_minor=True),
        Column("offsets", "Offsets", "count"),
        Column("expires_at", "First expires (UTC)", "time", is_minor=True),
        Column("offsets_partition", "Offsets partition", "count", is_minor=True),
    ]
    figures: list[Table | Plot] = []
    if now:
        figures.append(
            _table("groups_now", "Groups by type and state, as of the audit", crosstab_columns, crosstab, is_small=True)
        )
    if state_bars:
        states = list(dict.fromkeys(row["series"] for row in sorted(state_bars, key=_state_order)))
        series = [(state, STATE_COLORS.get(state, GREY)) for state in states]
        caption = f"Groups by state, {_DAY_ENDS}"
        figures.append(_last_days_plot(answers, "states_by_day", caption, state_bars, series, "groups_by_day", "group"))
    if now:
        caption = "All groups"
        rows = answers["all_groups"]
        figures.append(table("all_groups", caption, columns, rows, query("all_groups"), budget_bytes=_ALL_GROUPS_BYTES))
    sentence = f"{counted(sum(row['group_count'] for row in now), 'group')} when the log ended."
    return Section("groups", "Groups", [sentence], figures)


_TYPE_COLORS = {"classic": GREY, "consumer": BLUE, "share": GREEN, "streams": PURPLE}


def _state_order(row: Row) -> int:
    return [*STATE_COLORS, row["series"]].index(row["series"])


def _by_day(answers: Answers, by: str) -> list[Row]:
    """Groups by state or type as each day ended; a day without records is as the one before."""
    counts: dict[datetime, dict[str, int]] = {}
    for row in answers["groups_by_day"]:
        of_day = counts.setdefault(row["day"], {})
        of_day[row[by]] = of_day.get(row[by], 0) + row["group_count"]
    if not counts:
        return []
    bars = []
    day, last = min(counts), _day(answers["lake"][0]["as_of"])
    standing: dict[str, int] = {}
    while day <= last:
        standing = counts.get(day, standing)
        bars += [{"day": day, "series": name, "value": value} for name, value in standing.items()]
        day += timedelta(days=1)
    return bars


def _rebalances(answers: Answers) -> Section:
    by_day, groups, members = (answers[name] for name in ("rebalances_by_day", "rebalancing_groups", "slowest_members"))
    if not by_day:
        return Section("rebalances", "Rebalances", [f"No group rebalanced in the {DAYS} days before the audit."])
    counts: Counter[tuple[datetime, str]] = Counter()
    for row in by_day:
        counts[row["day"], REBALANCES.get(row["cause"], OTHER_REBALANCE)] += row["rebalances"]
    bars = [{"day": day, "series": name, "value": value} for (day, name), value in counts.items()]
    series = list(zip([*REBALANCES.values(), OTHER_REBALANCE], (BLUE, AMBER, PURPLE, GREY), strict=True))
    sentences = [
        f"{counted(counts.total(), 'rebalance')} in the {DAYS} days before the audit. How long one took is known of "
        "consumer, share and streams groups only: the log does not tell when a rebalance of a classic group began."
    ]
    group_columns = [
        _GROUP,
        _TYPE,
        Column("rebalances", "Rebalances", "count"),
        Column("superseded", "Superseded", "count", is_minor=True),
        Column("longest_s", "Longest (s)", "rate"),
        Column("newest", "The newest (UTC)", "time", is_minor=True),
    ]
    member_columns = [
        _GROUP,
        Column("client_id", "Client id"),
        Column("slowest_member_id", "Member id", is_minor=True),
        Column("times_last", "Times last", "count"),
        Column("longest_s", "Longest (s)", "rate"),
        Column("newest", "The newest (UTC)", "time", is_minor=True),
    ]
    caption = "Rebalances by day and cause"
    figures: list[Table | Plot] = [
        _last_days_plot(answers, "rebalances_by_day", caption, bars, series, "rebalances_by_day", "rebalance"),
        _table(
            "rebalancing_groups", "The groups that rebalanced most (50 at most)", group_columns, _in_seconds(groups)
        ),
    ]
    if members:
        caption = "The slowest members: the last of their group to reach a new epoch, the longest first (50 at most)"
        figures.append(_table("slowest_members", caption, member_columns, _in_seconds(members)))
    return Section("rebalances", "Rebalances", sentences, figures)


def _in_seconds(rows: Iterable[Row]) -> list[Row]:
    return [{**row, "longest_s": None if row["longest_ms"] is None else row["longest_ms"] / 1000} for row in rows]


def _each_group(answers: Answers) -> list[Section]:
    if not answers["all_groups"] and not answers["newest_events"]:
        return []
    sentence = "Open a group for its committed offsets, the owners of their partitions and its newest events."
    return [Section("each-group", "Each group", [sentence], has_groups=True)]


def _migration(answers: Answers) -> Section:
    heading = "Migration to the new protocol (KIP-848)"
    bars = _by_day(answers, "group_type")
    if not bars:
        return Section("migration", heading, ["There are no groups of either protocol."])
    now: dict[str, int] = {}
    for row in answers["groups_now"]:
        now[row["group_type"]] = now.get(row["group_type"], 0) + row["group_count"]
    classic, consumer = now.get("classic", 0), now.get("consumer", 0)
    changes = answers["type_changes"]
    sentences = [f"{counted(classic, 'group')} with the classic protocol, {consumer:,} with the new one."]
    series = [(name, color) for name, color in _TYPE_COLORS.items() if any(bar["series"] == name for bar in bars)]
    caption = f"Groups by type, {_DAY_ENDS}"
    figures: list[Table | Plot] = [
        _last_days_plot(answers, "types_by_day", caption, bars, series, "groups_by_day", "group"),
    ]
    if changes:
        columns = [
            Column("event_timestamp", "When (UTC)", "time"),
            _GROUP,
            Column("value_before", "From"),
            Column("value_after", "To"),
        ]
        figures.append(
            _table("type_changes", "Groups that changed their type, the newest first", columns, changes, is_small=True)
        )
    else:
        sentences.append("No group changed its type in the log that was read.")
    return Section("migration", heading, sentences, figures)


def _offsets_topic(answers: Answers) -> Section:
    heading = "The topic __consumer_offsets itself"
    rows = answers["offsets_partitions"]
    if not any(row["records"] for row in rows):
        return Section("offsets-topic", heading, ["No record was read."])
    columns = [
        Column("offsets_partition", "Partition", "count"),
        Column("commits_per_hour", "Commits an hour", "rate"),
        Column("records", "Records", "count"),
        Column("live_records", "Still current", "count"),
        Column("records_per_live", "Records to a current one", "rate"),
        Column("tombstones", "Tombstones", "count", is_minor=True),
        Column("bytes", "Size", "bytes", is_minor=True),
        Column("open_transactions", "Open transactions", "count", is_minor=True),
    ]
    shown = [
        {**row, "records_per_live": row["records"] / row["live_records"] if row["live_records"] else None}
        for row in rows
    ]
    current = [
        {
            "at": str(row["offsets_partition"]),
            "series": "% still current",
            "value": 100 * row["live_records"] / (row["records"] or 1),
        }
        for row in rows
    ]
    current_series = [("% still current", BLUE)]
    rates = [
        {"at": str(row["offsets_partition"]), "series": "commits an hour", "value": row["commits_per_hour"] or 0}
        for row in rows
    ]
    rate_series = [("commits an hour", BLUE)]
    commits = [
        {"day": row["day"], "series": name, "value": row[column]}
        for row in answers["commits_by_day"]
        for name, column in (("plain", "plain_commits"), ("in transactions", "transactional_commits"))
    ]
    sql = query("offsets_partitions")
    figures: list[Table | Plot] = []
    if commits:
        caption = f"Offset commits by day, in the {DAYS} days before the audit"
        series = [("plain", BLUE), ("in transactions", AMBER)]
        figures.append(_last_days_plot(answers, "commits_by_day", caption, commits, series, "commits_by_day", "commit"))
    figures += [
        Plot(
            "current",
            "Records that are still current, in % of all that were read, by partition",
            svg(numbered_chart(current, current_series, Axes("partition", "% still current", None))),
            [],
            sql,
        ),
        Plot(
            "rates",
            "Offset commits an hour by partition, in its last 24 hours of log time",
            svg(numbered_chart(rates, rate_series, Axes("partition", "commits an hour", None))),
            [],
            sql,
        ),
        _table("offsets_partitions", "Rate and bloat by partition", columns, shown),
    ]
    if answers["busiest_groups"]:
        busiest = [
            _GROUP,
            Column("commits", "Commits", "count"),
            Column("tombstones", "Tombstones", "count", is_minor=True),
            Column("other_records", "Other records", "count", is_minor=True),
            Column("bytes", "Size", "bytes"),
        ]
        caption = "The groups that wrote most, in the last 24 hours of log time (50 at most)"
        figures.append(_table("busiest_groups", caption, busiest, answers["busiest_groups"]))
    records, live = sum(row["records"] for row in rows), sum(row["live_records"] for row in rows)
    sentence = (
        f"{records:,} records read, {live:,} of them ({live / records:.1%}) are still current; the others can be "
        "compacted away, tombstones and markers after their time."
    )
    return Section("offsets-topic", heading, [sentence], figures)


def _quarantine(answers: Answers) -> Section:
    rows = answers["quarantine"]
    if not rows:
        return Section("quarantine", "Quarantine", ["Every record that was read could be used."])
    columns = [
        Column("reason", "Reason"),
        Column("coordinator_fails", "A load would fail"),
        Column("entries", "Entries", "count"),
        Column("records", "Records", "count"),
        Column("partitions", "Partitions", "count", is_minor=True),
        Column("newest", "Newest (UTC)", "time", is_minor=True),
        Column("example", "One of them, in words", is_minor=True, longest=LONGEST_DETAIL),
    ]
    records = sum(row["records"] for row in rows)
    sentence = f"{counted(records, 'record')} could not be used; the table quarantine keeps their bytes."
    figure = _table("quarantine", "Records that could not be used, by reason", columns, rows)
    return Section("quarantine", "Quarantine", [sentence], [figure])


def _coverage(answers: Answers) -> Section:
    rows = answers["coverage"]
    if not rows:
        return Section("coverage", "Coverage", ["No partition was read."])
    columns = [
        Column("offsets_partition", "Partition", "count"),
        Column("first_log_offset", "First record", "count"),
        Column("complete_from", "Complete from", "count"),
        Column("read_to", "Read to", "count"),
        Column("lost", "Lost", "count"),
        Column("newest_log_timestamp", "Newest record (UTC)", "time", is_minor=True),
    ]
    gaps = sum(row["is_complete"] is False for row in rows)
    lost = sum(row["lost"] or 0 for row in rows)
    sentences = [
        f"History has every record of {len(rows) - gaps:,} of {counted(len(rows), 'partition')}, from the first that "
        "was read on" + ("." if not gaps else "; of the others it has none that was compacted away before it was read.")
    ]
    if lost:
        sentences.append(f"{counted(lost, 'offset')} were gone before an audit came: audit more often.")
    sentences += answers["lake"][0]["notes"] or []
    caption = "The part of each partition’s log that the tables hold, as offsets of that log"
    figure = _table("coverage", caption, columns, rows)
    return Section("coverage", "Coverage", sentences, [figure])


def _table(name: str, caption: str, columns: Sequence[Column], rows: Iterable[Row], is_small: bool = False) -> Table:
    """A table of the query of the same name."""
    return table(name, caption, columns, rows, query(name), is_small=is_small)


def _groups_table(name: str, caption: str, columns: Sequence[Column], rows: Iterable[Row]) -> Table:
    """The same, of a row a group."""
    return table(name, caption, columns, rows, query(name), budget_bytes=_GROUPS_BYTES)


def _days_to_come_plot(answers: Answers, name: str, caption: str, rows: Sequence[Row], series: Any) -> Plot:
    """The days from the audit's on, as far as there are bars, a week at least."""
    first = _day(answers["lake"][0]["as_of"])
    last = max(first + timedelta(days=6), *(row["day"] for row in rows))
    chart = days_chart(rows, series, _OFFSETS_BY_DAY, first, (last - first).days + 1, {})
    return Plot(name, caption, svg(chart), _drawn(rows, series), query(name))


def _last_days_plot(
    answers: Answers, name: str, caption: str, rows: Sequence[Row], series: Any, asked: str, noun: str
) -> Plot:
    """The days up to the audit, from the log's first on."""
    lake = answers["lake"][0]
    last = _day(lake["as_of"])
    first = max(last - timedelta(days=DAYS), _day(lake["oldest_hour"] or last))
    partial = {last: f"until {lake['as_of']:%H:%M} UTC"}
    if not caption.endswith(_DAY_ENDS) and lake["oldest_hour"] not in (None, first) and first not in partial:
        partial[first] = f"from {lake['oldest_hour']:%H:%M} UTC"
    chart = days_chart(rows, series, Axes(_DAY, f"{noun}s", noun), first, (last - first).days + 1, partial)
    return Plot(name, caption, svg(chart), _drawn(rows, series), query(asked), _partial_note(partial))


def _partial_note(partial: Mapping[datetime, str]) -> str:
    parts = " and ".join(f"{day:%-d %b} ({part})" for day, part in sorted(partial.items()))
    return f"Pale: {parts} {'is not a whole day' if len(partial) == 1 else 'are not whole days'}."


def _drawn(rows: Sequence[Row], series: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The series that have a bar; a single one needs no legend."""
    names = {row["series"] for row in rows}
    drawn = [(name, color) for name, color in series if name in names]
    return drawn if len(drawn) > 1 else []


def _day(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
