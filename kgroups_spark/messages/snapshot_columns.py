"""GroupMetadata values of consumer groups as columns, from their JSON texts: one row per value, one per member.

The texts are those of group_metadata.py, in `group_records.value`. A blob without bytes means that no topics are known
and no partitions are assigned. Values with a blob that no client could read are left to readers of single values,
because the columns have no place for its bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from numpy.typing import NDArray

from kgroups_spark.records.slices import list_offsets, ranks

# The beginning of the texts.
CONSUMER_GROUP = '{"protocolType":"consumer",'

_TOPICS = pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))]))
_SUBSCRIPTION = pa.struct([("topics", pa.list_(pa.string())), ("rackId", pa.string()), ("userData", pa.string())])
_MEMBER = pa.struct(
    [
        ("memberId", pa.string()),
        ("groupInstanceId", pa.string()),
        ("clientId", pa.string()),
        ("clientHost", pa.string()),
        ("rebalanceTimeout", pa.int32()),
        ("sessionTimeout", pa.int32()),
        ("subscription", _SUBSCRIPTION),
        ("subscriptionRaw", pa.string()),
        ("assignment", pa.struct([("assignedPartitions", _TOPICS)])),
        ("assignmentRaw", pa.string()),
    ]
)
_VALUE = pa.schema(
    [
        ("generation", pa.int32()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        ("currentStateTimestamp", pa.int64()),
        ("members", pa.list_(_MEMBER)),
    ]
)

ASSIGNED = pa.list_(
    pa.struct(
        [("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32()), ("assignment_epoch", pa.int32())]
    )
)
# The columns of members. Topics are sorted and unique; partitions are sorted by topic and number.
MEMBER_COLUMNS = pa.schema(
    [
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),  # -1: the version lacks it
        ("session_timeout_ms", pa.int32()),
        ("value_version", pa.int16()),
        ("rack_id", pa.string()),
        ("subscribed_topics", pa.list_(pa.string())),
        ("assigned_partitions", ASSIGNED),
        ("user_data", pa.string()),  # base64
    ]
)


class SnapshotColumns(NamedTuple):
    """n values and their members: those of value i are the rows first_member[i] to first_member[i] + member_count[i].

    `is_readable` bool[n]: every blob in the value is empty or readable. Members of other values are meaningless.
    """

    is_readable: NDArray[np.bool_]
    generation: pa.Array
    protocol: pa.Array
    leader: pa.Array
    current_state_timestamp: pa.Array
    first_member: NDArray[np.int64]
    member_count: NDArray[np.int64]
    members: pa.RecordBatch


def snapshot_columns(texts: pa.StringArray, value_versions: pa.Int16Array) -> SnapshotColumns:
    """The values of these texts, all of consumer groups, and of the versions in which they were written."""
    values = _read(texts)
    generation, protocol, leader, since, members = (column.combine_chunks() for column in values.columns)
    count = pc.list_value_length(members).to_numpy().astype(np.int64)
    of = pa.array(np.repeat(np.arange(len(texts)), count))
    found = dict(zip(_MEMBER.names, members.flatten().flatten(), strict=True))
    is_readable = np.ones(len(texts), np.bool_)
    is_readable[of.filter(pc.invert(_can_be_read(found))).to_numpy()] = False
    batch = _members(found, value_versions.take(of))
    return SnapshotColumns(is_readable, generation, protocol, leader, since, np.cumsum(count) - count, count, batch)


def _read(texts: pa.StringArray) -> pa.Table:
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    lines = pc.binary_join(whole, "\n")[0].as_buffer()
    return pa.json.read_json(
        pa.BufferReader(lines),
        # One block, because pyarrow rejects a value that spans more than two blocks.
        read_options=pa.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
        parse_options=pa.json.ParseOptions(explicit_schema=_VALUE, unexpected_field_behavior="ignore"),
    )


def _can_be_read(found: dict[str, pa.Array]) -> pa.Array:
    """For each member, whether both blobs are empty or readable."""
    subscription, assignment = (
        pc.or_(pc.is_valid(found[name]), pc.fill_null(pc.equal(found[f"{name}Raw"], ""), False))
        for name in ("subscription", "assignment")
    )
    return pc.and_(subscription, assignment)


def _members(found: dict[str, pa.Array], value_version: pa.Int16Array) -> pa.RecordBatch:
    topics, rack_id, user_data = found["subscription"].flatten()
    (assigned,) = found["assignment"].flatten()
    names = ("memberId", "groupInstanceId", "clientId", "clientHost", "rebalanceTimeout", "sessionTimeout")
    columns = [found[name] for name in names]
    columns += [value_version, rack_id, _sorted_topics(topics), _assigned_partitions(assigned), user_data]
    return pa.RecordBatch.from_arrays(columns, schema=MEMBER_COLUMNS)


def _sorted_topics(topics: pa.ListArray) -> pa.ListArray:
    """Each list sorted, without duplicates."""
    row, topic = pc.list_parent_indices(topics).to_numpy(), topics.flatten()
    rank = ranks(topic.dictionary_encode())
    if (np.diff(rank) > 0)[row[1:] == row[:-1]].all():
        return topics
    order = np.lexsort((rank, row))
    row, rank = row[order], rank[order]
    is_first = np.ones(len(row), np.bool_)
    is_first[1:] = (np.diff(row) > 0) | (np.diff(rank) > 0)
    offsets = _offsets(row[is_first], len(topics))
    return pa.ListArray.from_arrays(offsets, topic.take(pa.array(order[is_first])), mask=topics.is_null())


def _assigned_partitions(assigned: pa.ListArray) -> pa.ListArray:
    """The partitions of each list of topics, one by one, sorted."""
    topics, partitions = assigned.flatten().flatten()
    topic, partition = pc.list_parent_indices(partitions).to_numpy(), partitions.flatten()
    row = pc.list_parent_indices(assigned).to_numpy()[topic]
    place = (ranks(topics.dictionary_encode())[topic] << 32) + partition.to_numpy()
    if not (np.diff(place) >= 0)[row[1:] == row[:-1]].all():
        order = np.lexsort((place, row))
        topic, partition = topic[order], partition.take(pa.array(order))
    no_id, no_epoch = pa.nulls(len(topic), pa.string()), pa.nulls(len(topic), pa.int32())
    elements = pa.StructArray.from_arrays(
        [topics.take(pa.array(topic)), no_id, partition, no_epoch], fields=list(ASSIGNED.value_type)
    )
    return pa.ListArray.from_arrays(_offsets(row, len(assigned)), elements, type=ASSIGNED)


def _offsets(row: NDArray[np.int64], rows: int) -> pa.Int32Array:
    """The list offsets for `rows` lists, from the row of each element (`row`): rows + 1 numbers."""
    return list_offsets(np.bincount(row, minlength=rows))
