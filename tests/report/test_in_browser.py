"""The page in Chromium: it makes no requests, its console stays silent, its tables are searched and sorted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from kgroups_spark.report.page import report_page
from tests.chosen import Chosen, one_of
from tests.report.browser import DESKTOP, PHONE, browser_path, chromium, opened
from tests.report.hostile_lakes import hostile_lake
from tests.report.made_lakes import HOSTILE, asked, many_groups, tables

GROUPS = 5000
# The background of the page, light and dark.
# A group may have any name, a topic one of 249 characters.
LONG = "checkout.payments_" * 20
WHITE, BLACK = "rgb(255, 255, 255)", "rgb(21, 24, 28)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages by lake."""
    folder = tmp_path_factory.mktemp("report")
    lakes = {"many": many_groups(GROUPS), "empty": tables(), "hostile": hostile_lake(), "long": hostile_lake(LONG)}
    paths = {name: folder / f"{name}.html" for name in lakes}
    for name, lake in lakes.items():
        with asked(lake) as ask:
            paths[name].write_text(report_page(ask, HOSTILE if name == "hostile" else f"/srv/{name}"))
    return paths


@pytest.fixture(scope="module")
def many(browser: Browser, pages: dict[str, Path]) -> Iterator[Page]:
    """The page of many groups on a desktop, for all tests that leave it as good as new: to open it costs more than they
    do."""
    with opened(browser, pages["many"]) as it:
        yield it.page


@pytest.fixture
def figure(many: Page) -> Locator:
    """Its table of all groups, in which nothing is searched for."""
    all_groups = many.locator("#figure-all_groups")
    all_groups.locator("input").fill("")
    return all_groups


def first_column(figure: Locator) -> list[str]:
    return figure.locator("tbody tr td:first-child").all_inner_texts()


def column(figure: Locator, number: int) -> list[str]:
    return figure.locator(f"tbody tr td:nth-child({number})").all_inner_texts()


@pytest.mark.parametrize("dark", one_of(False, True))
@pytest.mark.parametrize("lake", ["many", "empty", "hostile", "long"])
def test_a_page_makes_no_requests_writes_nothing_to_the_console_and_fits(
    browser: Browser, pages: dict[str, Path], lake: str, chosen: Chosen, dark: bool
) -> None:
    for size in chosen.some((DESKTOP, PHONE), 1):
        with opened(browser, pages[lake], size=size, dark=dark) as it:
            assert it.page.evaluate("document.documentElement.scrollWidth") == size[0]
            assert it.page.evaluate("getComputedStyle(document.body).backgroundColor") == (BLACK if dark else WHITE)
            assert (it.said, it.asked) == ([], [])


def test_a_phone_shows_what_moved_how_and_what_is_never_read(browser: Browser, pages: dict[str, Path]) -> None:
    for lake in ("hostile", "long"):
        with opened(browser, pages[lake], size=PHONE) as it:
            headings = it.page.locator("#figure-offset_moves th").all_text_contents()
            cells = it.page.locator("#figure-offset_moves tbody tr").first.locator("td")
            for heading in ("What", "How", "Never read"):
                expect(cells.nth(headings.index(heading))).to_be_visible()


def test_a_name_that_is_markup_is_shown_and_not_run(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["hostile"]) as it:
        # The title is the lake's name: the last part of its path.
        assert it.page.title().startswith("script><img")
        assert it.page.locator("img").count() == 0
        shown = first_column(it.page.locator("#figure-all_groups"))
        assert [text.startswith(("</script><img src=x", "b</script><img")) for text in shown] == [True, True]
        assert it.said == []


def test_the_script_renders_the_same_rows_as_the_file_without_it(
    browser: Browser, pages: dict[str, Path], chosen: Chosen
) -> None:
    for lake in chosen.some(("many", "hostile"), 1):
        with opened(browser, pages[lake], script=False) as without, opened(browser, pages[lake]) as live:
            as_written = without.page.locator("tbody").all_inner_texts()
            assert live.page.locator("tbody").all_inner_texts() == as_written
            assert len(as_written) > 4
            assert without.page.locator("input:visible").count() == 0
            assert live.page.locator("html.has-script").count() == 1


def test_search_finds_any_row_by_all_words_in_any_case(figure: Locator) -> None:
    search, count = figure.locator("input"), figure.locator("output")
    assert count.inner_text() == f"1–10 of {GROUPS:,}"
    search.fill("SERVICE-04998")
    assert first_column(figure) == ["team-03.service-04998.consumer"]
    assert count.inner_text() == "1–1 of 1"
    search.fill("empty team-03")
    assert set(column(figure, 3)) == {"Empty"}
    assert all(name.startswith("team-03") for name in first_column(figure))
    search.fill("no such group")
    assert first_column(figure) == []
    assert count.inner_text() == "none found"
    search.fill("")
    assert count.inner_text() == f"1–10 of {GROUPS:,}"


def test_a_heading_sorts_all_rows_and_then_the_other_way(figure: Locator) -> None:
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
    assert first_column(figure)[0] == "team-36.service-04994.consumer"


def test_empty_cells_sort_last_in_both_directions(figure: Locator) -> None:
    by_expiry = figure.get_by_role("button", name="First expires")
    by_expiry.click()
    assert column(figure, 7)[0] == "2026-11-16 06:30:00"
    by_expiry.click()
    assert column(figure, 7)[0] == "2026-12-14 06:30:00"


def test_pages_of_a_table_lead_to_its_end(figure: Locator) -> None:
    figure.locator("input").fill("team-03")
    before, after = figure.get_by_label("Rows before"), figure.get_by_label("Rows after")
    seen = first_column(figure)
    assert before.is_disabled()
    while after.is_enabled():
        after.click()
        seen += first_column(figure)
    assert len(set(seen)) == len(seen) == len([n for n in range(GROUPS) if n % 37 == 3])
    before.click()
    assert after.is_enabled()


def test_each_bar_has_a_tooltip_with_its_value(many: Page) -> None:
    titles = many.locator("#figure-what_if_plot title").evaluate_all("all => all.map(each => each.textContent)")
    assert len(titles) > 4
    assert all(re.fullmatch(r"retention \d+d: [\d,]+ offsets?, (at once|within \d+ days)", each) for each in titles)


def test_drawings_follow_the_readers_colours(browser: Browser, pages: dict[str, Path]) -> None:
    colors = []
    for dark in (False, True):
        with opened(browser, pages["many"], dark=dark) as it:
            letters = it.page.locator("#figure-what_if_plot svg text").first
            bar = it.page.locator("#figure-what_if_plot svg path[aria-roledescription='bar']").first
            dot = it.page.locator("#figure-what_if_plot .legend li").first
            colors.append(
                [
                    letters.evaluate("e => getComputedStyle(e).fill"),
                    bar.evaluate("e => getComputedStyle(e).fill"),
                    dot.evaluate("e => getComputedStyle(e, '::before').backgroundColor"),
                ]
            )
    (light_letters, light_bar, light_dot), (dark_letters, dark_bar, dark_dot) = colors
    assert (light_letters, dark_letters) == ("rgb(74, 79, 87)", "rgb(180, 185, 194)")
    assert (light_bar, dark_bar) == ("rgb(178, 58, 72)", "rgb(229, 115, 127)")
    assert (light_dot, dark_dot) == (light_bar, dark_bar)


def test_paper_has_the_figures_and_no_controls(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["many"], dark=True) as it:
        it.page.emulate_media(media="print")
        for hidden in ("nav", ".tools", ".sql"):
            assert it.page.locator(f"{hidden}:visible").count() == 0
        assert it.page.locator("svg:visible").count() == it.page.locator("svg").count() > 1
        assert it.page.evaluate("getComputedStyle(document.body).backgroundColor") == WHITE
        rest = it.page.locator("#figure-all_groups .rest")
        assert rest.inner_text() == f"Rows 1–10 of {GROUPS:,}."
        assert re.match(rb"%PDF", it.page.pdf(format="A4"))


def test_on_a_phone_a_table_has_its_most_important_columns(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["many"], size=PHONE) as it:
        figure = it.page.locator("#figure-all_groups")
        assert figure.locator("th:visible").all_inner_texts() == ["Group", "Type", "State", "Offsets"]
        box = figure.locator("table").bounding_box()
        assert box is not None and box["width"] <= PHONE[0]


def test_the_name_of_a_group_leads_to_its_part_of_the_page(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["many"]) as it:
        part = it.page.locator("details.group[data-group='team-00.service-00000.consumer']")
        assert part.locator("table:visible").count() == 0
        it.page.locator("#figure-all_groups td a", has_text="team-00.service-00000.consumer").click()
        expect(part.locator("tbody tr:visible")).to_have_count(3)  # the page opens it once the click is over
        assert it.page.url.endswith("#group-team-00.service-00000.consumer")
    with opened(browser, pages["hostile"]) as it:
        link = it.page.locator("#figure-all_groups td a").first
        link.click()
        assert it.page.locator("details.group[open] summary b").inner_text() == link.inner_text()
        assert it.said == []


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
def test_on_a_phone_no_word_of_a_table_breaks(browser: Browser, pages: dict[str, Path], script: bool) -> None:
    with opened(browser, pages["many"], size=PHONE, script=script) as it:
        assert it.page.evaluate(BROKEN_WORDS) == []
        assert it.page.locator("td.text:not(.has-long-word)").count() > 50


@pytest.mark.parametrize("size", one_of(PHONE, (768, 1024), DESKTOP))
def test_tables_of_usual_names_need_no_scrolling(
    browser: Browser, pages: dict[str, Path], size: tuple[int, int]
) -> None:
    wider = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).length"
    with opened(browser, pages["many"], size=size) as it:
        it.page.locator("details.group").first.locator("summary").click()
        assert it.page.locator(".scroll").evaluate_all(wider) == 0


def test_on_a_narrow_phone_a_table_that_is_too_wide_becomes_a_list_of_headings_and_cells(
    browser: Browser, pages: dict[str, Path], chosen: Chosen
) -> None:
    wider = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).length"
    for lake in chosen.some(("many", "hostile"), 1):
        with opened(browser, pages[lake], size=(320, 640)) as it:
            for summary in it.page.locator("details.group > summary").all()[:3]:
                summary.click()
            assert it.page.locator(".scroll").evaluate_all(wider) == 0
            listed = it.page.locator(".as-list").first
            assert listed.locator("thead:visible").count() == 0
            headings = listed.locator("th").all_text_contents()
            row = listed.locator("tbody tr").first
            assert row.locator("td").evaluate_all("all => all.map(each => each.dataset.heading)") == headings
            it.page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
            it.page.wait_for_function("document.querySelectorAll('.as-list').length === 0")


def test_on_a_phone_a_sentence_is_below_the_short_cells_of_its_row(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["hostile"], size=PHONE) as it:
        row = it.page.locator("#figure-findings tbody tr").first
        first, detail = (row.locator(cell).first.bounding_box() for cell in ("td", "td.detail"))
        assert first is not None and detail is not None
        assert detail["y"] >= first["y"] + first["height"]
        assert detail["width"] > PHONE[0] * 0.8


def test_on_a_phone_a_long_name_is_shown_to_its_end(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["long"], size=PHONE) as it:
        for shown in (it.page.locator(".headlines a").first, it.page.locator("#figure-all_groups td").first):
            assert LONG in shown.inner_text()
            box = shown.bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= PHONE[0]
            assert shown.evaluate("each => each.scrollWidth <= each.clientWidth || !each.clientWidth")


def test_a_missing_browser_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match="apt-get install chromium"):
        browser_path()
