import re
import shlex
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.cli.text import NULL, Pieces, TextTable, display_width, list_items, words
from kgroups_spark.words import as_typed, cell_text, printable, typed_word
from tests.chosen import examples


def table(headings, *rows):
    made = TextTable(headings)
    for row in rows:
        made.add(row)
    return made


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_are_right_aligned():
    made = table(["GROUP", "#OFFSETS", "STATE"], ["orders", 7, "Empty"], ["a-longer-name", 1200, "Stable"])
    assert made.lines() == [
        "GROUP          #OFFSETS  STATE",
        "orders                7  Empty",
        "a-longer-name      1200  Stable",
    ]


def test_a_column_of_numbers_and_dashes_is_right_aligned():
    assert table(["N"], [5], ["-"], [100]).lines() == ["  N", "  5", "  -", "100"]


def test_empty_columns_are_dropped_first():
    made = table(["GROUP", "HOST", "OFFSET", "LAG"], ["orders", NULL, 12345678901, NULL], ["-", NULL, 7, NULL])
    assert made.lines(30)[1] == "orders  -     12345678901  -"
    assert made.lines(27) == ["GROUP        OFFSET", "orders  12345678901", "-                 7"]


def test_minor_columns_are_left_out_from_the_last_one_on_if_that_is_enough():
    made = TextTable(["GROUP", "EPOCH", "STATE", "HOST"], minor=["EPOCH", "HOST"])
    made.add(["orders", 7, "Stable", "/10.0.0.17"])
    assert made.lines(33) == ["GROUP   EPOCH  STATE   HOST", "orders      7  Stable  /10.0.0.17"]
    assert made.left_out == []
    assert made.lines(32) == ["GROUP   EPOCH  STATE", "orders      7  Stable"]
    assert made.left_out == ["HOST"]
    assert made.lines(20) == ["GROUP   STATE", "orders  Stable"]
    assert made.left_out == ["EPOCH", "HOST"]


def test_no_column_is_left_out_where_the_others_do_not_fit_either():
    made = TextTable(["GROUP", "HOST", "CLIENT-ID"], minor=["HOST"])
    made.add(["orders", "/10.0.0.17", "a-client-with-a-long-name"])
    assert [made.lines(30), made.left_out] == [
        ["GROUP   HOST", "    CLIENT-ID", "orders  /10.0.0.17", "    a-client-with-a-long-name"], []
    ]  # fmt: skip
    named = TextTable(["GROUP", "HOST", "CLIENT-ID"])
    named.add(["orders", "/10.0.0.17", "a-client"])
    named.lines(20)
    assert named.left_out == []


def test_a_column_of_empty_texts_is_shown():
    """They may be names."""
    assert table(["GROUP", "TOPIC"], ["", "a" * 20]).lines(20) == ["GROUP  ''", "TOPIC", "a" * 20]


def test_a_column_of_a_group_called_dash_stays():
    assert table(["GROUP", "N"], ["-", NULL]).lines(5) == ["GROUP", "-"]


def test_headings_and_sentences_wrap():
    made = table(["LOG-END-OFFSET", "WHY"], [5, words("Empty since 2026-11-10 06:41 UTC, retention 7d")])
    assert made.lines(38) == [
        "LOG-END-OFFSET  WHY",
        "             5  Empty since",
        "                2026-11-10 06:41 UTC,",
        "                retention 7d",
    ]
    assert made.lines(32)[:2] == [" LOG-END-  WHY", "   OFFSET"]


def test_a_row_takes_several_lines_where_its_columns_do_not_fit_in_one():
    made = table(["GROUP", "STATE", "EXPIRES-AT"], ["audit-archiver", "Stable", "2026-11-13 08:19:05"])
    assert made.lines(30) == [
        "GROUP           STATE",
        "    EXPIRES-AT",
        "audit-archiver  Stable",
        "    2026-11-13 08:19:05",
    ]


def test_a_row_of_many_columns_is_a_block():
    made = table(list("ABCD"), ["a" * 15, 1, "b" * 15, "c" * 25], ["d" * 15, 22, "e" * 15, "f" * 12])
    assert made.lines(20) == [
        "A  aaaaaaaaaaaaaaa",
        "B  1",
        "C  bbbbbbbbbbbbbbb",
        "D",
        "ccccccccccccccccccccccccc",
        "",
        "A  ddddddddddddddd",
        "B  22",
        "C  eeeeeeeeeeeeeee",
        "D  ffffffffffff",
    ]


def test_without_rows_there_are_only_headings():
    made = table(["GROUP", "CURRENT-OFFSET", "HOST"])
    assert made.lines() == ["GROUP  CURRENT-OFFSET  HOST"]
    assert made.lines(22) == ["GROUP  CURRENT-   HOST", "       OFFSET"]
    assert made.lines(12) == ["GROUP", "    CURRENT-", "    OFFSET", "    HOST"]


def test_an_assignment_breaks_after_a_number():
    made = table(["ASSIGNMENT"], [list_items("orders:0,1,2;payments:10,11")])
    assert made.lines(16) == ["ASSIGNMENT", "orders:0,1,2;", "payments:10,11"]


def test_nothing_is_cut_without_a_width():
    assert table(["GROUP"], ["a" * 300]).lines()[1] == "a" * 300


def test_control_characters_from_a_log_do_not_reach_the_terminal():
    made = table(["GROUP"], ["evil\x1b[2J\nname"])
    assert made.lines() == ["GROUP", "evil\\x1b[2J\\nname"]
    assert printable("naïve ☕") == "naïve ☕"


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("", 0)])
def test_width_is_what_a_terminal_shows(text, width):
    assert display_width(text) == width


def test_wide_and_combining_characters_keep_the_alignment():
    lines = table(["GROUP", "N"], ["日本日本日本", 1], ["e\u0301\u20dd\u1112\u1161", 2], ["x", 3]).lines()
    assert [display_width(line) for line in lines] == [15, 15, 15, 15]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("a b", "a b"),
        ("CORP\\user", "CORP\\user"),
        ("a\x1bc\x9b\x7f\u202e", "a\\x1bc\\x9b\\x7f\\u202e"),
        ("a\\x1bc", "a\\\\x1bc"),
        ("a ", "a\\x20"),
        (" a  b", "\\x20a \\x20b"),
        ("\U000e0041", "\\U000e0041"),
        ("", "''"),
        ("''", r"\x27\x27"),
        (r"\x27\x27", r"\\x27\\x27"),
        ("a\\b ", r"a\\b\x20"),
        ("\t\n\r", r"\t\n\r"),
    ],
)
def test_a_cell_escapes_invisible_characters(text, shown):
    assert cell_text(text) == shown
    assert as_typed(shown) == text


@examples(30)
@given(st.text(), st.text())
def test_two_names_never_look_alike(one, other):
    assert (cell_text(one) == cell_text(other)) == (one == other)
    assert cell_text(one).isprintable()
    assert as_typed(cell_text(one)) == one
    (word,) = shlex.split(typed_word(one))
    assert as_typed(word) == one


@pytest.mark.parametrize(
    "text", ["orders ", "a\x1bc", r"CORP\user", r"\x4", r"a\x41", r"\U00110000", r"\ud800", "it's"]
)
def test_a_text_that_no_name_is_shown_as_is_a_name_as_it_is(text):
    """`a\\x41` is not shown for aA, which is shown as it is."""
    assert as_typed(text) == text


NAMES = st.one_of(
    st.text(max_size=30),
    st.from_regex(r"[a-z.-]{1,60}", fullmatch=True),
    st.sampled_from(["日本" * 9, "e\u0301" * 12, "\x1b[31mred", "a\nb", "x\u202ey", "a  b", " ", "\\x1b", "-"]),
)
SENTENCES = st.lists(st.from_regex(r"[a-z,.]{1,12}", fullmatch=True), max_size=25).map(" ".join)
LISTS = st.lists(st.integers(0, 10**6), min_size=1, max_size=40).map(lambda numbers: ",".join(map(str, numbers)))
CELLS = (
    NAMES,
    st.integers(-(2**63), 2**63),
    st.just("2026-11-16 06:41:36"),
    SENTENCES.map(words),
    LISTS.map(list_items),
    st.just(NULL),
)
HEADINGS = st.sampled_from(["GROUP", "CURRENT-OFFSET", "MEMBER/TOPIC-PARTITION", "EXPIRES-AT (UTC)", "#N"])


@st.composite
def tables(draw):
    columns = draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=12))
    count = draw(st.integers(0, 4))
    made = TextTable([draw(HEADINGS) for _ in columns])
    for _ in range(count):
        made.add([draw(st.one_of(kind, st.just(NULL))) for kind in columns])
    return made


def in_one_piece(cell):
    """The pieces of a cell that stay whole in a line: a name, a number or a time, each word of a sentence, each number
    of a list with the comma after it."""
    return [piece.strip() for piece in cell.pieces] if isinstance(cell, Pieces) else [cell_text(str(cell))]


def words_of(line):
    """A column's text, its words, and their numbers with any comma after each."""
    columns = re.split(r" {2,}", line)
    each = [word for column in columns for word in column.split(" ")]
    items = [item for word in each for item in re.findall(r"\d+,|\d+$", word)]
    return Counter(columns) | Counter(each) | Counter(items)


@examples(20)
@given(tables(), st.integers(20, 250))
def test_every_cell_is_complete_at_any_width(made, width):
    lines = made.lines(width)
    printed = sum(map(words_of, lines), Counter())
    wanted = Counter(
        piece for row in made.rows for cell in row if cell is not NULL for piece in in_one_piece(cell) if piece
    )
    assert not wanted - printed
    headings = [piece for heading in made.headings for piece in re.findall(r"[^-/ ]+[-/]*", heading)]
    pieces = [piece for row in made.rows for cell in row for piece in in_one_piece(cell)]
    assert max(map(display_width, lines)) <= max(width, *map(display_width, [*headings, *pieces]))
    assert all(line.isprintable() for line in lines)
