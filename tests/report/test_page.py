"""The page without a browser: which lakes get which sentences, and what is in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, partial
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kgroups_spark.report.figures import NAMES, PARTIAL, Column, Plot, Section, Table, query, shown, table
from kgroups_spark.report.page import headlines as headlines_of
from kgroups_spark.report.page import report_page
from kgroups_spark.report.sections import QUESTIONS
from tests.chosen import one_of
from tests.report.made_lakes import (
    HOSTILE,
    Row,
    asked,
    event_row,
    expiry_row,
    group_row,
    hostile_lake,
    many_groups,
    tables,
)
from tests.report.page_lakes import LAKES, parts

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


class AskedOnce(Mapping[str, list[Row]]):
    """Answers for a part of the page: only those that it reads are asked for."""

    def __init__(self, ask):
        self._answer = cache(lambda name: ask(query(name)))

    def __getitem__(self, name):
        return self._answer(name)

    def __iter__(self):
        return iter(NAMES)

    def __len__(self):
        return len(NAMES)


def page_of(lake, location="lake"):
    with asked(lake) as ask:
        return report_page(ask, location)


@cache
def page_of_many(count):
    return page_of(many_groups(count))


@cache
def hostile_page():
    return page_of(hostile_lake(), HOSTILE)


BAR = re.compile(r'<path aria-label="([^"]*)" [^>]*opacity="([^"]*)"')


def text_of(part, rows):
    """The headlines, and of the part its sentences, its tables, and its plots in words: the texts of axes, the bars."""
    with asked(tables(**rows)) as ask:
        answers = AskedOnce(ask)
        found = [each.text for each in headlines_of(answers)]
        for section in parts(*[part] if part else [])(answers):
            found += [section] if isinstance(section, str) else ["", section.heading, *section.sentences]
            for figure in [] if isinstance(section, str) else section.figures:
                found += ["", figure.caption]
                if isinstance(figure, Table):
                    found += [" | ".join(row) for row in figure.texts]
                else:
                    found += [", ".join(name for name, _ in figure.legend), figure.note]
                    found.append(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg)))
                    bars = BAR.findall(figure.svg)
                    found += [f"{said}{' (pale)' * (opacity == str(PARTIAL))}" for said, opacity in bars]
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


def group_parts(page):
    """The HTML of each group's part, by its anchor."""
    return {
        match[1]: match[2]
        for match in re.finditer('<details class="group" id="([^"]*)"[^>]*>(.*?)</details>', page, re.DOTALL)
    }


def test_urgent_groups_are_on_the_page_when_there_is_no_room_for_all(monkeypatch):
    assert len(group_parts(page_of_many(300))) == 300
    monkeypatch.setattr("kgroups_spark.report.page.BUDGET_BYTES", 500_000)
    page = page_of(many_groups(300))
    parts = group_parts(page)
    assert 495_000 < len(page.encode()) < 500_500
    assert 150 < len(parts) < 300
    assert f"{300 - len(parts):,} more groups are left out of this page" in page
    # Those that expire first: of every 30th group the offsets are due now.
    assert {f"group-team-{n % 37:02}.service-{n:05}.consumer" for n in range(0, 300, 30)} <= parts.keys()
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
    plain, hostile = Reader(page_of(tables())), Reader(page)
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
