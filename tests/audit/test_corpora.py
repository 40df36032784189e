"""Logs of real brokers through the whole audit: its tables say what the brokers answered about them.

The corpora were recorded from Kafka 0.11.0.3 to 4.3.1; beside each log stands what its broker said when it was asked
for its groups, members, committed and unstable offsets and producers (metadata without the NUL byte that librdkafka
appends and hides).
"""

from __future__ import annotations

import json
import zipfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.audit.partition_count import partition_count
from tests.audit.pipeline import Audited, How, Row, audit, read_zip

CORPORA = Path(__file__).parents[1] / "data" / "corpora" / "corpora.zip"
Json = dict[str, Any]

with zipfile.ZipFile(CORPORA) as archive:
    ANSWERS: dict[str, Json] = {
        Path(name).stem: json.loads(archive.read(name)) for name in archive.namelist() if name.startswith("answers/")
    }

# 0.11's loader forgets the protocol type of an Empty group; this one became Empty while the broker was up, so it knew.
ANSWERS["legacy-0.11"]["groups"]["feed-105775"] |= {"protocol": None, "protocol_type": None, "simple": True}

every_corpus = pytest.mark.parametrize("corpus", sorted(ANSWERS))


@cache
def audited(corpus: str) -> Audited:
    return audit(read_zip(CORPORA)[corpus], How(ANSWERS[corpus]["release"]))


@every_corpus
def test_groups_are_those_that_the_broker_lists_and_describes(corpus: str) -> None:
    said = {
        name: {k: v for k, v in group.items() if k != "members"} for name, group in ANSWERS[corpus]["groups"].items()
    }
    ours = {row["group_id"]: row for row in audited(corpus).rows("groups")}
    assert said
    assert {name: _group(row, said.get(name, {})) for name, row in ours.items()} == said


def _group(row: Row, said: Json) -> Json:
    """Our row in the words of the answer, which does not hold every field of every release."""
    group = {**row, "simple": row["is_simple"]}
    if group["group_type"] != "classic":
        group |= {"simple": False, "protocol_type": group["group_type"]}
    if group["topology"] is not None:
        topology = json.loads(group["topology"])
        names = sorted(each["subtopologyId"] for each in topology["subtopologies"])
        group["topology"] = {"epoch": topology["epoch"], "subtopologies": names}
    return {name: group[name] for name in said}


@every_corpus
def test_members_are_those_that_the_broker_describes(corpus: str) -> None:
    answer = ANSWERS[corpus]
    said = {name: group["members"] for name, group in answer["groups"].items() if "members" in group}
    ours: dict[str, Json] = {name: {} for name in said}
    for row in audited(corpus).rows("group_members"):
        of_group = said.get(row["group_id"], {})
        member = _member(row, answer)
        ours.setdefault(row["group_id"], {})[row["member_id"]] = {
            name: member[name] for name in of_group.get(row["member_id"], {})
        }
    assert any(said.values())
    assert ours == said


def _member(row: Row, answer: Json) -> Json:
    member = dict(row)
    is_classic = answer["groups"][row["group_id"]].get("group_type", "classic") == "classic"
    name = "topic" if is_classic else "topic_id"
    assigned = list(row["assigned_partitions"] or ())
    if answer["release"] >= "4.3" and not is_classic:  # Describe adds what the member has still to give up
        assigned += row["pending_revocation_partitions"] or ()
    for key, partitions in (("assigned", assigned), ("target", row["target_partitions"] or ())):
        member[key] = sorted([p[name], p["partition"]] for p in partitions)
    for key in ("assigned_tasks", "target_tasks"):
        member[key] = sorted([t["role"], t["subtopology_id"], t["partition"]] for t in row[key] or ())
    member["subscribed_topics"] = sorted(row["subscribed_topics"] or ())
    return member


@every_corpus
def test_committed_offsets_are_those_that_the_broker_serves(corpus: str) -> None:
    said = {name: offsets for name, offsets in ANSWERS[corpus]["committed"].items() if offsets}
    ours = defaultdict(list)
    for row in audited(corpus).rows("committed_offsets"):
        if not row["is_orphan"]:
            fields = ("topic", "partition", "committed_offset", "leader_epoch")
            ours[row["group_id"]].append([row[name] for name in fields] + [row["metadata"].rstrip("\0")])
    assert said or corpus == "share-4.3"
    assert {name: sorted(offsets) for name, offsets in ours.items()} == said


@every_corpus
def test_pending_offsets_are_those_that_the_broker_calls_unstable(corpus: str) -> None:
    said = ANSWERS[corpus]["unstable"]
    ours: dict[str, list[Any]] = {name: [] for name in said}
    for row in audited(corpus).rows("pending_offsets"):
        if row["group_id"] in said:
            ours[row["group_id"]].append([row["topic"], row["partition"]])
    assert {name: sorted(offsets) for name, offsets in ours.items()} == said


@pytest.mark.parametrize("corpus", sorted(name for name in ANSWERS if "open_transactions" in ANSWERS[name]))
def test_open_transactions_are_those_of_the_brokers_producers(corpus: str) -> None:
    said = {int(partition): producers for partition, producers in ANSWERS[corpus]["open_transactions"].items()}
    ours: dict[int, list[Any]] = {partition: [] for partition in said}
    for row in audited(corpus).rows("open_transactions"):
        ours[row["offsets_partition"]].append([row["producer_id"], row["transaction_start_offset"]])
    assert ours == said


@every_corpus
def test_every_record_is_in_one_table_and_every_offset_is_passed(corpus: str) -> None:
    result = audited(corpus)
    assert result.record_count() == result.records_read() > 0
    assert result.rows("quarantine") == []
    ends = {str(each.offsets_partition): each.next_offset for each in result.progress}
    assert ends == {partition: end for partition, end in ANSWERS[corpus]["ends"].items() if partition in ends}


@every_corpus
def test_the_number_of_offsets_partitions_follows_from_the_groups(corpus: str) -> None:
    partitions = len(ANSWERS[corpus]["ends"])
    fitting = [each.partition_counts for each in audited(corpus).progress]
    assert all(partitions in counts for counts in fitting if counts)
    assert partition_count(fitting) in (partitions, None)
