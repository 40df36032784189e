"""The slow, obvious decoder of `__share_group_state` and `__transaction_state`: it shares no code with the package."""

from __future__ import annotations

from tests.slow_messages import Bad, Cursor, choose, try_layout


def share_key(c):
    return {"groupId": c.string(), "topicId": c.uuid(), "partition": c.i32()}


def transaction_key(c):
    return {"transactionalId": c.string()}


def state_batch(c):
    out = {"firstOffset": c.i64(), "lastOffset": c.i64(), "deliveryState": c.i8(), "deliveryCount": c.i16()}
    c.tags()
    return out


def counted_tags(c):
    return c.tags({0: c.i32}).get(0, -1)


def snapshot(c):
    head = {"snapshotEpoch": c.i32(), "stateEpoch": c.i32(), "leaderEpoch": c.i32(), "startOffset": c.i64()}
    times = {"createTimestamp": c.i64(), "writeTimestamp": c.i64()}
    batches = c.array(lambda: state_batch(c))
    return head | {"deliveryCompleteCount": counted_tags(c)} | times | {"stateBatches": batches}


def snapshot_4_0(c):
    head = {"snapshotEpoch": c.integer(2, signed=False), "stateEpoch": c.i32(), "leaderEpoch": c.i32()}
    head |= {"startOffset": c.i64(), "stateBatches": c.array(lambda: state_batch(c))}
    c.tags()
    return head | {"deliveryCompleteCount": None, "createTimestamp": None, "writeTimestamp": None}


def update(c):
    head = {"snapshotEpoch": c.i32(), "leaderEpoch": c.i32(), "startOffset": c.i64()}
    batches = c.array(lambda: state_batch(c))
    return head | {"deliveryCompleteCount": counted_tags(c), "stateBatches": batches}


def update_4_0(c):
    head = {"snapshotEpoch": c.integer(2, signed=False), "leaderEpoch": c.i32(), "startOffset": c.i64()}
    head["stateBatches"] = c.array(lambda: state_batch(c))
    c.tags()
    return head | {"deliveryCompleteCount": None}


def transaction_partitions(c):
    out = {"topic": c.string(), "partitionIds": c.ints()}
    c.tags()
    return out


def transaction(c):
    found = {"producerId": c.i64(), "producerEpoch": c.i16(), "transactionTimeoutMs": c.i32()}
    found["transactionStatus"] = c.i8()
    found["transactionPartitions"] = c.array_or_null(lambda: transaction_partitions(c))
    found["transactionLastUpdateTimestampMs"] = c.i64()
    found["transactionStartTimestampMs"] = c.i64()
    tags = c.tags({0: c.i64, 1: c.i64, 2: c.i16, 3: c.i16})
    found |= {"previousProducerId": tags.get(0, -1), "nextProducerId": tags.get(1, -1)}
    return found | {"clientTransactionVersion": tags.get(2, 0), "nextProducerEpoch": tags.get(3, -1)}


TYPES = {
    "share": {
        0: ("ShareSnapshot", share_key, 0, [("", snapshot), ("4.0", snapshot_4_0)]),
        1: ("ShareUpdate", share_key, 0, [("", update), ("4.0", update_4_0)]),
    },
    "transaction": {0: ("TransactionLog", transaction_key, 1, [("", transaction)])},
}


def slow_outcome(coordinator, key, value):
    """A dict with `outcome` (ok, tombstone or a reason) and what could be read."""
    if key is None:
        return {"outcome": "null_key"}
    c = Cursor(key)
    try:
        number = c.i16()
    except Bad:
        return {"outcome": "truncated"}
    if number not in TYPES[coordinator]:
        return {"outcome": "unknown_record_type", "record_type": number}
    name, read_key, newest, layouts = TYPES[coordinator][number]
    out = {"record_type": number, "record_name": name}
    try:
        out["key"] = read_key(c)
    except Bad:
        return out | {"outcome": "truncated"}
    key_exact = c.exact and c.left() == 0
    if value is None:
        return out | {"outcome": "tombstone", "exact": key_exact}
    if len(value) < 2:
        return out | {"outcome": "truncated" if value else "empty_value"}
    version = Cursor(value).i16()
    out["version"] = version
    if not 0 <= version <= newest:
        return out | {"outcome": "unknown_value_version"}
    flexible = coordinator == "share" or version >= 1
    chosen = choose(layouts, [try_layout(read, value, flexible) for _, read in layouts])
    if chosen is None:
        return out | {"outcome": "truncated"}
    layout, (fields, exact, left) = chosen
    return out | {"outcome": "ok", "value": fields, "layout": layout, "exact": key_exact and exact and left == 0}
