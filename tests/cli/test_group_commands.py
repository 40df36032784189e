"""kgroups describe, history and export-offsets on the story of a shop's groups. screens.txt has what they print."""

from __future__ import annotations

from kgroups_spark import words
from kgroups_spark.cli import describe
from kgroups_spark.coordinator import share_shard, transaction_shard
from kgroups_spark.coordinator.events import CAUSES
from kgroups_spark.words import cause_text
from tests.cli.story_reader import story


def test_describe_lists_all_committed_offsets(rows):
    found = rows("describe --all-groups")
    committed = story().sql("SELECT group_id, topic, partition, committed_offset FROM committed_offsets")
    assert {tuple(row.values()) for row in committed} == {
        (row["group_id"], row["topic"], row["partition"], row["committed_offset"])
        for row in found
        if row["committed_offset"] is not None
    }


def test_every_event_and_cause_has_a_text():
    assert {*share_shard.EVENTS, *transaction_shard.EVENTS} < set(words.EVENTS)
    moves = {"no_members", "self_assigned", "with_members", "transaction", "topic_recreated", "unknown"}
    assert {*CAUSES, "probably_expired", *moves} <= set(words.CAUSES)
    assert cause_text("probably_left") == "it left, or Admin removed it, most likely"
    assert [cause_text(None), cause_text("of_tomorrow")] == [None, "of_tomorrow"]


def test_history_commits_lists_every_commit_with_its_outcome(rows, kgroups):
    found = rows("history --group billing-engine --commits --limit 100000")
    records = story().sql("SELECT log_offset FROM offset_commits WHERE group_id = :group", group="billing-engine")
    assert [row["log_offset"] for row in found] == sorted(row["log_offset"] for row in records)
    outcomes = {(row["outcome"], row["took_effect"]) for row in found}
    assert outcomes >= {("committed", True), ("aborted", False), ("pending", False)}


def test_an_existing_file_is_not_overwritten(kgroups, tmp_path):
    file = tmp_path / "offsets.csv"
    line = f"export-offsets --group nightly-settlement --output {file}"
    code, out, _ = kgroups(line)
    assert (code, out) == (0, "")
    written = file.read_text()
    assert len(written.splitlines()) == 3
    code, _, err = kgroups(line)
    assert code == 2
    assert "already exists: name another file, or remove it" in err
    assert file.read_text() == written


def test_json_has_the_promised_columns(rows):
    for options, names in (
        ("", describe.COLUMNS["offsets"]),
        ("--members", describe.COLUMNS["members"]),
        ("--state", describe.COLUMNS["state"]),
    ):
        found = rows(f"describe --all-groups {options}")
        assert {tuple(row) for row in found} == {tuple(names)}
