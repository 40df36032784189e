"""The lines that `kgroups compare` prints before and after its rows."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kgroups_spark.audit.comparison import Comparison, Facts, Side
from kgroups_spark.audit.differences import WITHOUT_LOAD, Difference
from kgroups_spark.cli import compare
from kgroups_spark.cli.compare import COLUMNS, count_lines, screen_of, summary_lines
from kgroups_spark.cli.main import main
from kgroups_spark.errors import UsageError

DAY = 86_400_000


def said(differences: list[Difference] | None = None, a: str = "4.3", b: str = "3.9", **more: Any) -> list[str]:
    fields: dict[str, Any] = {"audit_id": 1, "as_of_ms": 1_763_275_281_000, "is_reduced": False, "partitions": 50}
    sides = Side(a, more.pop("retention_a", 7 * DAY)), Side(b, more.pop("retention_b", 7 * DAY))
    found = Comparison(*sides, **(fields | more), differences=differences or [])
    return [*summary_lines(found), *count_lines(found)]


def test_nothing_differs():
    assert said(b="4.2") == [
        "4.3 and 4.2 over the log of 50 offsets partitions up to 2025-11-16 06:41:21 UTC, retention 7d",
        "nothing differs",
    ]
    assert said(b="4.2", partitions=0)[-1] == "nothing differs"  # no partition has records


def test_both_retentions_are_printed_where_they_differ():
    assert said(retention_b=DAY)[0].endswith("retention 7d and 1d")


def test_partitions_that_are_not_loaded_come_first():
    failing = Facts(unserved_groups=42, unserved_offsets=310, failing={17: "log offset 9: b", 3: "log offset 5: a"})
    load = Difference("load", 3, None, "load", "loads", "fails at ...")
    group = Difference("group", 3, "orders", "group", "share, Stable", WITHOUT_LOAD["scala"], why="no load")
    lines = said([load, group], facts=(Facts(), failing))
    assert lines[1:] == [
        "3.9 could not load partitions 3, 17: 42 groups with 310 committed offsets in them; brokers answer that there "
        "is no such group and no offset",
        "  the first: partition 3, log offset 5: a",
    ]
    failing.compacted_perhaps = {3}
    assert "in partition 3 Kafka's cleaner may have removed" in said([load], b="4.0", facts=(Facts(), failing))[3]
    assert "brokers answer NOT_COORDINATOR" in said([load], b="4.0", facts=(Facts(), failing))[1]


def test_partitions_that_neither_release_can_load_are_not_reported_as_equal():
    both = Facts(failing={3: "log offset 5: a", 4: "log offset 7: b"}), Facts(failing={3: "log offset 5: a"})
    load = Difference("load", 4, None, "load", "fails at ...", "loads")
    not_compared = "partition 3 cannot be compared: neither release could load it"
    assert said([load], facts=both)[-1] == not_compared
    assert said(facts=(both[1], both[1]))[-2:] == [not_compared, "nothing differs in the others"]
    assert said(facts=(both[0], both[0]), partitions=2)[-1] == (
        "partitions 3-4 cannot be compared: neither release could load them"
    )


def test_skipped_record_types_are_counted_by_type_of_group():
    skipping = Facts(skipped=Counter({3: 2, 8: 1000, 16: 1, 11: 4, 17: 5}))
    assert said(facts=(Facts(topic_ids=12), skipping))[1:3] == [
        "3.9 skips records of types that it does not know (KIP-915): 1,003 of consumer groups, 4 of share groups, 5 of "
        "streams groups",
        "3.9 keeps no topic ids: 12 committed offsets lose theirs (KAFKA-19141)",
    ]


def test_groups_and_offsets_are_counted():
    differences = [
        Difference("group", 1, "gone", "group", "share, Stable, members: 1", None),
        Difference("group", 1, "new", "group", None, "classic, Empty, members: 0"),
        Difference("group", 1, "other", "group_type", "consumer, Stable, members: 1", "classic, Empty, members: 0"),
        Difference("group", 1, "epochs", "group_epoch", "1", "0"),
        Difference("group", 1, "epochs", "assignment_epoch", "1", "0"),
        Difference("member", 1, "epochs", "member_epoch", "1", "0", "m"),
        Difference("committed_offset", 1, "g", "committed_offset", "5", "6", topic="t", partition=0),
        Difference("pending_offset", 1, "g", "committed_offset", "5", None, None, 7, "t", 0),
        Difference("offset_expiry", 1, "g", "decision", "keep (a)", "expire (b)", topic="t", partition=0),
        Difference("offset_expiry", 1, "g", "expires_at", None, "2026", topic="t", partition=1),
        Difference("group_expiry", 1, "g", "decision", "keep (a)", "delete (b)"),
    ]
    assert said(differences)[1:] == [
        "1 group would be gone in 3.9: gone",
        "1 group would be new in 3.9: new",
        "1 group would be of another type in 3.9: other",
        "1 group would differ in other ways: epochs",
        "1 group would have other members: epochs",
        "1 committed offset would differ",
        "1 offset of open transactions would differ",
        "2 committed offsets would expire at another time in 3.9, 1 of them at the next check",
        "1 group would be deleted at another time in 3.9, 1 of them at the next check",
    ]


def test_value_columns_are_headed_by_the_releases():
    found = Comparison(Side("4.3", DAY), Side("3.9", DAY), 1, 0, False, 1)
    by_name = {column.name: column.heading for column in screen_of(found, [])}
    assert (by_name["value_a"], by_name["value_b"]) == ("4.3", "3.9")
    assert set(Difference._fields) == set(COLUMNS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare", "name one release or two"),
        ("compare --release-version 4.3 --release-version 4.2 --release-version 4.1", "name one release or two"),
        ("compare --release-version 4.33", "release '4.33' is unknown; the newest known one is"),
        ("compare --lake x --segments y --release-version 3.9", "two sources"),
    ],
)
def test_wrong_usage_is_reported_before_spark_starts(words, message):
    from kgroups_spark.cli.main import parse

    with pytest.raises(UsageError, match=message):
        arguments = parse(words.split())
        arguments.run(arguments)


@pytest.fixture
def compared(monkeypatch):
    """Runs the command line where the comparison has found one difference, and one that follows from it."""
    found = Comparison(Side("4.3", DAY), Side("3.9", DAY), 1, 1_763_275_281_000, False, 1)
    found.differences = [Difference("committed_offset", 1, "g", "committed_offset", "5", None, topic="t", partition=0)]
    follows = {"topic": "t", "partition": 0, "follows_from": "committed_offset"}
    found.differences += [Difference("offset_expiry", 1, "g", "expires_at", None, "2026", **follows)]
    found.facts[0].names.add("orders")
    monkeypatch.setattr(compare, "existing_lake", lambda arguments: "x")
    monkeypatch.setattr(compare, "_compare", lambda arguments, location: found)
    return lambda words: main(["compare", "--lake", "x", "--release-version", "3.9", *words.split()])


def test_rows_have_all_columns_and_fail_if_any_exits_4(compared, capsys):
    assert compared("--format json") == 0
    row, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert row == {
        "difference": "committed_offset",
        "offsets_partition": 1,
        "group_id": "g",
        "member_id": None,
        "producer_id": None,
        "topic": "t",
        "partition": 0,
        "what": "committed_offset",
        "value_a": "5",
        "value_b": None,
        "why": None,
        "follows_from": None,
    }


def test_a_table_has_the_causes_and_all_has_what_follows_from_them(compared, capsys):
    """Columns without values are left out, but for those of the releases."""
    assert compared("--fail-if-any") == 4
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "DIFFERENCE        OFFSETS-PARTITION  GROUP  TOPIC  PARTITION  WHAT              4.3  3.9",
        "committed_offset                  1  g      t              0  committed_offset  5    -",
    ]
    assert said.err.splitlines()[-3:] == [
        "1 difference more follows from these (--all)",
        "1 committed offset would differ",
        "1 committed offset would expire at another time in 3.9",
    ]
    assert compared("--fail-if-any --all") == 4
    said = capsys.readouterr()
    assert said.out.splitlines()[-1].endswith("committed_offset")
    assert "--all" not in said.err


def test_an_unknown_group_suggests_the_nearest_name(compared, capsys):
    assert compared("--group ordres") == 1
    said = capsys.readouterr()
    assert said.err == (
        "kgroups: no group 'ordres' in this history by the rules of either release; did you mean orders?\n"
    )
    assert said.out == ""
