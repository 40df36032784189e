"""The page without a browser: which lakes get which sentences, and what is in the file."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

from kgroups_spark.report import figures
from kgroups_spark.report.figures import NAMES, Ask, Column, Plot, Section, Table, query, shown, table
from kgroups_spark.report.page import headlines as headlines_of
from kgroups_spark.report.page import html, report_page
from kgroups_spark.report.sections import (
    QUESTIONS,
    Answers,
    day_of,
    expiring_section,
    findings_section,
    lag_section,
    last_days_plot,
    moves_section,
    rebalances_section,
    removals_section,
    share_groups_section,
    transactional_ids_section,
    transactions_section,
)
from kgroups_spark.words import CAUSES
from tests.chosen import one_of
from tests.report.hostile_lakes import hostile_lake
from tests.report.made_lakes import (
    AS_OF,
    DAY,
    HOSTILE,
    Row,
    asked,
    audit_row,
    event_row,
    expiry_row,
    group_row,
    many_groups,
    partition_read,
    tables,
)


class Reader(HTMLParser):
    """The texts of a page by element, its scripts, and which attributes begin with `on`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.handlers: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in ("meta", "link", "input", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", " ".join(data.split())))

    def of(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]


class AskedOnce(dict[str, list[Row]]):
    """Answers for a part of the page: only those that it reads are asked for."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, name: str) -> list[Row]:
        self[name] = self._ask(query(name))
        return self[name]


def page_of(lake: dict[str, pa.Table], location: str = "lake") -> str:
    with asked(lake) as ask:
        return report_page(ask, location)


@cache
def page_of_many(count: int) -> str:
    return page_of(many_groups(count))


@cache
def hostile_page() -> str:
    return page_of(hostile_lake(), HOSTILE)


@cache
def page_of_nothing() -> str:
    return page_of(tables())


def read(**rows: Any) -> Reader:
    return Reader(page_of(tables(**rows)) if rows else page_of_nothing())


def headlines(reader: Reader) -> list[str]:
    return [text for tag, text in reader.texts if tag == "a"][: -reader.elements.count("section")]


def section_of(part: Callable[[Answers], Section], **rows: Any) -> tuple[Section, list[str]]:
    """One section, and the cells of its tables."""
    with asked(tables(**rows)) as ask:
        found = part(AskedOnce(ask))
    shown = [each for each in found.figures if isinstance(each, Table)]
    return found, [cell for each in shown for row in each.texts for cell in row]


def said_in(part: Callable[[Answers], Section], **rows: Any) -> Sequence[str]:
    """The headlines and the sentences of one section: a page of all of them takes ten times as long."""
    with asked(tables(**rows)) as ask:
        answers = AskedOnce(ask)
        return [*(each.text for each in headlines_of(answers)), *part(answers).sentences]


def test_a_lake_of_an_audit_that_read_nothing_says_so_everywhere() -> None:
    reader = read()
    assert "svg" not in reader.elements and "table" not in reader.elements
    assert reader.of("p")[1:-2] == [
        "There are no committed offsets.",
        "No offset is kept only because its group has members.",
        "No transaction was open at the end of the log.",
        "No transactional id is known: there is none, or __transaction_state was not read.",
        "No share partition is known: there is none, or __share_group_state was not read.",
        "No lag is known: every group has read everything, or no audit of a live cluster saw the ends of topics.",
        "No committed offset was rewound or skipped ahead in the log.",
        "No offset and no group was removed in the log.",
        "Every group was used in the last 30 days, and consumes every topic that it has offsets of.",
        "The last audit found nothing odd.",
        "The log has no groups.",
        "No group rebalanced in the 30 days before the audit.",
        "There are no groups of either protocol.",
        "No record was read.",
        "Every record that was read could be used.",
        "No partition was read.",
    ]


def test_findings_are_those_of_the_last_audit_that_looked() -> None:
    finding = {"finding": "ghost_member", "severity": "error", "detail": "d", "audit_id": 1}
    looked = [
        audit_row(rows_added={"findings": 1}),
        audit_row(audit_id=2, rows_added={}),
    ]  # the second one is maintenance
    assert "1 error found: ghost_member." in said_in(findings_section, audits=looked, findings=[finding])
    again = [*looked, audit_row(audit_id=3, rows_added={"findings": 0})]
    assert "The last audit found nothing odd." in said_in(findings_section, audits=again, findings=[finding])
    never = said_in(findings_section, audits=[audit_row(rows_added={})])
    assert "No audit has looked for findings yet; the next one will." in never


def test_transactions_have_their_names() -> None:
    """The open ones with their own timeout, those that the coordinator aborted in the last 30 days, all by state."""
    began = {"start_timestamp": AS_OF - DAY, "last_update_timestamp": AS_OF - DAY, "timeout_ms": 60_000}
    written = [{"topic": "t", "partition": 0}, {"topic": "__consumer_offsets", "partition": 3}]
    opened = {
        "transactional_id": "pay-1",
        "producer_id": 4010,
        "state": "Ongoing",
        "topic_partitions": written,
        **began,
    }
    two_phase = opened | {"transactional_id": "pay-2", "producer_id": 4011, "timeout_ms": 2**31 - 1}
    ended = {"transactional_id": "pay-3", "state": "CompleteCommit", "timeout_ms": 1, "topic_partitions": []}
    pending = {"producer_id": 4010, "group_id": "g", "topic": "t", "log_offset": 1, "offsets_partition": 3}
    event = {"log": "__transaction_state", "log_timestamp": AS_OF - DAY, "producer_id": 4012, "timeout_ms": 900_000}
    events = [
        event | {"event": "transaction_timed_out", "transactional_id": "late"},
        event | {"event": "producer_fenced", "transactional_id": "zombie", "log_timestamp": AS_OF - 2 * DAY},
        event | {"event": "producer_fenced", "transactional_id": "old", "log_timestamp": AS_OF - 40 * DAY},
        event | {"event": "share_offset_reset", "group_id": "g"},
    ]
    [only, *_] = section_of(transactional_ids_section, transactional_ids=[opened, ended])[0].sentences
    assert only.startswith("The transaction coordinator has 2 transactional ids; 1 has an open transaction.")
    made = {"transactional_ids": [opened, two_phase, ended], "state_events": events, "pending_offsets": [pending]}
    section, reported = section_of(transactional_ids_section, **made)
    said = "The transaction coordinator has 3 transactional ids; 2 have an open transaction."
    assert any(text.startswith(f"{said} It aborted 2 transactions by itself") for text in section.sentences)
    of_pay_1 = reported.index("pay-1")
    row = ["pay-1", "4010", "Ongoing", "2026-11-15 06:30:00", "1d", "1m", "2", "1", "1"]
    assert reported[of_pay_1 : of_pay_1 + len(row)] == row
    assert reported[reported.index("pay-2") + 5] == "none (two-phase)"
    late = ["2026-11-15 06:30:00", "late", "open for longer than its timeout", "4012", "–", "15m"]
    assert reported[reported.index("late") - 1 :][: len(late)] == late
    assert reported[reported.index("zombie") + 1] == "its producer was fenced" and "old" not in reported
    assert reported[reported.index("CompleteCommit") : reported.index("CompleteCommit") + 2] == ["CompleteCommit", "1"]


def test_share_partitions_have_their_lag_and_records_near_the_limit() -> None:
    stored = {"group_id": "s", "topic_id": "A", "topic": "jobs", "init_state": "initialized", "log_timestamp": AS_OF}
    partitions = [
        stored | {"partition": 0, "start_offset": 10, "delivery_complete_count": 3},
        stored | {"partition": 1, "start_offset": 7, "delivery_complete_count": None},
        stored | {"partition": 2, "start_offset": 10, "delivery_complete_count": 0},
    ]
    batch = {"group_id": "s", "topic_id": "A", "topic": "jobs", "partition": 0, "delivery_state": "available"}
    batches = [
        batch | {"first_offset": 12, "last_offset": 13, "delivery_count": 4, "attempts_left": 1},
        batch | {"first_offset": 20, "last_offset": 20, "delivery_count": 1, "attempts_left": 4},
        batch | {"first_offset": 14, "last_offset": 18, "delivery_state": "archived", "delivery_count": 5},
    ]
    seen = {"topic": "jobs", "status": "ok", "seen_at": AS_OF}
    ends = [seen | {"partition": p, "log_end_offset": end} for p, end in ((0, 40), (1, 90), (2, 1_010))]
    made = {"share_partitions": partitions, "share_batches": batches, "topic_offsets": ends}
    section, reported = section_of(share_groups_section, **made)
    assert list(section.sentences) == [
        "1 share group with 3 share partitions. 1,027 records of 2 partitions are still to be processed.",
        "2 records can be delivered once more at most. If that fails they are archived, and no consumer receives them "
        "again.",
    ]
    assert reported[reported.index("s") :][:7] == ["s", "jobs", "0", "12", "13", "4", "1"]
    listed = [reported[at : at + 8] for at in range(reported.index("s") + 7, len(reported)) if reported[at] == "s"]
    assert listed == [
        ["s", "jobs", "2", "initialized", "10", "1,000", "0", "0"],
        ["s", "jobs", "0", "initialized", "10", "27", "11", "5"],
        ["s", "jobs", "1", "initialized", "7", "–", "0", "0"],
    ]
    [first, *_] = section_of(share_groups_section, share_partitions=partitions)[0].sentences
    assert first == (
        "1 share group with 3 share partitions. Their lag is unknown: no audit of a live cluster saw the topics' ends, "
        "or the brokers are older than 4.2."
    )


def test_lag_is_shown_by_day_and_by_group_with_what_was_deleted_unread() -> None:
    ends = {1: (0, 100), 2: (0, 200), 3: (45, 300)}
    place = {"topic": "t", "partition": 0, "status": "ok"}
    seen = {number: place | {"audit_id": number, "seen_at": AS_OF - (3 - number) * DAY} for number in ends}
    slot = {"offsets_partition": 0, "topic": "t", "partition": 0}
    groups = {"slow": 40, "fast": 300, "stored before": -1}
    read = [{"offsets_partition": 0, "end_offset": 9}]
    section, reported = section_of(
        lag_section,
        audits=[audit_row(read, audit_id=number) for number in ends],
        group_traffic=[{"hour": AS_OF - 9 * DAY}],
        topic_offsets=[
            seen[number] | {"log_start_offset": start, "log_end_offset": end} for number, (start, end) in ends.items()
        ],
        committed_offsets=[slot | {"group_id": name, "committed_offset": offset} for name, offset in groups.items()],
        offset_commits=[
            slot | {"group_id": name, "committed_offset": offset, "log_offset": at}
            for at, (name, offset) in enumerate(groups.items())
        ],
    )
    assert list(section.sentences) == [
        "1 group has 260 records to read, by the ends of topics that the last audit of a live cluster saw.",
        "The topics have already deleted 5 records of these: nobody will read them.",
    ]
    assert reported[:4] == ["slow", "1", "260", "5"]
    (plot,) = [each for each in section.figures if isinstance(each, Plot)]
    assert [text for text in ("255", "5", "160", "60") if f"{text} record" not in plot.svg] == []
    assert [name for name, _ in plot.legend] == ["still in the topic", "deleted unread"]


def test_the_title_names_the_lake_the_audit_and_its_rules() -> None:
    reader = titled(audit_id=12)
    assert reader.of("title") == ["lake: audit 12, as of 2026-11-16 06:30:00 UTC, Kafka 4.3, retention 7d"]
    assert reader.of("h1") == ["lake"] and "lake /srv/lake" in reader.of("span")


def test_the_log_begins_with_its_first_record_and_not_with_the_hour_of_it() -> None:
    first = AS_OF - timedelta(days=3, minutes=5)
    hour = first.replace(minute=0)
    reader = read(
        audits=[audit_row([partition_read(records=2)], newest_log_timestamp=AS_OF)],
        offset_commits=[
            {"offsets_partition": 0, "log_offset": n, "group_id": "g", "log_timestamp": at}
            for n, at in enumerate([first, AS_OF])
        ],
        group_traffic=[
            {"offsets_partition": 0, "group_id": "g", "hour": hour, "commits": 1, "transactional_commits": 0}
            | {"tombstones": 0, "other_records": 0, "bytes": 9}
        ],
    )
    assert f"log from {first:%Y-%m-%d %H:%M} to {AS_OF:%Y-%m-%d %H:%M} UTC, 2 records" in reader.of("span")
    assert any(f"{first:%-d %b} (from {first:%H:%M} UTC)" in text for text in reader.of("p"))


def test_the_title_is_the_cluster_where_it_is_known() -> None:
    assert titled(cluster_id="kQ3X_-7bTfG").of("h1") == ["Kafka cluster kQ3X_-7bTfG"]
    named = titled("orders, Frankfurt", cluster_id="kQ3X_-7bTfG")
    assert named.of("h1") == ["orders, Frankfurt"]
    assert named.of("title")[0].startswith("orders, Frankfurt: audit 1, as of ")
    assert "lake /srv/lake" in named.of("span")


def titled(title: str | None = None, **facts: Any) -> Reader:
    """The page of a lake without groups of which these facts are reported."""
    with asked(tables()) as ask:
        answers = {name: ask(query(name)) for name in NAMES}
    return Reader(html(answers | {"lake": [answers["lake"][0] | facts]}, "/srv/lake", title))


@pytest.mark.parametrize(
    ("due", "within", "said"), [(0, 3, "a."), (1, 1, "a. It is due now."), (2, 2, "a. All of them are due now.")]
)
def test_offsets_that_are_due_now_have_their_own_sentence(due: int, within: int, said: str) -> None:
    offsets = [expiry_row("a", partition=n, expires_at=AS_OF if n < due else AS_OF + DAY) for n in range(within)]
    with asked(tables(groups=[group_row("a")], offset_expiry=offsets)) as ask:
        first, *_ = headlines_of(AskedOnce(ask))
    assert first.text.endswith(f"within 7 days: {said}")


def test_a_retention_of_many_months_has_a_plot_without_bars() -> None:
    """No offset expires within the 30 days that the plot shows."""
    late = {"expires_at": AS_OF + 89 * DAY, "expires_at_if_empty": AS_OF + 89 * DAY, "retention_ms": 90 * 86_400_000}
    said = said_in(expiring_section, groups=[group_row()], offset_expiry=[expiry_row(**late)])
    assert any(each.endswith("06:30 UTC, 0 offsets of 0 groups expire within 30 days.") for each in said)


def test_the_plot_of_the_days_to_come_ends_with_the_year_9999() -> None:
    as_of = datetime(9999, 12, 31, 12, tzinfo=UTC)
    rows = {"audits": [audit_row(as_of=as_of)], "offset_expiry": [expiry_row(as_of=as_of)]}
    said = said_in(expiring_section, groups=[group_row()], **rows)
    assert "1 offset, already due, will be removed at the broker’s next check." in said


CALM = "Nothing expires within 7 days, no transaction hangs"


def test_where_nothing_is_urgent_the_first_sentence_says_so() -> None:
    assert headlines(read()) == [f"{CALM}, no offset was rewound or skipped ahead in the last 7 days."]


def moved(event: str, before: int, after: int, group_id: str = "g", **reported: Any) -> Row:
    placed = {"topic": "t", "partition": 0, "cause": "no_members", "offset_before": before, "offset_after": after}
    return event_row(event, group_id, **placed | reported)


def again(before: int, after: int, group_id: str = "g") -> list[Row]:
    """An offset that expired, and its first commit after that."""
    removed = moved("offset_removed", before, after, group_id, offset_after=None, cause="expired", log_offset=0)
    return [removed, moved("offset_restarted", before, after, group_id)]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            [moved("offset_skipped", 5, 9)],
            ["1 group skipped up to 4 records in the last 7 days and will never read them: g."],
        ),
        (
            [moved("offset_rewound", 9, 5, "h"), *again(5, 9), moved("offset_skipped", 5, 8, "f")],
            [
                "2 groups skipped up to 7 records in the last 7 days and will never read them: f, g.",
                "1 group was rewound in the last 7 days and reads up to 4 records again: h.",
            ],
        ),
        (
            [*again(9, 5), *again(8, 2, "h")],
            [
                "2 groups began at lower offsets in the last 7 days, after their offsets had been removed, and read up "
                "to 10 records again: g, h."
            ],
        ),
        # Neither read again nor skipped, but the offset did fall: that of another topic of the name.
        ([moved("offset_rewound", 9, 5, cause="topic_recreated")], [f"{CALM}."]),
        (
            [moved("offset_skipped", 5, 9, event_timestamp=AS_OF - 8 * DAY), moved("offset_rewound", 9, -1, "h")],
            [f"{CALM}, no offset was rewound or skipped ahead in the last 7 days."],
        ),
    ],
)
def test_headlines_of_moves_say_what_happened_and_what_is_never_read_comes_first(
    events: list[Row], said: list[str]
) -> None:
    expires = {"groups": [group_row("e")], "offset_expiry": [expiry_row("e")]}
    with asked(tables(group_events=events)) as ask:
        assert [each.text for each in headlines_of(AskedOnce(ask))] == said
    if "skipped up to" in said[0]:
        with asked(tables(group_events=events, **expires)) as ask:
            assert headlines_of(AskedOnce(ask))[0].text == said[0]


@pytest.mark.parametrize(
    ("logs", "headline", "sentence"),
    [
        ([], "1 transaction likely hangs.", "1 likely hanging: open for longer than 15 minutes"),
        (["__transaction_state"], "1 transaction hangs.", "1 hanging: open for longer than 15 minutes"),
    ],
    ids=["age alone", "Kafka's rule"],
)
def test_a_transaction_hangs_for_certain_only_where_its_coordinators_log_was_read(
    logs: list[str], headline: str, sentence: str
) -> None:
    place = {"offsets_partition": 0, "producer_id": 2}
    lake = tables(
        audits=[audit_row([partition_read(topic=log) for log in logs], rows_added={"findings": 1})],
        open_transactions=[{**place, "transaction_start_offset": 2, "open_since": AS_OF - DAY}],
        findings=[{**place, "finding": "hanging_transaction", "severity": "warning", "detail": "d", "log_offset": 2}],
    )
    with asked(lake) as ask:
        answers = AskedOnce(ask)
        assert headline in [each.text for each in headlines_of(answers)]
        said, _ = transactions_section(answers).sentences
    assert said.startswith(f"1 transaction was open at the end of the log, {sentence}, Kafka’s default of ")
    assert ("by age alone" in said) is (logs == [])


@pytest.mark.parametrize("begins_behind", [timedelta(hours=1), timedelta(days=3)])
def test_a_log_that_begins_after_the_audits_moment_has_only_that_day(begins_behind: timedelta) -> None:
    lake = {"as_of": AS_OF, "traffic_begins": AS_OF + begins_behind}
    series = [("moved", "#123456")]
    bars = [{"day": day_of(AS_OF + begins_behind), "series": "moved", "value": 1}]
    found = last_days_plot({"lake": [lake]}, "moves", "Moves", bars, series, "events_by_day", "offset")
    assert f"{AS_OF:%-d %b}" in found.svg


MIDNIGHT = day_of(AS_OF)
UNTIL = f"{AS_OF:%-d %b} (until {AS_OF:%H:%M} UTC)"


@pytest.mark.parametrize(
    ("begins", "bars", "note"),
    [
        (AS_OF - 90 * DAY - DAY / 8, [AS_OF - 30 * DAY, AS_OF], f"{AS_OF - 30 * DAY:%-d %b} (from {AS_OF:%H:%M} UTC)"),
        (MIDNIGHT - 3 * DAY + DAY / 4, [AS_OF - 3 * DAY, AS_OF], f"{AS_OF - 3 * DAY:%-d %b} (from 06:00 UTC)"),
        (MIDNIGHT - 3 * DAY, [AS_OF - 3 * DAY, AS_OF], None),
    ],
)
def test_the_days_that_are_not_whole(begins: datetime, bars: list[datetime], note: str | None) -> None:
    found = moves_by_day(begins, bars)
    said = f"Pale: {note} and {UNTIL} are not whole days." if note else f"Pale: {UNTIL} is not a whole day."
    assert found.note == said


def test_nothing_is_said_of_a_day_without_a_bar() -> None:
    assert moves_by_day(AS_OF - 90 * DAY, [AS_OF - 2 * DAY]).note == ""


def moves_by_day(begins: datetime, bars: list[datetime]) -> Plot:
    """A plot of a log that begins then."""
    lake = {"as_of": AS_OF, "traffic_begins": begins}
    rows = [{"day": day_of(day), "series": "moved", "value": 1} for day in bars]
    return last_days_plot({"lake": [lake]}, "moves", "Moves", rows, [("moved", "#123456")], "events_by_day", "offset")


def test_a_group_in_two_offsets_partitions_counts_once() -> None:
    both = [group_row(state="Stable", member_count=1), group_row(offsets_partition=7)]
    kept = [expiry_row(offsets_partition=p, expires_at=None, expires_at_if_empty=AS_OF) for p in (0, 7)]
    reader = read(groups=both, offset_expiry=kept)
    assert "2 offsets of 1 group would be lost at once if the last member left: g." in headlines(reader)
    assert "1 group, 2 committed offsets" in reader.of("span")
    sentences = " ".join(reader.of("p"))
    for said in ("1 group when the log ended.", "2 offsets of 1 group stay only", "2 of them, of 1 group, would"):
        assert said in sentences


def test_urgent_facts_come_first_in_words() -> None:
    made = tables(
        groups=[group_row("a"), group_row("b"), group_row("c", group_type="consumer", state="Stable", member_count=1)],
        offset_expiry=[
            expiry_row("a", expires_at=AS_OF, decision="expire"),
            expiry_row("a", partition=1, expires_at=AS_OF + 7 * DAY),
            expiry_row("b", expires_at=AS_OF + 7 * DAY + DAY / 24),
            expiry_row("c", expires_at=None, reason="subscribed", expires_at_if_empty=AS_OF),
        ],
        open_transactions=[
            {"offsets_partition": 0, "producer_id": 1, "transaction_start_offset": 3, "open_since": AS_OF - DAY / 96},
            {"offsets_partition": 0, "producer_id": 2, "transaction_start_offset": 2, "open_since": AS_OF - DAY / 95},
        ],
        pending_offsets=[{"offsets_partition": 0, "producer_id": 2, "group_id": "p", "topic": "t", "log_offset": 2}],
        group_events=[
            event_row("offset_rewound", "r", topic="t", partition=0, offset_before=9, offset_after=4, cause="unknown"),
            # Eight days ago: reported below, but not a headline any more.
            event_row("offset_rewound", "old", topic="t", partition=0, offset_before=9, offset_after=4, cause="unknown")
            | {"event_timestamp": AS_OF - 8 * DAY},
        ],
        findings=[
            {"finding": "idle_share_group", "severity": "notice", "detail": "d"},
            {"finding": "ghost_member", "severity": "warning", "detail": "d"},
            {"finding": "ghost_member", "severity": "error", "detail": "d", "audit_id": 0},
            {"finding": "hanging_transaction", "severity": "warning", "detail": "d"}
            | {"offsets_partition": 0, "producer_id": 2, "log_offset": 2},
        ],
        quarantine=[
            {"offsets_partition": 0, "log_offset": 1, "record_count": 3, "reason": "corrupt_batch", "detail": "d"}
            | {"coordinator_fails": True},
            {"offsets_partition": 0, "log_offset": 9, "record_count": 1, "reason": "empty_value", "detail": "d"}
            | {"coordinator_fails": True},
        ],
    )
    with asked(made) as ask:
        found = headlines_of(AskedOnce(ask))
    assert [each.text for each in found] == [
        "1 group loses 2 offsets within 7 days: a. 1 of those offsets is due now.",
        "1 transaction likely hangs, with offsets of p.",
        "1 group was rewound in the last 7 days and reads up to 5 records again: r.",
        "2 warnings found: ghost_member, hanging_transaction.",
        "4 records could not be used; a coordinator would fail to load 1 record.",
        "1 offset of 1 group would be lost at once if the last member left: c.",
    ]


def test_groups_that_were_made_for_one_run_each_have_one_name_in_a_headline() -> None:
    runs = [f"report-{uuid.UUID(int=number << 64)}" for number in range(20)]
    made = tables(
        groups=[group_row(name) for name in [*runs, "billing", ""]],
        offset_expiry=[expiry_row(name, expires_at=AS_OF + DAY) for name in [*runs, "billing", ""]],
    )
    with asked(made) as ask:
        first, *_ = headlines_of(AskedOnce(ask))
    assert first.text == "22 groups lose 22 offsets within 7 days: '', billing, report-<uuid> (20 groups)."
    few = tables(
        groups=[group_row(name) for name in runs[:2]],
        offset_expiry=[expiry_row(name, expires_at=AS_OF + DAY) for name in runs[:2]],
    )
    with asked(few) as ask:
        first, *_ = headlines_of(AskedOnce(ask))
    assert first.text == f"2 groups lose 2 offsets within 7 days: {runs[0]}, {runs[1]}."


def group_parts(page: str) -> dict[str, str]:
    """The HTML of each group's part, by its anchor."""
    return {
        match[1]: match[2]
        for match in re.finditer('<details class="group" id="([^"]*)"[^>]*>(.*?)</details>', page, re.DOTALL)
    }


UNKNOWN = CAUSES["unknown"]


def test_each_group_has_an_anchor_with_its_offsets_owners_and_events() -> None:
    owned = {"topic": "t", "partition": 0}
    member = {"group_id": "a b", "member_id": "m-1", "client_id": "client-7", "client_host": "/10.0.0.7"}
    lake = tables(
        groups=[group_row("a b", state="Stable", member_count=1), group_row("quiet")],
        offset_expiry=[expiry_row("a b", **owned, committed_offset=1234), expiry_row("a b", topic="t", partition=1)],
        group_member_versions=[
            (member | {"log_offset": 3, "is_removed": False, "group_type": "classic"})
            | {
                "offsets_partition": 0,
                "log_timestamp": AS_OF - DAY,
                "assigned_partitions": [owned | {"topic_id": None}],
            }
        ],
        group_events=[
            event_row("state_changed", "a b", value_before="Empty", value_after="Stable", log_offset=3),
            event_row("member_joined", "a b", member_id="m-1", log_offset=3, event_index=1),
            event_row("offset_rewound", "a b", **owned, offset_before=9, offset_after=4, cause="unknown", log_offset=5),
            *(
                event_row("offset_rewound", "a b", topic="u", partition=p, log_offset=6, event_index=p, cause="unknown")
                | {"offset_before": before, "offset_after": after}
                for p, before, after in ((0, 45_608, 41_719), (1, 60_247, 55_839), (2, 9, 3))
            ),
            event_row("group_removed", "gone", cause="expired", value_before="Empty"),
            event_row("state_changed", "moody", value_before="Stable", value_after="Reconciling", log_offset=6),
            event_row("state_changed", "moody", value_before="Reconciling", value_after="Stable", log_offset=7),
        ],
    )
    parts = group_parts(page_of(lake))
    assert [*parts] == ["group-a%20b", "group-gone", "group-moody", "group-quiet"]
    assert Reader(parts["group-a%20b"]).of("td") == [
        *("t", "0", "1,234", "2026-11-15 06:30:00", "client-7", "/10.0.0.7", "2026-11-15 06:30:00"),
        *("t", "1", "5", "2026-11-15 06:30:00", "–", "–", "–"),
        *(
            "2026-11-15 06:30:00",
            "offset rewound",
            "u",
            "3",
            f"45,608 → 41,719 in partition 0, and 2 others ({UNKNOWN})",
        ),
        *("2026-11-15 06:30:00", "offset rewound", "t", "1", f"9 → 4 ({UNKNOWN})"),
        *("2026-11-15 06:30:00", "member joined", "–", "–", "m-1"),
        *("2026-11-15 06:30:00", "state", "–", "–", "Empty → Stable"),
    ]
    assert "classic, Stable, 1 member, 2 offsets" in parts["group-a%20b"]
    assert Reader(parts["group-gone"]).of("td") == ["2026-11-15 06:30:00", "group removed", "–", "–", CAUSES["expired"]]
    assert "is gone" in parts["group-gone"]
    assert Reader(parts["group-moody"]).of("td") == ["2026-11-15 06:30:00", "state", "–", "–", "2 changes"]
    assert "td" not in Reader(parts["group-quiet"]).elements


def test_a_group_with_many_offsets_and_events_shows_the_first_of_them() -> None:
    events = [
        event_row("offset_removed", topic=f"t{n:02}", partition=0, cause="expired", log_offset=n) for n in range(20)
    ]
    offsets = [expiry_row(partition=number) for number in range(40)]
    (part,) = group_parts(page_of(tables(groups=[group_row()], offset_expiry=offsets, group_events=events))).values()
    assert part.count("<tr>") == 2 + 30 + 15
    assert Reader(part).of("p") == [
        "Committed offsets and owners (the first 30 of 40)",
        "Events, the newest first (the first 15 of 20)",
    ]
    assert "t19" in part and "t04" not in part


def test_urgent_groups_are_on_the_page_when_there_is_no_room_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(group_parts(page_of_many(600))) == 600
    monkeypatch.setattr("kgroups_spark.report.page.BUDGET_BYTES", 1_000_000)
    page = page_of(many_groups(600))
    parts = group_parts(page)
    assert 995_000 < len(page.encode()) < 1_000_500
    assert 300 < len(parts) < 600
    assert f"{600 - len(parts):,} more groups are left out of this page" in page
    # Those that expire first: of every 30th group the offsets are due now.
    assert {f"group-team-{n % 37:02}.service-{n:05}.consumer" for n in range(0, 600, 30)} <= parts.keys()
    assert [*parts] == sorted(parts)


def test_rebalances_are_counted_by_day_and_the_slowest_members_are_named() -> None:
    moments = [AS_OF - 2 * DAY + n * DAY / 86_400 for n in (0, 7.5)]
    group = {"offsets_partition": 0, "group_id": "g", "group_type": "consumer", "is_removed": False}
    versions = [
        group
        | {"log_offset": 1, "log_timestamp": moments[0], "group_epoch": 1, "member_count": 1, "state": "Reconciling"}
    ]
    member = {"offsets_partition": 0, "group_id": "g", "member_id": "m-1", "client_id": "client-7", "is_removed": False}
    members = [
        member | {"log_offset": 0, "log_timestamp": moments[0], "member_epoch": 0, "member_state": "STABLE"},
        member | {"log_offset": 2, "log_timestamp": moments[1], "member_epoch": 1, "member_state": "STABLE"},
    ]
    traffic = {"group_id": "g", "hour": AS_OF - 9 * DAY}
    record = {"offsets_partition": 0, "group_id": "g", "record_type": 3}
    times = [AS_OF - 9 * DAY, moments[0]]
    section, reported = section_of(
        rebalances_section,
        groups=[group_row("g", group_type="consumer")],
        group_versions=versions,
        group_member_versions=members,
        group_records=[record | {"log_offset": offset, "log_timestamp": at} for offset, at in enumerate(times)],
        group_traffic=[traffic],
    )
    assert section.sentences[0].startswith("1 rebalance in the 30 days before the audit. ")
    slowest = ["g", "client-7", "m-1", "1", "7.5", "2026-11-14 06:30:07"]
    assert any(reported[at : at + 6] == slowest for at in range(len(reported)))
    of_the_day = ["g", "2026-11-14", "consumer", "1", "0", "7.5", "m-1", "2026-11-14 06:30:00"]
    assert any(reported[at : at + 8] == of_the_day for at in range(len(reported)))
    [plot] = [each for each in section.figures if isinstance(each, Plot)]
    assert 'aria-label="14 Nov 2026: 1 rebalance, ' in plot.svg


def test_members_that_wait_for_partitions_are_named_with_who_holds_them() -> None:
    in_group = {"offsets_partition": 0, "group_id": "g"}
    t_0 = [{"topic": "t", "topic_id": "T", "partition": 0, "assignment_epoch": None}]
    owner = in_group | {"member_id": "owner", "assigned_partitions": t_0, "target_partitions": []}
    waits = in_group | {"member_id": "waits", "assigned_partitions": [], "target_partitions": t_0}
    version = {"log_offset": 1, "log_timestamp": AS_OF - DAY, "group_epoch": 1, "member_count": 2, "is_removed": False}
    at = {"log_offset": 1, "log_timestamp": AS_OF - DAY, "is_removed": False}
    before = at | {"log_offset": 0}
    _, reported = section_of(
        rebalances_section,
        groups=[group_row("g", group_type="consumer")],
        group_members=[owner, waits],
        group_versions=[in_group | version | {"group_type": "consumer", "state": "Reconciling"}],
        group_member_versions=[waits | before | {"target_partitions": []}, waits | at],
        group_records=[in_group | {"log_offset": 1, "log_timestamp": AS_OF - DAY, "record_type": 3}],
        group_traffic=[{"group_id": "g", "hour": AS_OF - 9 * DAY}],
    )
    shown = ["g", "waits", "owner", "1", "t", "2026-11-15 06:30:00"]
    assert any(reported[at : at + 6] == shown for at in range(len(reported)))


def test_every_link_leads_to_a_section_and_none_out_of_the_page() -> None:
    reader = Reader(page_of_many(30))
    assert {link for link in reader.links if link != "data:,"} <= {f"#{name}" for name in reader.ids}
    assert len(reader.ids) == len(set(reader.ids))


def test_the_progress_names_the_parts_of_the_page() -> None:
    shown: list[str] = []
    with asked(many_groups(30)) as ask:
        page = Reader(report_page(ask, "lake", shown.append))
    headings = [heading.partition(": ")[2] for heading in shown if heading != "drawing"]
    assert headings == ["The last audit", *page.of("h2")]
    assert sorted(name for names in QUESTIONS.values() for name in names) == list(NAMES)


def test_every_figure_has_its_sql_and_so_have_the_tables_of_each_group() -> None:
    page = page_of_many(30)
    assert page.count("<figure ") + 2 == page.count('<details class="sql">') == page.count('<pre tabindex="0">') > 10
    assert "SQL: Committed offsets and owners" in page and "SQL: Events, the newest first" in page


def test_names_from_the_log_are_text_wherever_they_appear() -> None:
    page = hostile_page()
    plain, hostile = read(), Reader(page)
    assert "img" not in hostile.elements
    assert hostile.handlers == []
    # One script for each table that can be searched and the one of the page.
    searched = page.count(' class="table')
    assert hostile.elements.count("script") == searched + 1 > 5 and plain.elements.count("script") == 1
    cells = [text for text in hostile.of("td") if "onerror" in text]
    assert len(cells) > 10
    visible = (
        HOSTILE.replace("\x00", "\\x00").replace("\x1b", "\\x1b").replace("\n", "\\n").replace("\u202e", "\\u202e")
    )
    assert set(cells) == {visible, "b" + visible}
    assert not re.search("[\x00\x1b\u202e]", hostile_page())


def test_only_the_script_of_the_page_may_run() -> None:
    page = hostile_page()
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert re.fullmatch("script-src 'sha256-[A-Za-z0-9+/]{43}='", policy[1].split("; ")[-1])


def five_thousand_groups() -> None:
    page = page_of_many(5000)
    assert len(page.encode()) < 5_000_000
    [rows] = [
        json.loads(text)
        for text in re.findall('<script type="application/json">(.*?)</script>', page)
        if "Empty" in text and text.count("[") == 5001
    ]
    assert len({row[0] for row in rows}) == 5000


def names_of(length: int, count: int) -> None:
    names = [f"{number:05}" + "ü" * length for number in range(count)]
    lake = tables(
        groups=[group_row(name) for name in names],
        offset_expiry=[expiry_row(name, topic="t") for name in names],
        group_events=[event_row("offset_removed", name, topic="t", cause="expired") for name in names],
        findings=[
            {"finding": "ghost_member", "severity": "error", "group_id": name, "detail": name * 3} for name in names
        ],
    )
    page = page_of(lake)
    assert len(page.encode()) < 5_000_000
    assert ("more rows are left out of this page" in page) == (length > 5)
    assert len(group_parts(page)) > (90 if length <= 200 else 10)
    assert "…" not in page


SIZES = {
    "five thousand groups": five_thousand_groups,
    "short names": partial(names_of, 5, 2000),
    "long names": partial(names_of, 200, 2000),
    "very long names": partial(names_of, 5000, 200),
}


@pytest.mark.parametrize("size", one_of(*SIZES))
def test_the_page_stays_below_five_megabytes(size: str) -> None:
    SIZES[size]()


def test_a_figure_of_half_a_page_without_another_beside_it_is_alone() -> None:
    plots = [Plot(name, "", "", [], "") for name in "abc"]
    half, whole = Table("half", "", [], [], 0, "", is_small=True), Table("whole", "", [], [], 0, "")
    cases: list[tuple[list[Table | Plot], list[str]]] = [
        ([plots[0]], ["a"]),
        ([plots[0], whole], ["a"]),
        ([plots[0], half, whole], []),
        ([plots[0], plots[1], half, whole, plots[2]], ["half", "c"]),
        ([whole], []),
    ]
    for figures_here, alone in cases:
        assert Section("s", "", [], figures_here).alone == alone


def test_an_offset_that_no_client_sees_is_shown_as_none() -> None:
    offsets = [expiry_row(topic="t", partition=0, committed_offset=-1)]
    (part,) = group_parts(page_of(tables(groups=[group_row()], offset_expiry=offsets))).values()
    assert Reader(part).of("td")[:3] == ["t", "0", "–"]


def test_every_cause_of_a_move_and_of_a_removal_has_words() -> None:
    moves = [
        moved("offset_rewound", 9, 4, f"g-{cause}", cause=cause)
        for cause in ("no_members", "self_assigned", "with_members", "transaction", "topic_recreated", "unknown")
    ]
    section, reported = section_of(moves_section, group_events=moves)
    hows = [reported[at + 3] for at, cell in enumerate(reported) if cell.startswith("g-")]
    assert len(set(hows)) == 6 and not [how for how in hows if "_" in how]
    removals = [
        moved("offset_removed", 9, 4, cause=cause)
        for cause in ("expired", "probably_expired", "group_deleted", "offset_deleted", "topic_deleted", "unknown")
    ]
    section, reported = section_of(removals_section, group_events=removals)
    (plot,) = (each for each in section.figures if isinstance(each, Plot))
    assert len(plot.legend) == 6 and not [name for name, _ in plot.legend if "_" in name]


def test_no_name_is_cut() -> None:
    name, topic, detail = "checkout-service." * 40, "orders." * 35, "Its reader is gone;" * 60
    reader = read(
        groups=[group_row(name)],
        offset_expiry=[expiry_row(name, topic=topic, expires_at=AS_OF + DAY)],
        findings=[{"finding": "ghost_member", "severity": "error", "group_id": name, "detail": detail}],
    )
    assert any(name in headline for headline in headlines(reader))
    assert {name, topic, detail} <= {text for tag, text in reader.texts if tag in ("td", "a")}


def test_rows_that_do_not_fit_are_counted() -> None:
    columns = [Column("name", "Name"), Column("number", "Number", "count")]
    made = table("coverage", "c", columns, [{"name": "x" * 6, "number": n} for n in range(10)], budget_bytes=45)
    assert [row[1] for row in made.rows] == [0, 1, 2]
    assert made.left_out == 7


@pytest.mark.parametrize(
    ("cell", "kind", "text"),
    [
        (None, "count", "–"),
        (1234567, "count", "1,234,567"),
        (0, "count", "0"),
        (1234.56, "rate", "1,234.6"),
        (5, "rate", "5.0"),
        (999, "bytes", "999 B"),
        (541_250, "bytes", "541.2 kB"),
        (5_412_500, "bytes", "5.4 MB"),
        ("a", "text", "a"),
    ],
)
def test_cells_as_people_read_them(cell: Any, kind: figures.Kind, text: str) -> None:
    assert shown(cell, kind) == text
