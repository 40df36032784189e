"""Events report what was really done, with its cause, and nothing else: in recordings and a story with known scripts.

Recordings (tests/data/corpora): scripts drove real brokers; the comments say what was done to a group. The scripts
committed random offsets, many of them lower than the ones before. The causes that are reported are here; the slow
twin says which commits are rewinds. `unknown` is right where another act leaves the same log:

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
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.chosen import some_of
from tests.logs.corpora import ANSWERS
from tests.logs.log_files import read_zip
from tests.nights.nights_here import How, audit
from tests.nights.reported_tables import Row
from tests.nights.story import story as of_the_story
from tests.recorded_logs import CORPORA

WEEK = 7 * 86_400_000
SEGMENTS = Path(__file__).parents[2] / "kgroups_spark" / "demo" / "segments"
STORY = json.loads((Path(__file__).parents[1] / "data" / "story.json").read_text())

KIP_848 = {
    # audit-1180a3: active; its offset on unsubscribed gamma-0 deleted
    "audit-1180a3": "1 offset_removed unknown",
    # billing-123e24: downgraded online to classic when its last consumer-protocol member left; active
    "billing-123e24": "1 group_type_changed to classic",
    # mail-1268fb: emptied as classic, then joined with the consumer protocol; active
    "mail-1268fb": "1 group_type_changed to consumer",
    # orders-11e030: consumer group with two classic members (one static) and one consumer-protocol
    # member; active
    "orders-11e030": "1 group_type_changed to consumer",
    # orders-12c0d7: simple group over which a consumer group was formed; active
    "orders-12c0d7": "1 group_type_changed to consumer",
    # search-11a28d: upgraded online from classic, every classic member replaced; active
    "search-11a28d": "1 group_type_changed to consumer",
    # search-12984d: emptied as consumer, joined with the classic protocol, emptied again
    "search-12984d": "1 group_type_changed to classic",
    # shipping-116811: emptied and deleted
    "shipping-116811": "2 offset_removed group_deleted, 1 group_removed group_deleted",
}

LEGACY_28 = {
    # audit-10f5e1: simple, deleted
    "audit-10f5e1": "1 offset_removed unknown, 1 group_removed unknown",
    # billing-1073af: simple; orders-1 deleted; explicit retention 1 h on clicks-0 and 24 h on -1
    "billing-1073af": "1 offset_removed offset_deleted",
    # billing-108d23: simple, deleted
    "billing-108d23": "1 offset_removed unknown, 1 group_removed unknown",
    # billing-115453: simple; orders-1 deleted; explicit retention 1 h on clicks-0 and 24 h on -1
    "billing-115453": "1 offset_removed offset_deleted",
    # mail-10eb1c: simple; orders-1 deleted; explicit retention 1 h on clicks-0 and 24 h on -1
    "mail-10eb1c": "1 offset_removed offset_deleted",
    # shipping-1165c4: simple, deleted
    "shipping-1165c4": "1 offset_removed unknown, 1 group_removed unknown",
}

OF_ONE_SCRIPT = {
    # audit-130db5 (active) and search-132aa6 (simple): committed on doomed, which was deleted, then
    # created again under a new id; the simple one committed on its partition 1 again
    "audit-130db5": "2 offset_removed topic_deleted",
    # billing-11ddce: had a member and offsets, emptied, deleted
    "billing-11ddce": "3 offset_removed group_deleted, 1 group_removed group_deleted",
    # ledger-148f35: offset of input-0 deleted while pending; that transaction is still open
    "ledger-148f35": "1 offset_removed offset_deleted",
    # orders-11276f: joined and left without any commit, Empty without offsets
    "orders-11276f": "1 group_removed expired",
    # orders-1169cf: active on orders; its offset on unsubscribed single-0 was deleted by Admin
    "orders-1169cf": "1 offset_removed unknown",
    # orders-11baad: simple, offsets of partitions 0 and 3 of clicks deleted
    "orders-11baad": "2 offset_removed offset_deleted",
    # report-120bfa: Empty, then orders-0 reset backwards to 5 and orders-1 forwards to 999999999
    "report-120bfa": "1 offset_skipped no_members",
    # audit-130db5 (active) and search-132aa6 (simple): committed on doomed, which was deleted, then
    # created again under a new id; the simple one committed on its partition 1 again
    "search-132aa6": "2 offset_removed unknown, 1 offset_restarted self_assigned",
}

# The events that a recording's script caused, by recording and group: how often each comes, and with which cause.
DONE: dict[str, dict[str, str]] = {
    "classic-4.3": {
        # audit-130db5 (active) and search-132aa6 (simple): committed on doomed, which was deleted, then
        # created again under a new id; the simple one committed on its partition 1 again
        "audit-130db5": "2 offset_removed topic_deleted",
        # billing-11ddce: had a member and offsets, emptied, deleted
        "billing-11ddce": "3 offset_removed group_deleted, 1 group_removed group_deleted",
        # orders-1169cf: active on orders; its offset on unsubscribed single-0 was deleted by Admin
        "orders-1169cf": "1 offset_removed unknown",
        # orders-11baad: simple, offsets of partitions 0 and 3 of clicks deleted
        "orders-11baad": "2 offset_removed offset_deleted",
        # report-11c80b: simple, every offset deleted one by one
        "report-11c80b": "2 offset_removed unknown",
        # report-120bfa: Empty, then orders-0 reset backwards to 5 and orders-1 forwards to 999999999
        "report-120bfa": "1 offset_skipped no_members",
        # search-11f7a1: simple group deleted, then an offset of orders-1 set again
        "search-11f7a1": "3 offset_removed group_deleted, 1 group_removed group_deleted, "
        "1 offset_restarted self_assigned",
        # audit-130db5 (active) and search-132aa6 (simple): committed on doomed, which was deleted, then
        # created again under a new id; the simple one committed on its partition 1 again
        "search-132aa6": "2 offset_removed topic_deleted, 1 topic_recreated, 1 offset_restarted topic_recreated",
    },
    # Six groups came and were deleted, and two offsets six times; the cleaner took what had been there. Offsets that
    # were deleted and came again (mail-104e47, audit-1072de, shipping-102bb0) have a value after their tombstones.
    "compacted-4.3": {
        "audit-11b4a3": "6 offset_removed unknown, 1 group_removed unknown",
        "billing-1205bc": "6 offset_removed unknown, 1 group_removed unknown",
        "billing-12507e": "6 offset_removed unknown, 1 group_removed unknown",
        "billing-12ac22": "6 offset_removed unknown, 1 group_removed unknown",
        "report-1164a2": "6 offset_removed unknown, 1 group_removed unknown",
        "shipping-1066fb": "1 offset_removed unknown",
        "shipping-111941": "6 offset_removed unknown, 1 group_removed unknown",
    },
    "connect-4.3": {},
    "expiry-4.3-after": {
        # audit-1052de: consumer protocol, commits first of all, becomes Empty last of all
        "audit-1052de": "7 offset_removed expired, 1 group_removed expired",
        # audit-11e7d7: simple, explicit expiry: alpha-0 after 20 s, -1 after 1 h, beta-0 after 95 s, -1
        # without
        "audit-11e7d7": "3 offset_removed expired",
        # billing-107d23: classic, Empty; alpha-0 set by Admin after that
        "billing-107d23": "1 offset_skipped no_members, 7 offset_removed expired, 1 group_removed expired",
        # billing-112201: consumer protocol, active with regex gamma[.].*
        "billing-112201": "5 offset_removed expired",
        # ledger-10b7d1: classic, active, members subscribe to alpha and beta, offsets on a third topic too
        "ledger-10b7d1": "2 offset_removed expired",
        # orders-1140da: consumer protocol, Empty
        "orders-1140da": "7 offset_removed expired, 1 group_removed expired",
        # orders-116df3: consumer protocol, Empty without offsets
        "orders-116df3": "1 group_removed expired",
        # orders-11b52e: only an aborted transaction
        "orders-11b52e": "1 group_removed expired",
        # shipping-10e2d4 and search-10f126: simple, from the second one three offsets were deleted
        "search-10f126": "3 offset_removed offset_deleted, 4 offset_removed expired, 1 group_removed expired",
        # search-11028d: consumer protocol, active on beta
        "search-11028d": "5 offset_removed expired",
        # search-118239: simple, plain offsets everywhere, pending ones on alpha-0 and beta-1
        "search-118239": "5 offset_removed expired",
        # search-11d106: offsets of a committed transaction
        "search-11d106": "2 offset_removed expired, 1 group_removed expired",
        # search-11ff98: simple, its one offset has an explicit expiry after 20 s
        "search-11ff98": "1 offset_removed expired, 1 group_removed expired",
        # search-120953: classic, active on alpha, offsets on all topics
        # search-120953: kept committing on unsubscribed beta every 10 s after the restart
        "search-120953": "2 offset_removed expired",
        # shipping-103bb0: classic, commits first of all, becomes Empty last of all
        "shipping-103bb0": "7 offset_removed expired, 1 group_removed expired",
        # shipping-10900b: classic, Empty without offsets
        "shipping-10900b": "1 group_removed expired",
        # shipping-10e2d4 and search-10f126: simple, from the second one three offsets were deleted
        "shipping-10e2d4": "7 offset_removed expired, 1 group_removed expired",
        # shipping-12476a: simple group, committed only now
        "shipping-12476a": "7 offset_removed expired, 1 group_removed expired",
    },
    "expiry-4.3-before": {
        # billing-107d23: classic, Empty; alpha-0 set by Admin after that
        "billing-107d23": "1 offset_skipped no_members",
        # shipping-10e2d4 and search-10f126: simple, from the second one three offsets were deleted
        "search-10f126": "3 offset_removed offset_deleted",
    },
    "kip848-4.0": KIP_848,
    "kip848-4.3": KIP_848,
    "legacy-0.11": {},
    "legacy-1.1": {
        # feed-10304b: simple, deleted
        "feed-10304b": "1 offset_removed unknown, 1 group_removed unknown",
        # import-1073de: simple, deleted
        "import-1073de": "1 offset_removed group_deleted, 1 group_removed group_deleted",
    },
    "legacy-2.8-old-format": LEGACY_28,
    "legacy-2.8-upgraded": LEGACY_28
    | {
        # mail-11d21e: simple, deleted
        "mail-11d21e": "1 offset_removed unknown, 1 group_removed unknown",
        # report-11c008: simple; orders-1 deleted; explicit retention 1 h on clicks-0 and 24 h on -1
        "report-11c008": "1 offset_removed offset_deleted",
        # report-124556: simple, deleted
        "report-124556": "1 offset_removed unknown, 1 group_removed unknown",
        # search-12385a: simple; orders-1 deleted; explicit retention 1 h on clicks-0 and 24 h on -1
        "search-12385a": "1 offset_removed offset_deleted",
    },
    "mixed-upgrade": OF_ONE_SCRIPT
    | {
        # ledger-146142: group deleted while a transaction was pending, which then wrote input-3=33 and
        # committed
        "ledger-146142": "2 offset_removed unknown",
        # report-11c80b: simple, every offset deleted one by one
        "report-11c80b": "2 offset_removed unknown",
        # report-145fdf: offsets of input-0 and -2 deleted while a transaction on -0 and -1 was pending, which
        # then committed
        "report-145fdf": "2 offset_removed offset_deleted",
        # search-11f7a1: simple group deleted, then an offset of orders-1 set again
        "search-11f7a1": "3 offset_removed unknown, 1 offset_restarted self_assigned",
    },
    "scala-3.9-reloaded": OF_ONE_SCRIPT
    | {
        # billing-1371bd: its only transaction aborted
        "billing-1371bd": "1 group_removed unknown",
        # billing-149f49: producer fenced by its successor (same transactional id), pending input-0=666
        # aborted, -1=777 committed
        "billing-149f49": "1 group_removed unknown",
        # ledger-146142: group deleted while a transaction was pending, which then wrote input-3=33 and
        # committed
        "ledger-146142": "2 offset_removed group_deleted, 2 offset_restarted transaction",
        # report-11c80b: simple, every offset deleted one by one
        "report-11c80b": "2 offset_removed unknown, 1 group_removed unknown",
        # report-145fdf: offsets of input-0 and -2 deleted while a transaction on -0 and -1 was pending, which
        # then committed
        "report-145fdf": "2 offset_removed offset_deleted, 1 offset_restarted transaction",
        # search-11f7a1: simple group deleted, then an offset of orders-1 set again
        "search-11f7a1": "3 offset_removed group_deleted, 1 group_removed group_deleted, "
        "1 offset_restarted self_assigned",
        # shipping-153e35: its transaction was aborted by the transaction coordinator after its timeout
        "shipping-153e35": "1 group_removed unknown",
    },
    "share-4.3": {
        # orders-10aa75: share group consumed, emptied, deleted
        "orders-10aa75": "1 group_removed group_deleted",
    },
    "streams-4.3": {
        # wordcount-10a7c1: streams-protocol application, stopped, group deleted
        "wordcount-10a7c1": "6 offset_removed group_deleted, 1 group_removed group_deleted",
    },
    "transactions-4.3": {
        # orders-1125e0: offsets of input-0 and -2 deleted while a transaction on -0 and -1 was pending, which
        # then committed
        "orders-1125e0": "2 offset_removed offset_deleted",
        # shipping-1130e9: group deleted while a transaction was pending, which then wrote input-3=33 and
        # committed
        "shipping-1130e9": "2 offset_removed group_deleted, 1 group_removed group_deleted",
        # shipping-1155c4: offset of input-0 deleted while pending; that transaction is still open
        "shipping-1155c4": "1 offset_removed offset_deleted",
    },
}


# Most acts are in these two.
ALWAYS = ("classic-4.3", "expiry-4.3-after")
some_corpora = pytest.mark.parametrize("corpus", [*ALWAYS, *some_of(1, *sorted(DONE.keys() - set(ALWAYS)))])


@cache
def recorded(corpus: str) -> list[Row]:
    """The recording's events."""
    return audit(read_zip(CORPORA)[corpus], how(corpus)).rows("group_events")


def how(corpus: str) -> How:
    return How(ANSWERS[corpus]["release"], retention_ms=ANSWERS[corpus].get("retention_ms", WEEK))


@some_corpora
def test_events_report_each_act_with_its_cause_and_nothing_else(corpus: str) -> None:
    found: dict[str, Counter[str]] = {}
    for row in recorded(corpus):
        if row["event"] == "group_type_changed":
            text = f"group_type_changed to {row['value_after']}"
        elif row["event"] == "offset_rewound" or (row["cause"] is None and row["event"] != "topic_recreated"):
            continue
        else:
            text = " ".join(filter(None, (row["event"], row["cause"])))
        found.setdefault(row["group_id"], Counter())[text] += 1
    done = {group: Counter(dict(counted(text))) for group, text in DONE[corpus].items()}
    assert found == done


def counted(text: str) -> Iterator[tuple[str, int]]:
    for part in text.split(", "):
        number, event = part.split(" ", 1)
        yield event, int(number)


@pytest.fixture(scope="module")
def story() -> list[Row]:
    return of_the_story().rows("group_events")


# Members of the story's groups start over where auto.offset.reset says, which no log knows.
RESTARTS = {"auto.offset.reset=earliest": "with_members", "auto.offset.reset=latest": "with_members"}
REMOVALS = ("offsets_expired", "offsets_deleted", "topic_deleted", "topic_recreated", "group_deleted")
MOVES = {"reset_backward": "offset_rewound", "seek_back": "offset_rewound", "reset_forward": "offset_skipped"}
RESTARTED = ("restarted_lower", "restarted_higher", "first_commit_of_new_topic")


def acts_of_offsets() -> Iterator[tuple[list[int], tuple[Any, ...]]]:
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


def test_events_of_offsets_and_groups_agree_with_the_story(story: list[Row]) -> None:
    said: dict[tuple[Any, ...], list[list[int]]] = {}
    for log_offsets, act in acts_of_offsets():
        said.setdefault(act, []).append(log_offsets)
    names = ("offsets_partition", "group_id", "event", "topic", "partition", "offset_before", "offset_after", "cause")
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in story:
        if row["cause"] is not None:
            found.setdefault(tuple(row[name] for name in names), []).append(row["log_offset"])
    assert len(said) > 100
    assert found.keys() == said.keys()
    for act, log_offsets in found.items():
        assert len(log_offsets) == len(said[act])
        assert all(at in there for at, there in zip(log_offsets, said[act], strict=True)), act


def test_the_storys_new_topic_is_reported_for_each_partition(story: list[Row]) -> None:
    found = [(row["group_id"], row["topic"], row["partition"]) for row in story if row["event"] == "topic_recreated"]
    (topic,) = {act["topic"] for act in STORY["events"] if act["what"] == "topic_recreated"}
    first = [act for act in STORY["events"] if act["what"] == "first_commit_of_new_topic" and act["topic"] == topic]
    assert sorted(found) == sorted((act["group"], topic, partition) for act in first for partition in act["partitions"])


def test_protocol_changes_agree_with_the_story(story: list[Row]) -> None:
    ranges: dict[tuple[int, str, str], list[int]] = {}
    for act in STORY["events"]:
        if act["what"] in ("upgraded", "downgraded"):
            to = {"upgraded": "consumer", "downgraded": "classic"}[act["what"]]
            ranges.setdefault((act["offsets_partition"], act["group"], to), []).extend(act["log_offsets"])
    found = [row for row in story if row["event"] == "group_type_changed"]
    assert sorted((row["offsets_partition"], row["group_id"], row["value_after"]) for row in found) == sorted(ranges)
    for row in found:
        assert row["log_offset"] in ranges[row["offsets_partition"], row["group_id"], row["value_after"]]


def test_members_joining_and_leaving_agree_with_the_story(story: list[Row]) -> None:
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


def now() -> list[Row]:
    return of_the_story().rows("groups")
