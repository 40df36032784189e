"""The page in Chromium: it makes no requests, its console stays silent, its tables are searched and sorted."""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from kgroups_spark.report.page import report_page
from tests.chosen import one_of
from tests.report.made_lakes import HOSTILE, asked, hostile_lake, many_groups, tables

# Debian's Chromium, driven by Playwright.
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
FLAGS += ("--disable-sync", "--disable-dev-shm-usage", "--no-first-run")

DESKTOP, PHONE = (1280, 900), (375, 812)


@dataclass
class Watched:
    """An open page, all that its console said, and every address that it asked for but its own."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def opened(browser, path, *, size=DESKTOP, dark=False, script=True):
    """The page in a window of that size, in CSS pixels."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        java_script_enabled=script,
    )
    watched = Watched(context.new_page())
    watched.page.on("console", lambda message: watched.said.append(message.text))
    watched.page.on("pageerror", lambda error: watched.said.append(str(error)))
    watched.page.on("request", lambda request: watched.asked.append(request.url))
    watched.page.goto(path.as_uri())
    watched.asked.remove(path.as_uri())
    yield watched
    context.close()


GROUPS = 200
# A group may have any name, a topic one of 249 characters.
LONG = "checkout.payments_" * 20
# The background of the page, light and dark.
WHITE, BLACK = "rgb(255, 255, 255)", "rgb(21, 24, 28)"
WIDER = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).length"


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(shutil.which, NAMES)), None)
    assert path, f"none of {', '.join(NAMES)} is on the PATH: the report is tested in one; apt-get install chromium"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages by lake."""
    folder = tmp_path_factory.mktemp("report")
    lakes = {"many": many_groups(GROUPS), "empty": tables(), "hostile": hostile_lake(), "long": hostile_lake(LONG)}
    paths = {name: folder / f"{name}.html" for name in lakes}
    for name, lake in lakes.items():
        with asked(lake) as ask:
            paths[name].write_text(report_page(ask, HOSTILE if name == "hostile" else f"/srv/{name}"))
    return paths


@pytest.fixture(scope="module")
def shown(browser, pages):
    """The page of a lake in a window, opened once for all tests, which leave it as good as new: to open it costs more
    than they do."""
    with ExitStack() as stack:

        @cache
        def found(lake, size=DESKTOP, *, dark=False, script=True):
            return stack.enter_context(opened(browser, pages[lake], size=size, dark=dark, script=script))

        yield found


@pytest.fixture
def figure(shown):
    """The table of all groups, in which nothing is searched for."""
    all_groups = shown("many").page.locator("#figure-all_groups")
    all_groups.locator("input").fill("")
    return all_groups


def first_column(figure):
    return figure.locator("tbody tr td:first-child").all_inner_texts()


def column(figure, number):
    return figure.locator(f"tbody tr td:nth-child({number})").all_inner_texts()


@pytest.mark.parametrize("lake", ["many", "empty", "hostile", "long"])
def test_a_page_makes_no_requests_writes_nothing_to_the_console_and_fits(lake, shown):
    for size in (DESKTOP, PHONE):
        it = shown(lake, size)
        assert it.page.evaluate("document.documentElement.scrollWidth") == size[0]
        assert it.page.evaluate("getComputedStyle(document.body).backgroundColor") == WHITE
        assert (it.said, it.asked) == ([], [])


def test_a_phone_shows_what_moved_how_and_what_is_never_read(shown):
    for lake in ("hostile", "long"):
        page = shown(lake, PHONE).page
        headings = page.locator("#figure-offset_moves th").all_text_contents()
        cells = page.locator("#figure-offset_moves tbody tr").first.locator("td")
        for heading in ("What", "How", "Never read"):
            expect(cells.nth(headings.index(heading))).to_be_visible()


def test_a_name_that_is_markup_is_shown_and_not_run(shown):
    it = shown("hostile")
    # The title is the lake's name: the last part of its path.
    assert it.page.title().startswith("script><img")
    assert it.page.locator("img").count() == 0
    names = first_column(it.page.locator("#figure-all_groups"))
    assert [text.startswith(("</script><img src=x", "b</script><img")) for text in names] == [True, True]
    link = it.page.locator("#figure-all_groups td a").first
    link.click()
    assert it.page.locator("details.group[open] summary b").inner_text() == link.inner_text()
    assert it.said == []


@pytest.mark.parametrize("lake", one_of("many", "hostile"))
def test_the_script_renders_the_same_rows_as_the_file_without_it(lake, browser, pages):
    with opened(browser, pages[lake], script=False) as without, opened(browser, pages[lake]) as live:
        as_written = without.page.locator("tbody").all_inner_texts()
        assert live.page.locator("tbody").all_inner_texts() == as_written
        assert len(as_written) > 4
        assert without.page.locator("input:visible").count() == 0
        assert live.page.locator("html.has-script").count() == 1


def test_search_finds_any_row_by_all_words_in_any_case(figure):
    search, count = figure.locator("input"), figure.locator("output")
    assert count.inner_text() == f"1–10 of {GROUPS:,}"
    search.fill("SERVICE-00198")
    assert first_column(figure) == ["team-13.service-00198.consumer"]
    assert count.inner_text() == "1–1 of 1"
    search.fill("empty team-03")
    assert set(column(figure, 3)) == {"Empty"}
    assert all(name.startswith("team-03") for name in first_column(figure))
    search.fill("no such group")
    assert first_column(figure) == []
    assert count.inner_text() == "none found"
    search.fill("")
    assert count.inner_text() == f"1–10 of {GROUPS:,}"


def test_a_heading_sorts_all_rows_and_then_the_other_way(figure):
    by_members = figure.get_by_role("button", name="Members")
    by_members.click()
    assert column(figure, 5) == ["9"] * 10
    by_members.click()
    assert column(figure, 5) == ["0"] * 10
    assert figure.locator("th[aria-sort]").all_inner_texts() == ["Members"]
    by_name = figure.get_by_role("button", name="Group")
    by_name.click()
    assert first_column(figure)[0] == "team-00.service-00000.consumer"
    by_name.click()
    assert first_column(figure)[0] == "team-36.service-00184.consumer"


def test_empty_cells_sort_last_in_both_directions(figure):
    by_expiry = figure.get_by_role("button", name="First expires")
    by_expiry.click()
    assert column(figure, 7)[0] == "2026-11-16 06:30:00"
    by_expiry.click()
    assert column(figure, 7)[0] == "2026-12-14 06:30:00"


def test_pages_of_a_table_lead_to_its_end(figure):
    figure.locator("input").fill("team-0")
    before, after = figure.get_by_label("Rows before"), figure.get_by_label("Rows after")
    seen = first_column(figure)
    assert before.is_disabled()
    while after.is_enabled():
        after.click()
        seen += first_column(figure)
    assert len(set(seen)) == len(seen) == len([n for n in range(GROUPS) if n % 37 < 10])
    before.click()
    assert after.is_enabled()


def test_each_bar_has_a_tooltip_with_its_value(shown):
    titles = shown("many").page.locator("#figure-what_if_plot title")
    said = titles.evaluate_all("all => all.map(each => each.textContent)")
    assert len(said) > 4
    assert all(re.fullmatch(r"retention \d+d: [\d,]+ offsets?, (at once|within \d+ days)", each) for each in said)


def test_drawings_follow_the_readers_colours(shown):
    colors = []
    for dark in (False, True):
        page = shown("many", dark=dark).page
        letters = page.locator("#figure-what_if_plot svg text").first
        bar = page.locator("#figure-what_if_plot svg path[aria-roledescription='bar']").first
        dot = page.locator("#figure-what_if_plot .legend li").first
        colors.append(
            [
                page.evaluate("getComputedStyle(document.body).backgroundColor"),
                letters.evaluate("e => getComputedStyle(e).fill"),
                bar.evaluate("e => getComputedStyle(e).fill"),
                dot.evaluate("e => getComputedStyle(e, '::before').backgroundColor"),
            ]
        )
    red, pale_red = "rgb(178, 58, 72)", "rgb(229, 115, 127)"
    assert colors == [[WHITE, "rgb(74, 79, 87)", red, red], [BLACK, "rgb(180, 185, 194)", pale_red, pale_red]]


def test_paper_has_the_figures_and_no_controls(browser, pages):
    with opened(browser, pages["many"], dark=True) as it:
        it.page.emulate_media(media="print")
        for hidden in ("nav", ".tools", ".sql"):
            assert it.page.locator(f"{hidden}:visible").count() == 0
        assert it.page.locator("svg:visible").count() == it.page.locator("svg").count() > 1
        assert it.page.evaluate("getComputedStyle(document.body).backgroundColor") == WHITE
        assert it.page.locator("#figure-all_groups .rest").inner_text() == f"Rows 1–10 of {GROUPS:,}."


def test_the_name_of_a_group_leads_to_its_part_of_the_page(shown, figure):
    page, name = shown("many").page, "team-00.service-00000.consumer"
    part = page.locator(f"details.group[data-group='{name}']")
    assert part.locator("table:visible").count() == 0
    figure.locator("input").fill("service-00000")
    figure.locator("td a", has_text=name).click()
    expect(part.locator("tbody tr:visible")).to_have_count(3)  # the page opens it once the click is over
    assert page.url.endswith(f"#group-{name}")


BROKEN_WORDS = """
() => [...document.querySelectorAll("td.text:not(.has-long-word)")].flatMap((cell) => {
  const text = cell.firstChild;
  return [...(text?.data ?? "").matchAll(/[^\\s-]+/g)].filter((word) => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return new Set([...range.getClientRects()].map((box) => box.top)).size > 1;
  }).map((word) => word[0]);
})
"""


@pytest.mark.parametrize("script", one_of(True, False))
def test_on_a_phone_no_word_breaks_and_a_table_has_its_most_important_columns(shown, script):
    page = shown("many", PHONE, script=script).page
    assert page.evaluate(BROKEN_WORDS) == []
    assert page.locator("td.text:not(.has-long-word)").count() > 50
    figure = page.locator("#figure-all_groups")
    assert figure.locator("th:visible").all_inner_texts() == ["Group", "Type", "State", "Offsets"]
    box = figure.locator("table").bounding_box()
    assert box is not None and box["width"] <= PHONE[0]


@pytest.mark.parametrize("size", one_of(PHONE, (768, 1024), DESKTOP))
def test_tables_of_usual_names_need_no_scrolling(shown, size):
    page = shown("many", size).page
    page.locator("details.group").nth(1).locator("summary").click()
    assert page.locator(".scroll").evaluate_all(WIDER) == 0


@pytest.mark.parametrize("lake", one_of("many", "hostile"))
def test_on_a_narrow_phone_a_table_that_is_too_wide_becomes_a_list_of_headings_and_cells(browser, pages, lake):
    with opened(browser, pages[lake], size=(320, 640)) as it:
        for summary in it.page.locator("details.group > summary").all()[:3]:
            summary.click()
        assert it.page.locator(".scroll").evaluate_all(WIDER) == 0
        listed = it.page.locator(".as-list").first
        assert listed.locator("thead:visible").count() == 0
        headings = listed.locator("th").all_text_contents()
        row = listed.locator("tbody tr").first
        assert row.locator("td").evaluate_all("all => all.map(each => each.dataset.heading)") == headings
        it.page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
        it.page.wait_for_function("document.querySelectorAll('.as-list').length === 0")


def test_on_a_phone_a_sentence_is_below_the_short_cells_and_a_long_name_is_shown_to_its_end(shown):
    row = shown("hostile", PHONE).page.locator("#figure-findings tbody tr").first
    first, detail = (row.locator(cell).first.bounding_box() for cell in ("td", "td.detail"))
    assert first is not None and detail is not None
    assert detail["y"] >= first["y"] + first["height"]
    assert detail["width"] > PHONE[0] * 0.8
    page = shown("long", PHONE).page
    for name in (page.locator(".headlines a").first, page.locator("#figure-all_groups td").first):
        assert LONG in name.inner_text()
        box = name.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= PHONE[0]
        assert name.evaluate("each => each.scrollWidth <= each.clientWidth || !each.clientWidth")
