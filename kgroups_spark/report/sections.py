"""The figures of the page in order, and the sentences in place of empty ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kgroups_spark.coordinator.transaction_shard import timeout_text
from kgroups_spark.report.figures import (
    ABORTS,
    AMBER,
    BLUE,
    BUDGET_BYTES,
    GREEN,
    GREY,
    MOVES,
    OTHER_REBALANCE,
    PALE_BLUE,
    PURPLE,
    REBALANCES,
    RED,
    STATE_COLORS,
    Axes,
    Column,
    Plot,
    Row,
    Section,
    Table,
    counted_from,
    days_chart,
    numbered_chart,
    query,
    svg,
    table,
)
from kgroups_spark.words import EVENTS, cause_text, counted, filled, format_duration, group_count

Answers = Mapping[str, Sequence[Row]]  # rows by query
DAYS = 30
DAY, AS_EACH_DAY_ENDED = "day (UTC)", "as each day ended"
OFFSETS_BY_DAY = Axes(DAY, "offsets", "offset")
# Tables with a row for each group have up to 5,000 of them; all tables together stay below 4 MB.
ALL_GROUPS_BYTES, GROUPS_BYTES = 900_000, 550_000


def days_to_come_plot(answers: Answers, name: str, caption: str, rows: Sequence[Row], series: Any) -> Plot:
    """The days from the audit's on: to the last bar, at least a week, at most to the year 9999; perhaps no bar."""
    first = day_of(answers["lake"][0]["as_of"])
    days = max([7, *((row["day"] - first).days + 1 for row in rows)])
    days = min(days, (datetime.max.replace(tzinfo=first.tzinfo) - first).days + 1)
    chart = days_chart(rows, series, OFFSETS_BY_DAY, first, days, {})
    return Plot(name, caption, svg(chart), legend_of(rows, series), query(name))


def last_days_plot(
    answers: Answers, name: str, caption: str, rows: Sequence[Row], series: Any, asked: str, noun: str
) -> Plot:
    """The days up to the audit's, from the log's first on, which may be later (--as-of)."""
    as_of = answers["lake"][0]["as_of"]
    begins = max(as_of - timedelta(days=DAYS), answers["lake"][0]["traffic_begins"] or as_of)
    last = day_of(as_of)
    first = min(last, day_of(begins))
    partial = {last: f"until {as_of:%H:%M} UTC"}
    if not caption.endswith(AS_EACH_DAY_ENDED) and first < begins and first != last:
        partial[first] = f"from {begins:%H:%M} UTC"
    chart = days_chart(rows, series, Axes(DAY, f"{noun}s", noun), first, (last - first).days + 1, partial)
    pale = sorted(partial.keys() & {row["day"] for row in rows})
    parts = " and ".join(f"{day:%-d %b} ({partial[day]})" for day in pale)
    note = f"Pale: {parts} {'is not a whole day' if len(pale) == 1 else 'are not whole days'}." if pale else ""
    return Plot(name, caption, svg(chart), legend_of(rows, series), query(asked), note)


def legend_of(rows: Sequence[Row], series: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The series that have a bar; a single one needs no legend, so the list is empty."""
    names = {row["series"] for row in rows}
    drawn = [(name, color) for name, color in series if name in names]
    return drawn if len(drawn) > 1 else []


def day_of(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def expiring_section(answers: Answers) -> Section:
    lake, soon = answers["lake"][0], answers["expiring_soon"][0]
    groups = answers["expiring_groups"]
    what_if = _what_if(answers)
    if not groups:
        nothing = (
            "No committed offset expires if things stay as they are."
            if soon["offsets"]
            else "There are no committed offsets."
        )
        return Section("expiring", "Expiring offsets by day", [nothing], what_if if soon["offsets"] else [])
    sentences = [
        f"If every group stays as it was at {lake['as_of']:%Y-%m-%d %H:%M} UTC, "
        f"{counted(soon['month_offsets'], 'offset')} of {counted(soon['month_groups'], 'group')} "
        f"{'expires' if soon['month_offsets'] == 1 else 'expire'} within {DAYS} days."
    ]
    if soon["due_offsets"]:
        sentences.append(
            f"{counted(soon['due_offsets'], 'offset')}, already due, will be removed at the broker’s next check."
        )
    rows = [{**row, "counted_from": counted_from(row)} for row in groups]
    by_day = [
        {"day": row["day"], "series": "due now" if row["is_due"] else "later", "value": row["offsets"]}
        for row in answers["expiring_by_day"]
    ]
    figures: list[Table | Plot] = [
        days_to_come_plot(
            answers,
            "expiring_by_day",
            f"Offsets that expire, by day, in the {DAYS} days after the audit",
            by_day,
            [("due now", RED), ("later", BLUE)],
        ),
        *what_if,
        table("expiring_groups", rows, budget_bytes=GROUPS_BYTES),
    ]
    return Section("expiring", "Expiring offsets by day", sentences, figures)


def _what_if(answers: Answers) -> list[Table | Plot]:
    """The effect of another retention. Offsets of groups with members or subscriptions stay in any case."""
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
    series = [("at once", RED), ("within 7 days", BLUE), ("within 30 days", PALE_BLUE)]
    plot = Plot(
        "what_if_plot",
        "Offsets that expire, if offsets.retention.minutes were",
        svg(numbered_chart(bars, series, Axes("retention", "offsets", "offset"))),
        legend_of([bar for bar in bars if bar["value"]], series),
        query("what_if_retention"),
    )
    return [plot, table("what_if_retention", rows, is_small=True)]


def if_empty_section(answers: Answers) -> Section:
    rows = answers["if_empty"]
    at_once = [row for row in rows if row["at_once"]]
    heading = "Offsets lost at once if a group empties"
    if not rows:
        return Section("if-empty", heading, ["No offset is kept only because its group has members."])
    offsets, groups = sum(row["at_once"] for row in rows), group_count(at_once)
    kept = sum(row["offsets"] for row in rows)
    sentences = [
        f"{counted(kept, 'offset')} of {counted(group_count(rows), 'group')} stay only as long as their groups do not "
        "change. "
        + (
            f"{offsets:,} of them, of {counted(groups, 'group')}, would be due as soon as the last member leaves: "
            "KIP-848 groups count from the commit, however old it is."
            if offsets
            else "None would be due at once: each has a full retention left when its group empties, or part of it."
        )
    ]
    return Section("if-empty", heading, sentences, [table("if_empty", rows, budget_bytes=GROUPS_BYTES)])


def findings_section(answers: Answers) -> Section:
    rows = answers["findings"]
    if not rows:
        nothing = "The last audit found nothing odd."
        if answers["lake"][0]["looked_by"] is None:
            nothing = "No audit has looked for findings yet; the next one will."
        return Section("findings", "Findings", [nothing])
    by_severity = {name: sum(row["severity"] == name for row in rows) for name in ("error", "warning", "notice")}
    said = [counted(count, name) for name, count in by_severity.items() if count]
    figures = [
        table("findings_by_kind", answers["findings_by_kind"]),
        table("findings", rows, budget_bytes=GROUPS_BYTES),
    ]
    return Section("findings", "Findings", [", ".join(said) + "."], figures)


def groups_section(answers: Answers) -> Section:
    if not answers["groups_now"] and not answers["groups_by_day"]:
        return Section("groups", "Groups", ["The log has no groups."])
    now = answers["groups_now"]
    states = sorted({row["state"] for row in now if row["state"] is not None})
    by_type: dict[str, Row] = {}
    for row in now:
        group_type = by_type.setdefault(row["group_type"], {"group_type": row["group_type"]})
        group_type[row["state"] or "total"] = row["group_count"]
    crosstab = [dict.fromkeys(states) | row for row in by_type.values()]
    columns = [
        Column("group_type", "Type"),
        *(Column(state, state, "count") for state in states),
        Column("total", "All", "count"),
    ]
    state_bars = _by_day(answers, "state")
    figures: list[Table | Plot] = []
    if now:
        figures.append(table("groups_now", crosstab, columns=columns, is_small=True))
    if state_bars:
        others = dict.fromkeys(row["series"] for row in state_bars if row["series"] not in STATE_COLORS)
        drawn = {row["series"] for row in state_bars}
        series = [(state, color) for state, color in STATE_COLORS.items() if state in drawn]
        series += [(state, GREY) for state in others]
        caption = f"Groups by state, {AS_EACH_DAY_ENDED}"
        figures.append(last_days_plot(answers, "states_by_day", caption, state_bars, series, "groups_by_day", "group"))
    if now:
        figures.append(table("all_groups", answers["all_groups"], budget_bytes=ALL_GROUPS_BYTES))
    sentence = f"{counted(answers['lake'][0]['group_count'], 'group')} when the log ended."
    return Section("groups", "Groups", [sentence], figures)


_TYPE_COLORS = {"classic": GREY, "consumer": BLUE, "share": GREEN, "streams": PURPLE}


def _by_day(answers: Answers, by: str) -> list[Row]:
    """Groups by state or type at the end of each day; a day without records repeats the previous one."""
    counts: dict[datetime, dict[str, int]] = {}
    for row in answers["groups_by_day"]:
        of_day = counts.setdefault(row["day"], {})
        of_day[row[by]] = of_day.get(row[by], 0) + row["group_count"]
    if not counts:
        return []
    bars = []
    day, last = min(counts), day_of(answers["lake"][0]["as_of"])
    standing: dict[str, int] = {}
    while day <= last:
        standing = counts.get(day, standing)
        bars += [{"day": day, "series": name, "value": value} for name, value in standing.items()]
        day += timedelta(days=1)
    return bars


def migration_section(answers: Answers) -> Section:
    heading = "Migration to the new protocol (KIP-848)"
    bars = _by_day(answers, "group_type")
    if not bars:
        return Section("migration", heading, ["There are no groups of either protocol."])
    now = {row["group_type"]: row["group_count"] for row in answers["groups_now"] if row["state"] is None}
    classic, consumer = now.get("classic", 0), now.get("consumer", 0)
    sentences = [f"{counted(classic, 'group')} with the classic protocol, {consumer:,} with the new one."]
    if not answers["type_changes"]:
        sentences.append("No group changed its type in the log.")
    series = [(name, color) for name, color in _TYPE_COLORS.items() if any(bar["series"] == name for bar in bars)]
    caption = f"Groups by type, {AS_EACH_DAY_ENDED}"
    timeouts = [row | {"timeout": timeout_text(row["longest_timeout_ms"])} for row in answers["exactly_once"]]
    figures: list[Table | Plot] = [
        last_days_plot(answers, "types_by_day", caption, bars, series, "groups_by_day", "group"),
        *figures_of(_MIGRATION_TABLES, {**answers, "exactly_once": timeouts}),
    ]
    return Section("migration", heading, sentences, figures)


# Parts of the page as data: a question, the sentence without an answer, sentences, tables and bars.


# Columns whose values are shown in words.
WORDS: Mapping[str, Callable[[Any], str | None]] = {
    "event": lambda event: EVENTS.get(event, event),
    "cause": cause_text,
}


@dataclass(frozen=True)
class TableOf:
    """The answer to a query, whose file has the caption and the columns."""

    query: str
    budget_bytes: int = BUDGET_BYTES
    is_small: bool = False

    def figures(self, answers: Answers) -> list[Table | Plot]:
        rows = [
            row
            | {name: text(row[name]) for name, text in WORDS.items() if name in row}
            | {"longest_s": row["longest_ms"] / 1000 if row.get("longest_ms") is not None else None}
            for row in answers[self.query]
        ]
        how: dict[str, Any] = {"budget_bytes": self.budget_bytes, "is_small": self.is_small}
        return [table(self.query, rows, **how)] if rows else []


@dataclass(frozen=True)
class BarsOf:
    """Bars for the last days: `value` by day and by `series`, a column whose values have names and colours."""

    name: str
    query: str
    caption: str
    series: str
    colors: Mapping[str, str]
    value: str
    noun: str
    where: Callable[[Row], bool] = bool

    def figures(self, answers: Answers) -> list[Table | Plot]:
        text = WORDS.get(self.series, str)
        bars = [
            {"day": row["day"], "series": text(row[self.series]), "value": row[self.value]}
            for row in answers[self.query]
            if self.where(row)
        ]
        series = [(text(name), color) for name, color in self.colors.items()]
        return [last_days_plot(answers, self.name, self.caption, bars, series, self.query, self.noun)] if bars else []


def figures_of(parts: Iterable[TableOf | BarsOf], answers: Answers) -> list[Table | Plot]:
    return [figure for each in parts for figure in each.figures(answers)]


@dataclass(frozen=True)
class Part:
    """`asked`: the query whose answer the sentences are about; without rows there is only the sentence `nothing`."""

    name: str
    heading: str
    asked: str
    nothing: str
    sentences: Sequence[str]
    figures: Sequence[TableOf | BarsOf]

    def __call__(self, answers: Answers) -> Section:
        rows = answers[self.asked]
        if not rows:
            return Section(self.name, self.heading, [self.nothing])
        facts = facts_of(answers, [self.asked, *(figure.query for figure in self.figures)])
        said = filter(None, (filled(text, facts) for text in self.sentences))
        return Section(self.name, self.heading, [*said], figures_of(self.figures, answers))


def facts_of(answers: Answers, queries: Sequence[str]) -> dict[str, Any]:
    """For sentences: `removals`, the number of that query's rows; `removals_groups`; `removals_offsets`, the sum of its
    column, null without a value; `removals_offsets_known`, the number of values; `removals_no_offsets`, empty without
    one, else null."""
    facts = defaultdict[str, Any](lambda: None)
    for name in queries:
        rows = answers[name]
        facts |= {name: len(rows), f"{name}_groups": group_count(rows) if rows and "group_id" in rows[0] else None}
        for column in rows[0] if rows else ():
            values = [row[column] for row in rows if isinstance(row[column], int)]
            facts |= {f"{name}_{column}": sum(values) if values else None, f"{name}_{column}_known": len(values)}
            facts[f"{name}_no_{column}"] = None if values else ""
    return facts


_MIGRATION_TABLES = (
    TableOf("type_changes", is_small=True),
    TableOf("migration", is_small=True),
    TableOf("exactly_once", GROUPS_BYTES),
)


def offsets_topic_section(answers: Answers) -> Section:
    heading = "The topic __consumer_offsets itself"
    rows = answers["offsets_partitions"]
    if not any(row["records"] for row in rows):
        return Section("offsets-topic", heading, ["No record was read."])
    records, live = sum(row["records"] for row in rows), sum(row["live_records"] for row in rows)
    sentence = (
        f"{records:,} records read, {live:,} of them ({live / records:.1%}) are still current; the others can be "
        "compacted away, tombstones and markers after their time."
    )
    commits = [
        {"day": row["day"], "kind": kind, "commits": row[column]}
        for row in answers["commits_by_day"]
        for kind, column in (("plain", "plain_commits"), ("in transactions", "transactional_commits"))
    ]
    shown = [
        {**row, "records_per_live": row["records"] / row["live_records"] if row["live_records"] else None}
        for row in rows
    ]
    figures = figures_of(_TOPIC_FIGURES, {**answers, "commits_by_day": commits, "offsets_partitions": shown})
    return Section("offsets-topic", heading, [sentence], figures)


_TOPIC_FIGURES = (
    BarsOf(
        "commits_by_day",
        "commits_by_day",
        f"Offset commits by day, in the {DAYS} days before the audit",
        "kind",
        {"plain": BLUE, "in transactions": AMBER},
        "commits",
        "commit",
    ),
    TableOf("offsets_partitions"),
    TableOf("busiest_groups"),
)


quarantine_section = Part(
    "quarantine",
    "Quarantine",
    "quarantine",
    "Every record that was read could be used.",
    ["{quarantine_records:counted record} could not be used; the table quarantine keeps their bytes."],
    [TableOf("quarantine")],
)


def coverage_section(answers: Answers) -> Section:
    rows = answers["coverage"]
    if not rows:
        return Section("coverage", "Coverage", ["No partition was read."])
    gaps = sum(row["is_complete"] is False for row in rows)
    lost = sum(row["lost"] or 0 for row in rows)
    sentences = [
        f"History has every record of {len(rows) - gaps:,} of {counted(len(rows), 'partition')}, from the "
        "first one read"
        + ("." if not gaps else "; the others lack records that were compacted away before they were read.")
    ]
    if lost:
        sentences.append(f"{counted(lost, 'offset')} were compacted away before an audit read them: audit more often.")
    sentences += answers["lake"][0]["notes"] or []
    return Section("coverage", "Coverage", sentences, [table("coverage", rows)])


moves_section = Part(
    "moves",
    "Offsets rewound or skipped ahead",
    "offset_moves",
    "No committed offset was rewound or skipped ahead in the log.",
    [
        "The log does not record who committed. If a group has members at other times, a lower offset committed while "
        "it has none is most likely an admin reset. If its consumers assign themselves, the log cannot tell."
    ],
    [
        BarsOf(
            "moves_by_day",
            "events_by_day",
            f"Partitions whose offset moved, by day, in the {DAYS} days before the audit",
            "event",
            dict(zip(MOVES, (RED, AMBER, PURPLE), strict=True)),
            "events",
            "partition",
            lambda row: row["event"] in MOVES,
        ),
        TableOf("offset_moves"),
    ],
)
removals_section = Part(
    "removals",
    "Offsets and groups that were removed",
    "removals",
    "No offset and no group was removed in the log.",
    ["{removals_offsets:counted offset} and {removals_is_group_removed:counted group} were removed in the log."],
    [
        BarsOf(
            "removals_by_day",
            "events_by_day",
            f"Offsets that were removed, by day, in the {DAYS} days before the audit",
            "cause",
            {"expired": BLUE, "probably_expired": PURPLE, "group_deleted": RED, "offset_deleted": AMBER}
            | {"topic_deleted": GREEN, "unknown": GREY},
            "events",
            "offset",
            lambda row: row["event"] == "offset_removed",
        ),
        TableOf("removals"),
    ],
)


def clean_up_section(answers: Answers) -> Section:
    """Groups and offsets that nobody uses, and offsets that expired although their group had members."""
    tables = (
        TableOf("unused_groups", GROUPS_BYTES),
        TableOf("no_longer_consumed", GROUPS_BYTES),
        TableOf("lost_while_active"),
    )
    figures = figures_of(tables, answers)
    nothing = ["Every group was used in the last 30 days, and consumes every topic that it has offsets of."]
    return Section("clean-up", "Unused groups and offsets", [] if figures else nothing, figures)


def rebalances_section(answers: Answers) -> Section:
    by_day = answers["rebalances_by_day"]
    if not by_day:
        return Section("rebalances", "Rebalances", [f"No group rebalanced in the {DAYS} days before the audit."])
    counts: Counter[tuple[datetime, str]] = Counter()
    for row in by_day:
        counts[row["day"], REBALANCES.get(row["cause"], OTHER_REBALANCE)] += row["rebalances"]
    bars = [{"day": day, "series": name, "value": value} for (day, name), value in counts.items()]
    series = list(zip([*REBALANCES.values(), OTHER_REBALANCE], (BLUE, AMBER, PURPLE, GREY), strict=True))
    sentences = [
        f"{counted(counts.total(), 'rebalance')} in the {DAYS} days before the audit. Durations are known only for "
        "consumer, share and streams groups: the log does not show when a rebalance of a classic group began."
    ]
    name = "rebalances_by_day"
    plot = last_days_plot(answers, name, "Rebalances by day and cause", bars, series, name, "rebalance")
    waiting, others = (figures_of(tables, answers) for tables in (_REBALANCE_TABLES[:1], _REBALANCE_TABLES[1:]))
    return Section("rebalances", "Rebalances", sentences, [*waiting, plot, *others])


_REBALANCE_TABLES = (
    TableOf("waiting_partitions"),
    TableOf("rebalancing_groups"),
    TableOf("slowest_members"),
    TableOf("handovers"),
)


lag_section = Part(
    "lag",
    "Lag",
    "lagging_groups",
    "No lag is known: every group has read everything, or no audit of a live cluster saw the ends of topics.",
    [
        "{lagging_groups:counted group} {lagging_groups:has|have} {lagging_groups_lag:counted record} to read, by the "
        "ends of topics that the last audit of a live cluster saw.",
        "[The topics have already deleted {lagging_groups_records_lost:counted record} of these: nobody will read "
        "them.]",
    ],
    [
        BarsOf(
            "lag_by_day",
            "lag_by_day",
            f"Records that all groups had not read, {AS_EACH_DAY_ENDED}",
            "records",
            {"still in the topic": BLUE, "deleted unread": RED},
            "value",
            "record",
        ),
        TableOf("lagging_groups", GROUPS_BYTES),
    ],
)

share_groups_section = Part(
    "share-groups",
    "Share groups",
    "share_partitions",
    "No share partition is known: there is none, or __share_group_state was not read.",
    [
        "{share_partitions_groups:counted share group} with {share_partitions:counted share partition}. "
        "[{share_partitions_lag:counted record} of {share_partitions_lag_known:counted partition} are still to be "
        "processed.][{share_partitions_no_lag:|}Their lag is unknown: no audit of a live cluster saw the topics' ends, "
        "or the brokers are older than 4.2.]",
        "[{share_near_limit_records:counted record} can be delivered once more at most. If that fails they are "
        "archived, and no consumer receives them again.]",
        "[{dead_letters_records:counted record} were given up in history: rejected, or delivered too often.]",
        "[{share_partitions_full_windows:counted partition} have a full window: consumers receive no new records.]",
    ],
    [
        TableOf("share_near_limit"),
        TableOf("share_partitions", GROUPS_BYTES),
        TableOf("dead_letters"),
        TableOf("redeliveries"),
    ],
)


def transactions_section(answers: Answers) -> Section:
    rows = answers["open_transactions"]
    heading = "Open transactions"
    if not rows:
        return Section("transactions", heading, ["No transaction was open at the end of the log."])
    lake = answers["lake"][0]
    as_of, is_known = lake["as_of"], lake["has_transaction_state"]
    sentences = _sentences(len(rows), sum(row["is_hanging"] for row in rows), is_known)
    shown = [
        {
            **row,
            "producer_id": str(row["producer_id"]),
            "age": _age(as_of, row["open_since"]),
            "verdict": "yes" if row["is_hanging"] else "no",
            "groups": f"{row['group_id']} and {row['group_count'] - 1} more"
            if row["group_count"] > 1
            else row["group_id"],
        }
        for row in rows
    ]
    return Section("transactions", heading, sentences, [table("open_transactions", shown)])


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


def transactional_ids_section(answers: Answers) -> Section:
    states, aborted = answers["transactional_states"], answers["aborted_by_coordinator"]
    named = answers["named_transactions"]
    heading = "Transactions by name"
    if not states and not aborted:
        nothing = "No transactional id is known: there is none, or __transaction_state was not read."
        return Section("transactional-ids", heading, [nothing])
    as_of = answers["lake"][0]["as_of"]
    ids = counted(sum(row["transactional_ids"] for row in states), "transactional id")
    has = "has" if len(named) == 1 else "have"
    sentences = [
        f"The transaction coordinator has {ids}; {len(named):,} {has} an open transaction. It aborted "
        f"{counted(len(aborted), 'transaction')} by itself in the {DAYS} days before the audit."
    ]
    shown = {
        **answers,
        "named_transactions": [row | _as_texts(row) | {"age": _age(as_of, row["start_timestamp"])} for row in named],
        "aborted_by_coordinator": [row | _as_texts(row) | {"why": ABORTS[row["event"]]} for row in aborted],
    }
    return Section("transactional-ids", heading, sentences, figures_of(_TRANSACTION_TABLES, shown))


_TRANSACTION_TABLES = (
    TableOf("named_transactions"),
    TableOf("aborted_by_coordinator"),
    TableOf("transactional_states", is_small=True),
)


def _as_texts(row: Row) -> Row:
    """The row with its producer id as text, because the number is a name, without thousands separators."""
    producer_id = None if row["producer_id"] is None else str(row["producer_id"])
    return {"producer_id": producer_id, "timeout": timeout_text(row["timeout_ms"])}


def _age(as_of: datetime, since: datetime | None) -> str | None:
    return None if since is None else format_duration((as_of - since) // timedelta(milliseconds=1))


# The parts of the page in order, the urgent ones first: heading, queries whose answers it shows, and the part itself.
PARTS: Sequence[tuple[str, str, Callable[[Answers], Section] | None]] = (
    ("The last audit", "lake", None),
    ("Expiring offsets by day", "expiring_by_day expiring_groups expiring_soon what_if_retention", expiring_section),
    ("Offsets lost at once if a group empties", "if_empty", if_empty_section),
    ("Open transactions", "open_transactions", transactions_section),
    (
        "Transactions by name",
        "transactional_states named_transactions aborted_by_coordinator",
        transactional_ids_section,
    ),
    ("Share groups", "share_partitions share_near_limit dead_letters redeliveries", share_groups_section),
    ("Lag", "lag_by_day lagging_groups", lag_section),
    ("Offsets rewound or skipped ahead", "offset_moves events_by_day", moves_section),
    ("Offsets and groups that were removed", "removals", removals_section),
    ("Unused groups and offsets", "unused_groups no_longer_consumed lost_while_active", clean_up_section),
    ("Findings", "findings findings_by_kind", findings_section),
    ("Groups", "groups_now groups_by_day all_groups", groups_section),
    (
        "Rebalances",
        "rebalances_by_day rebalancing_groups slowest_members handovers waiting_partitions",
        rebalances_section,
    ),
    ("Migration to the new protocol (KIP-848)", "type_changes migration exactly_once", migration_section),
    ("The topic __consumer_offsets itself", "offsets_partitions commits_by_day busiest_groups", offsets_topic_section),
    ("Quarantine", "quarantine", quarantine_section),
    ("Coverage", "coverage", coverage_section),
    ("Each group", "group_offsets newest_events", None),
)
QUESTIONS = {heading: names.split() for heading, names, _ in PARTS}


def sections(answers: Answers) -> list[Section]:
    found = [part(answers) for _, _, part in PARTS if part]
    if answers["all_groups"] or answers["newest_events"]:
        sentence = "Open a group for its committed offsets, the owners of their partitions and its newest events."
        found.append(Section("each-group", "Each group", [sentence], has_groups=True))
    return found
