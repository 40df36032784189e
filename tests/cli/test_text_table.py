import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.cli.form import screen
from kgroups_spark.cli.output import display_width, table_lines
from kgroups_spark.words import cell_text, printable
from tests.chosen import examples


def table(columns, *rows, width=None):
    return table_lines(screen(columns), rows, width)[0]


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_are_right_aligned():
    assert table("GROUP #OFFSETS STATE", ["orders", 7, "Empty"], ["a-longer-name", 1200, None]) == [
        "GROUP          #OFFSETS  STATE",
        "orders                7  Empty",
        "a-longer-name      1200  -",
    ]


def test_a_column_of_numbers_and_nulls_is_right_aligned():
    assert table("N", [5], [None], [100]) == ["  N", "  5", "  -", "100"]


def test_empty_columns_are_dropped_first():
    rows = ["orders", None, 12345678901, None], ["-", None, 7, []]
    assert table("GROUP HOST OFFSET LAG", *rows, width=30)[1] == "orders  -     12345678901  -"
    assert table("GROUP HOST OFFSET LAG", *rows, width=27) == [
        "GROUP        OFFSET",
        "orders  12345678901",
        "-                 7",
    ]


def test_minor_columns_are_left_out_from_the_last_one_on_if_that_is_enough():
    columns, row = screen("GROUP EPOCH* STATE HOST*"), ["orders", 7, "Stable", "/10.0.0.17"]
    assert table_lines(columns, [row], 33) == (
        ["GROUP   EPOCH  STATE   HOST", "orders      7  Stable  /10.0.0.17"],
        [],
    )
    assert table_lines(columns, [row], 32) == (["GROUP   EPOCH  STATE", "orders      7  Stable"], ["HOST"])
    assert table_lines(columns, [row], 20) == (["GROUP   STATE", "orders  Stable"], ["EPOCH", "HOST"])


def test_where_the_others_do_not_fit_either_a_row_is_a_block_with_all_columns():
    rows = ["orders", "/10.0.0.17", "a-client-with-a-long-name"], ["o", None, "a"]
    assert table_lines(screen("GROUP HOST* CLIENT-ID"), rows, 30) == (
        [
            "GROUP      orders",
            "HOST       /10.0.0.17",
            "CLIENT-ID  a-client-with-a-long-name",
            "",
            "GROUP      o",
            "HOST       -",
            "CLIENT-ID  a",
        ],
        [],
    )


def test_a_column_of_empty_texts_is_shown():
    """They may be names."""
    assert table("GROUP TOPIC", ["", "a" * 20], width=20) == ["GROUP  ''", "TOPIC  " + "a" * 20]


def test_a_column_of_a_group_called_dash_stays():
    assert table("GROUP N", ["-", None], width=5) == ["GROUP", "-"]


def test_sentences_wrap_and_times_in_them_stay_whole():
    row = [5, "Empty since 2026-11-10 06:41 UTC, retention 7d"]
    assert table("OFFSET WHY~", row, width=30) == [
        "OFFSET  WHY",
        "     5  Empty since",
        "        2026-11-10 06:41 UTC,",
        "        retention 7d",
    ]


def test_without_rows_there_are_only_headings():
    assert table("GROUP HOST") == ["GROUP  HOST"]
    assert table("GROUP CURRENT-OFFSET HOST", width=12) == ["GROUP", "CURRENT-OFFSET", "HOST"]


def test_nothing_is_cut_without_a_width():
    assert table("GROUP", ["a" * 300])[1] == "a" * 300


def test_control_characters_from_a_log_do_not_reach_the_terminal():
    assert table("GROUP", ["evil\x1b[2J\nname"]) == ["GROUP", "evil\\x1b[2J\\nname"]
    assert printable("naïve ☕") == "naïve ☕"


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("", 0)])
def test_width_is_what_a_terminal_shows(text, width):
    assert display_width(text) == width


def test_wide_and_combining_characters_keep_the_alignment():
    lines = table("GROUP N", ["日本日本日本", 1], ["e\u0301\u20dd\u1112\u1161", 2], ["x", 3])
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


@examples(30)
@given(st.text(), st.text())
def test_two_names_never_look_alike(one, other):
    assert (cell_text(one) == cell_text(other)) == (one == other)
    assert cell_text(one).isprintable()


NAMES = st.one_of(st.text(max_size=30), st.sampled_from(["日本" * 9, "\x1b[31mred", "a\nb", "a  b", " ", "-"]))
CELLS = {"N": st.integers(-(2**63), 2**63), "NAME": NAMES, "MINOR*": st.just("2026-11-16 06:41:36")}
CELLS["WHY~"] = st.lists(st.from_regex(r"[a-z,.]{1,12}", fullmatch=True), max_size=25).map(" ".join)


@st.composite
def tables(draw):
    columns = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=9))
    rows = draw(st.integers(1, 4))
    return columns, [[draw(st.one_of(CELLS[name], st.none())) for name in columns] for _ in range(rows)]


@examples(20)
@given(tables(), st.integers(20, 250))
def test_every_cell_is_complete_at_any_width(made, width):
    columns, rows = made
    lines, left_out = table_lines(screen(" ".join(columns)), rows, width)
    printed = " ".join(" ".join(lines).split())
    for row in rows:
        for name, cell in zip(columns, row, strict=True):
            if cell is not None and name.rstrip("*") not in left_out:
                words = cell.split() if name == "WHY~" else [" ".join(cell_text(str(cell)).split())]
                assert all(word in printed for word in words)
    assert all(line.isprintable() for line in lines)
    assert left_out in ([], ["MINOR"] * len(left_out))
    heads = [name.rstrip("*~") for name in columns if name.rstrip("*") not in left_out]
    is_in_blocks = lines[0].split() != heads and "" in lines
    assert is_in_blocks or len(rows) == 1 or max(map(display_width, lines)) <= width or len(columns) == 1
