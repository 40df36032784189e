"""Events report what was really done, with its cause, and nothing else: in recordings and a story with known scripts.

Recordings (tests/data/corpora): scripts drove real brokers; tests/data/event-truth.json says what was done to a group.
The scripts committed random offsets, many of them lower than the ones before. The causes that are reported are there;
test_group_events.py says which commits are rewinds. `unknown` is right where another act leaves the same log:

    one group's topic    only one group of the offsets partition has offsets of the topic, and it does not subscribe to
                         it: deleted offsets look like a deleted topic. Scala's coordinator removes a group with its
                         last offset, so that a deleted group looks the same, too
    cleaned              the log's cleaner took the record that a tombstone removed, and only the tombstone is left
    Scala's days         a later release's rules replay the log of an older one: deleting all offsets of a simple group
                         looks like deleting the group

The story (tests/data/story.json): three weeks of a shop, written by Kafka's own coordinator classes, each act with its
log offsets. It has every act that moves an offset back or removes one, but for committed transactions.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.chosen import some_of
from tests.logs.corpora import ANSWERS
from tests.logs.log_files import read_zip
from tests.nights.nights_here import How, audit
from tests.nights.story import story as of_the_story
from tests.recorded_logs import CORPORA

WEEK = 7 * 86_400_000
DATA = Path(__file__).parents[1] / "data"
STORY = json.loads((DATA / "story.json").read_text())
# By recording and group: what the script did to it, and the events that this caused, each with its number and cause.
DONE = json.loads((DATA / "event-truth.json").read_text())

# Most acts are in these two.
ALWAYS = ("classic-4.3", "expiry-4.3-after")
some_corpora = pytest.mark.parametrize("corpus", [*ALWAYS, *some_of(1, *sorted(DONE.keys() - set(ALWAYS)))])


@cache
def recorded(corpus):
    """The recording's events."""
    return audit(read_zip(CORPORA)[corpus], how(corpus)).rows("group_events")


def how(corpus):
    return How(ANSWERS[corpus]["release"], retention_ms=ANSWERS[corpus].get("retention_ms", WEEK))


@some_corpora
def test_events_report_each_act_with_its_cause_and_nothing_else(corpus):
    found = {}
    for row in recorded(corpus):
        if row["event"] == "group_type_changed":
            text = f"group_type_changed to {row['value_after']}"
        elif row["event"] == "offset_rewound" or (row["cause"] is None and row["event"] != "topic_recreated"):
            continue
        else:
            text = " ".join(filter(None, (row["event"], row["cause"])))
        found.setdefault(row["group_id"], Counter())[text] += 1
    done = {group: Counter(dict(map(counted, of["events"]))) for group, of in DONE[corpus].items()}
    assert found == done


def counted(text):
    number, event = text.split(" ", 1)
    return event, int(number)


@pytest.fixture(scope="module")
def story():
    return of_the_story().rows("group_events")


# Members of the story's groups start over where auto.offset.reset says, which no log knows.
RESTARTS = {"auto.offset.reset=earliest": "with_members", "auto.offset.reset=latest": "with_members"}
REMOVALS = ("offsets_expired", "offsets_deleted", "topic_deleted", "topic_recreated", "group_deleted")
MOVES = {"reset_backward": "offset_rewound", "seek_back": "offset_rewound", "reset_forward": "offset_skipped"}
RESTARTED = ("restarted_lower", "restarted_higher", "first_commit_of_new_topic")


def acts_of_offsets():
    """The events of offsets and groups that the story tells, each after the log offsets of its act."""
    for act in STORY["events"]:
        place, what, log_offsets = (act["offsets_partition"], act["group"]), act["what"], act["log_offsets"]
        cause = RESTARTS.get(act["cause"], act["cause"])
        if what == "group_removed" or (what == "group_deleted" and "topic" not in act):
            yield log_offsets, (*place, "group_removed", None, None, None, None, cause)
        for partition in act.get("partitions", ()):
            slot = (act["topic"], partition)
            before, after, removed = (
                act.get(name, {}).get(str(partition)) for name in ("before", "after", "before_removal")
            )
            if what in REMOVALS:
                yield log_offsets, (*place, "offset_removed", *slot, before, None, cause)
            elif what in MOVES:
                yield log_offsets, (*place, MOVES[what], *slot, before, after, cause)
            elif what in RESTARTED and before is None:
                yield log_offsets, (*place, "offset_restarted", *slot, removed, after, cause)
            elif what in RESTARTED and after < before:
                yield log_offsets, (*place, "offset_rewound", *slot, before, after, cause)


def test_events_of_offsets_and_groups_agree_with_the_story(story):
    said = {}
    for log_offsets, act in acts_of_offsets():
        said.setdefault(act, []).append(log_offsets)
    names = ("offsets_partition", "group_id", "event", "topic", "partition", "offset_before", "offset_after", "cause")
    found = {}
    for row in story:
        if row["cause"] is not None:
            found.setdefault(tuple(row[name] for name in names), []).append(row["log_offset"])
    assert len(said) > 100
    assert found.keys() == said.keys()
    for act, log_offsets in found.items():
        assert len(log_offsets) == len(said[act])
        assert all(at in there for at, there in zip(log_offsets, said[act], strict=True)), act


def test_the_storys_new_topic_is_reported_for_each_partition(story):
    found = [(row["group_id"], row["topic"], row["partition"]) for row in story if row["event"] == "topic_recreated"]
    (topic,) = {act["topic"] for act in STORY["events"] if act["what"] == "topic_recreated"}
    first = [act for act in STORY["events"] if act["what"] == "first_commit_of_new_topic" and act["topic"] == topic]
    assert sorted(found) == sorted((act["group"], topic, partition) for act in first for partition in act["partitions"])


def test_protocol_changes_agree_with_the_story(story):
    ranges = {}
    for act in STORY["events"]:
        if act["what"] in ("upgraded", "downgraded"):
            to = {"upgraded": "consumer", "downgraded": "classic"}[act["what"]]
            ranges.setdefault((act["offsets_partition"], act["group"], to), []).extend(act["log_offsets"])
    found = [row for row in story if row["event"] == "group_type_changed"]
    assert sorted((row["offsets_partition"], row["group_id"], row["value_after"]) for row in found) == sorted(ranges)
    for row in found:
        assert row["log_offset"] in ranges[row["offsets_partition"], row["group_id"], row["value_after"]]


def test_members_joining_and_leaving_agree_with_the_story(story):
    left = {(row["group_id"], row["member_id"]) for row in story if row["event"] == "member_left"}
    joined = {row["group_id"] for row in story if row["event"] == "member_joined"}
    lost = {(act["group"], act["by"]) for act in STORY["events"] if act["what"] in ("member_lost", "member_flaps")}
    away = {(act["group"], act["by"]) for act in STORY["events"] if act["what"] == "static_member_away"}
    assert lost and lost <= left
    assert away and not away & left
    started = {act["group"] for act in STORY["events"] if act["cause"] in ("members join", "kafka-console-consumer")}
    assert joined == started
    created = Counter(row["group_id"] for row in story if row["event"] == "group_created")
    removed = Counter(row["group_id"] for row in story if row["event"] == "group_removed")
    there = {group for group in created if created[group] > removed[group]}
    assert set((created - removed).values()) == {1} and there == {row["group_id"] for row in now()}


def now():
    return of_the_story().rows("groups")
