import pytest

from kgroups_spark.commands.text_table import TextTable, display_width, printable


def table(headings, *rows):
    made = TextTable(headings)
    for row in rows:
        made.add(row)
    return made


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right():
    made = table(["GROUP", "#OFFSETS", "STATE"], ["orders", 7, "Empty"], ["a-longer-name", 1200, "Stable"])
    assert made.lines() == [
        "GROUP          #OFFSETS  STATE",
        "orders                7  Empty",
        "a-longer-name      1200  Stable",
    ]


def test_a_column_of_numbers_and_dashes_is_one_of_numbers():
    assert table(["N"], [5], ["-"], [100]).lines() == ["  N", "  5", "  -", "100"]


def test_the_widest_columns_are_cut_until_a_line_fits():
    made = table(["GROUP", "STATE"], ["a" * 30, "Reconciling"], ["short", "Empty"])
    assert made.lines(25) == [
        "GROUP         STATE",
        "aaaaaaaaaaa…  Reconciling",
        "short         Empty",
    ]


def test_nothing_is_cut_without_a_width():
    assert table(["GROUP"], ["a" * 300]).lines()[1] == "a" * 300


def test_control_characters_from_a_log_do_not_reach_the_terminal():
    made = table(["GROUP"], ["evil\x1b[2J\nname"])
    assert made.lines() == ["GROUP", "evil\\x1b[2J\\nname"]
    assert printable("naïve ☕") == "naïve ☕"


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("", 0)])
def test_width_is_what_a_terminal_shows(text, width):
    assert display_width(text) == width


def test_a_cut_in_wide_characters_keeps_the_alignment():
    lines = table(["GROUP", "N"], ["日本日本日本", 1], ["x", 2]).lines(12)
    assert [display_width(line) for line in lines] == [12, 12, 12]
