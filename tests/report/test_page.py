"""The page without a browser: which lakes get which sentences, and what is in the file."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kgroups_spark.report.figures import (
    BLUE,
    NAMES,
    PARTIAL,
    RED,
    Axes,
    Column,
    Plot,
    Section,
    Table,
    days_chart,
    numbered_chart,
    query,
    shown,
    svg,
    table,
)
from kgroups_spark.report.page import headlines as headlines_of
from kgroups_spark.report.page import html, report_page
from kgroups_spark.report.sections import (
    QUESTIONS,
    day_of,
    last_days_plot,
)
from kgroups_spark.words import CAUSES
from tests.chosen import one_of
from tests.lake.table_rows import rows_of as table_rows
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
    hostile_lake,
    many_groups,
    partition_read,
    tables,
)
from tests.report.page_lakes import LAKES
from tests.views.arrow_tables import in_duckdb, rows_of

PAGE = Path(__file__).parent / "page.txt"


class Reader(HTMLParser):
    """The texts of a page by element, its scripts, and which attributes begin with `on`."""

    def __init__(self, page):
        super().__init__()
        self.open = []
        self.elements = []
        self.texts = []
        self.handlers = []
        self.links = []
        self.ids = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in ("meta", "link", "input", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", " ".join(data.split())))

    def of(self, tag):
        return [text for where, text in self.texts if where == tag]


class AskedOnce(dict[str, list[Row]]):
    """Answers for a part of the page: only those that it reads are asked for."""

    def __init__(self, ask):
        super().__init__()
        self._ask = ask

    def __missing__(self, name):
        self[name] = self._ask(query(name))
        return self[name]


def page_of(lake, location="lake"):
    with asked(lake) as ask:
        return report_page(ask, location)


@cache
def page_of_many(count):
    return page_of(many_groups(count))


@cache
def hostile_page():
    return page_of(hostile_lake(), HOSTILE)


@cache
def page_of_nothing():
    return page_of(tables())


def read(**rows):
    return Reader(page_of(tables(**rows)) if rows else page_of_nothing())


def headlines(reader):
    return [text for tag, text in reader.texts if tag == "a"][: -reader.elements.count("section")]


def text_of(part, rows):
    """The headlines, and of one section its sentences, its tables, and its plots in words."""
    with asked(tables(**rows)) as ask:
        answers = AskedOnce(ask)
        found = [each.text for each in headlines_of(answers)]
        if part is not None:
            section = part(answers)
            found += ["", section.heading, *section.sentences]
            for figure in section.figures:
                found += ["", figure.caption]
                if isinstance(figure, Table):
                    found += [" | ".join(row) for row in figure.texts]
                else:
                    found += [", ".join(name for name, _ in figure.legend), figure.note]
                    found += re.findall(r'aria-label="(\d+ \w+ \d{4}[^"]*: [^"]*)"', figure.svg)
    return "\n".join(found).strip() + "\n"


@pytest.mark.parametrize("name", LAKES)
def test_the_page_says_of_a_lake_what_page_txt_has(name, pytestconfig):
    """`pytest --regen` writes it again, and a person reads the difference."""
    texts = dict(re.findall(r"^=== (.*)\n((?:(?!=== ).*\n)*)", PAGE.read_text(), re.MULTILINE))
    now = text_of(*LAKES[name])
    if pytestconfig.getoption("regen"):
        texts[name] = now
        PAGE.write_text("".join(f"=== {each}\n{texts.get(each, '')}" for each in LAKES))
    else:
        assert now == texts[name]


def test_a_lake_of_an_audit_that_read_nothing_says_so_everywhere():
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


def test_the_title_names_the_lake_the_audit_and_its_rules():
    reader = titled(audit_id=12)
    assert reader.of("title") == ["lake: audit 12, as of 2026-11-16 06:30:00 UTC, Kafka 4.3, retention 7d"]
    assert reader.of("h1") == ["lake"] and "lake /srv/lake" in reader.of("span")


def test_the_log_begins_with_its_first_record_and_not_with_the_hour_of_it():
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


def test_the_title_is_the_cluster_where_it_is_known():
    assert titled(cluster_id="kQ3X_-7bTfG").of("h1") == ["Kafka cluster kQ3X_-7bTfG"]
    named = titled("orders, Frankfurt", cluster_id="kQ3X_-7bTfG")
    assert named.of("h1") == ["orders, Frankfurt"]
    assert named.of("title")[0].startswith("orders, Frankfurt: audit 1, as of ")
    assert "lake /srv/lake" in named.of("span")


def titled(title=None, **facts):
    """The page of a lake without groups of which these facts are reported."""
    with asked(tables()) as ask:
        answers = {name: ask(query(name)) for name in NAMES}
    return Reader(html(answers | {"lake": [answers["lake"][0] | facts]}, "/srv/lake", title))


@pytest.mark.parametrize("begins_behind", [timedelta(hours=1), timedelta(days=3)])
def test_a_log_that_begins_after_the_audits_moment_has_only_that_day(begins_behind):
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
def test_the_days_that_are_not_whole(begins, bars, note):
    found = moves_by_day(begins, bars)
    said = f"Pale: {note} and {UNTIL} are not whole days." if note else f"Pale: {UNTIL} is not a whole day."
    assert found.note == said


def test_nothing_is_said_of_a_day_without_a_bar():
    assert moves_by_day(AS_OF - 90 * DAY, [AS_OF - 2 * DAY]).note == ""


def moves_by_day(begins, bars):
    """A plot of a log that begins then."""
    lake = {"as_of": AS_OF, "traffic_begins": begins}
    rows = [{"day": day_of(day), "series": "moved", "value": 1} for day in bars]
    return last_days_plot({"lake": [lake]}, "moves", "Moves", rows, [("moved", "#123456")], "events_by_day", "offset")


def test_a_group_in_two_offsets_partitions_counts_once():
    both = [group_row(state="Stable", member_count=1), group_row(offsets_partition=7)]
    kept = [expiry_row(offsets_partition=p, expires_at=None, expires_at_if_empty=AS_OF) for p in (0, 7)]
    reader = read(groups=both, offset_expiry=kept)
    assert "2 offsets of 1 group would be lost at once if the last member left: g." in headlines(reader)
    assert "1 group, 2 committed offsets" in reader.of("span")
    sentences = " ".join(reader.of("p"))
    for said in ("1 group when the log ended.", "2 offsets of 1 group stay only", "2 of them, of 1 group, would"):
        assert said in sentences


def group_parts(page):
    """The HTML of each group's part, by its anchor."""
    return {
        match[1]: match[2]
        for match in re.finditer('<details class="group" id="([^"]*)"[^>]*>(.*?)</details>', page, re.DOTALL)
    }


UNKNOWN = CAUSES["unknown"]


def test_each_group_has_an_anchor_with_its_offsets_owners_and_events():
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


def test_a_group_with_many_offsets_and_events_shows_the_first_of_them():
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


def test_urgent_groups_are_on_the_page_when_there_is_no_room_for_all(monkeypatch):
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


def test_every_link_leads_to_a_section_and_none_out_of_the_page():
    reader = Reader(page_of_many(30))
    assert {link for link in reader.links if link != "data:,"} <= {f"#{name}" for name in reader.ids}
    assert len(reader.ids) == len(set(reader.ids))


def test_the_progress_names_the_parts_of_the_page():
    shown = []
    with asked(many_groups(30)) as ask:
        page = Reader(report_page(ask, "lake", shown.append))
    headings = [heading.partition(": ")[2] for heading in shown if heading != "drawing"]
    assert headings == ["The last audit", *page.of("h2")]
    assert sorted(name for names in QUESTIONS.values() for name in names) == list(NAMES)


def test_every_figure_has_its_sql_and_so_have_the_tables_of_each_group():
    page = page_of_many(30)
    assert page.count("<figure ") + 2 == page.count('<details class="sql">') == page.count('<pre tabindex="0">') > 10
    assert "SQL: Committed offsets and owners" in page and "SQL: Events, the newest first" in page


def test_names_from_the_log_are_text_wherever_they_appear():
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


def test_only_the_script_of_the_page_may_run():
    page = hostile_page()
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert re.fullmatch("script-src 'sha256-[A-Za-z0-9+/]{43}='", policy[1].split("; ")[-1])


def five_thousand_groups():
    page = page_of_many(5000)
    assert len(page.encode()) < 5_000_000
    [rows] = [
        json.loads(text)
        for text in re.findall('<script type="application/json">(.*?)</script>', page)
        if "Empty" in text and text.count("[") == 5001
    ]
    assert len({row[0] for row in rows}) == 5000


def names_of(length, count):
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
def test_the_page_stays_below_five_megabytes(size):
    SIZES[size]()


def test_a_figure_of_half_a_page_without_another_beside_it_is_alone():
    plots = [Plot(name, "", "", [], "") for name in "abc"]
    half, whole = Table("half", "", [], [], 0, "", is_small=True), Table("whole", "", [], [], 0, "")
    cases = [
        ([plots[0]], ["a"]),
        ([plots[0], whole], ["a"]),
        ([plots[0], half, whole], []),
        ([plots[0], plots[1], half, whole, plots[2]], ["half", "c"]),
        ([whole], []),
    ]
    for figures_here, alone in cases:
        assert Section("s", "", [], figures_here).alone == alone


def test_an_offset_that_no_client_sees_is_shown_as_none():
    offsets = [expiry_row(topic="t", partition=0, committed_offset=-1)]
    (part,) = group_parts(page_of(tables(groups=[group_row()], offset_expiry=offsets))).values()
    assert Reader(part).of("td")[:3] == ["t", "0", "–"]


def test_rows_that_do_not_fit_are_counted():
    columns = [Column("name", "Name"), Column("number", "Number", "count")]
    rows = [{"name": "x" * 6, "number": n} for n in range(10)]
    made = table("coverage", rows, columns=columns, budget_bytes=45)
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
def test_cells_as_people_read_them(cell, kind, text):
    assert shown(cell, kind) == text


# The plots: their axes reach the top of the bars, dates are below the bars, a bar says what it counts.
FIRST = datetime(2026, 11, 16, tzinfo=UTC)
SERIES = [("due now", RED), ("later", BLUE)]
OFFSETS = Axes("day (UTC)", "offsets", "offset")


def day(number):
    return FIRST + timedelta(days=number)


def bar(number, value, series="later"):
    return {"day": day(number), "series": series, "value": value}


def drawn(rows, days=8, partial=None):
    return svg(days_chart(rows, SERIES, OFFSETS, FIRST, days, partial or {}))


def texts(drawing):
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing)


def test_axes_have_titles_and_numbers_up_to_the_top():
    drawing = drawn([bar(0, 1200), bar(0, 300, "due now"), bar(1, 700)])
    said = texts(drawing)
    assert [said.count(title) for title in ("day (UTC)", "offsets")] == [1, 1]
    assert {"0", "500", "1k", "1.5k"} <= set(said)


def test_a_small_bar_has_whole_numbers_beside_it_and_its_date_below():
    said = texts(drawn([bar(0, 1), bar(7, 1)]))
    assert [text for text in said if text.replace(".", "").isdigit()] == ["0", "1"]
    assert {"16 Nov", "22 Nov"} <= set(said)


def test_a_bar_says_its_day_and_what_it_counts():
    drawing = drawn([bar(0, 4, "due now"), bar(1, 1)], partial={FIRST: "until 06:41 UTC"})
    said = re.findall(r'aria-label="(\d+ Nov[^"]*)"', drawing)
    assert said == ["16 Nov 2026, until 06:41 UTC: 4 offsets, due now", "17 Nov 2026: 1 offset, later"]


def test_a_numbered_bar_says_its_number_and_its_unit():
    rows = [{"at": "7d", "series": "at once", "value": 1200}]
    drawing = svg(numbered_chart(rows, [("at once", BLUE)], Axes("retention", "offsets", "offset")))
    assert 'aria-label="retention 7d: 1,200 offsets, at once"' in drawing
    assert {"retention", "offsets", "7d"} <= set(texts(drawing))


def test_the_bars_of_a_day_that_is_not_whole_are_pale():
    drawing = drawn([bar(0, 4), bar(1, 4)], partial={day(1): "until 06:41 UTC"})
    paths = [path for path in re.findall("<path[^>]*>", drawing) if "Nov 2026" in path]
    assert [f'opacity="{PARTIAL}"' in path for path in paths] == [False, True]


# The report's transactions hang by Kafka's rule, not by age: as the findings of the last audit have it.
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_old_transaction_hangs_if_the_last_audit_that_looked_found_so():
    finished = {"status": "finished", "started_at": LONG_AGO}
    looked = [{**finished, "audit_id": each, "rows_added": [("findings", 1)]} for each in (1, 2)]
    maintained = {**finished, "audit_id": 3, "rows_added": []}
    open_ = [
        {"producer_id": producer, "transaction_start_offset": 10 * producer, "open_since": LONG_AGO}
        for producer in (1, 2, 3, 4)
    ]
    found = [
        {"audit_id": 1, "finding": "hanging_transaction", "producer_id": 1, "log_offset": 10},
        {"audit_id": 2, "finding": "hanging_transaction", "producer_id": 2, "log_offset": 20},
        {"audit_id": 2, "finding": "two_open_producers", "producer_id": 3, "log_offset": 30},
        {"audit_id": 2, "finding": "hanging_transaction", "producer_id": 4, "log_offset": 39},
    ]
    tables = {
        "audits": table_rows("audits", *looked, maintained),
        "open_transactions": table_rows("open_transactions", *open_),
        "findings": table_rows("findings", *({**each, "offsets_partition": 0} for each in found)),
    }
    rows = rows_of(in_duckdb(tables), query("open_transactions").replace(";", ""))
    assert {row["producer_id"]: row["is_hanging"] for row in rows} == {1: False, 2: True, 3: False, 4: False}
