"""Generated records of `__transaction_state`, as bytes by an encoder of its own, some of them odd."""

from __future__ import annotations

import random

from tests.findings.record_bytes import uvarint

IDS = ("etl-0_1", "etl-0_2", "café", "")


def integer(width, number):
    return number.to_bytes(width, "big", signed=True)


def key_bytes(transactional_id):
    data = transactional_id.encode()
    return integer(2, 0) + integer(2, len(data)) + data


def value_bytes(value, version):
    """Kafka's bytes of a value of version 0 or 1; other versions look like 1. Tags are left out as their defaults."""
    flexible = version != 0
    tags = {0: (8, "previousProducerId", -1), 1: (8, "nextProducerId", -1)}
    tags |= {2: (2, "clientTransactionVersion", 0), 3: (2, "nextProducerEpoch", -1)}
    out = integer(2, version) + integer(8, value["producerId"]) + integer(2, value["producerEpoch"])
    out += integer(4, value["transactionTimeoutMs"]) + integer(1, value["transactionStatus"])
    out += _partitions(value["transactionPartitions"], flexible)
    out += integer(8, value["transactionLastUpdateTimestampMs"]) + integer(8, value["transactionStartTimestampMs"])
    if not flexible:
        return out
    given = [
        (tag, width, value[name]) for tag, (width, name, default) in tags.items() if value.get(name, default) != default
    ]
    return out + uvarint(len(given)) + b"".join(uvarint(t) + uvarint(w) + integer(w, number) for t, w, number in given)


def _partitions(topics, flexible):
    end = b"\0" if flexible else b""
    if topics is None:
        return b"\0" if flexible else integer(4, -1)
    count = (lambda n: uvarint(n + 1)) if flexible else (lambda n: integer(4, n))
    name_length = (lambda n: uvarint(n + 1)) if flexible else (lambda n: integer(2, n))
    out = count(len(topics))
    for topic, partitions in topics:
        data = topic.encode()
        out += name_length(len(data)) + data + count(len(partitions))
        out += b"".join(integer(4, p) for p in partitions) + end
    return out


def value(status=1, partitions=(("t", (0,)),), **fields):
    """A value's fields."""
    return {
        "producerId": 7,
        "producerEpoch": 0,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": status,
        "transactionPartitions": partitions,
        "transactionLastUpdateTimestampMs": 1_000,
        "transactionStartTimestampMs": 900,
    } | fields


def history(seed, length=30):
    """(transactional id, value version, value bytes or None) of records in log order."""
    generator = random.Random(seed)
    return [_record(generator) for _ in range(length)]


def _record(generator):
    transactional_id = generator.choice(IDS)
    if generator.random() < 0.1:
        return transactional_id, None, None
    version = generator.choices([0, 1, 2], [10, 20, 1])[0]
    status = generator.choices([*range(8), -1, 9], [9, 9, 9, 9, 9, 9, 1, 1, 0.5, 0.5])[0]
    topics = [
        (t, [generator.randrange(5) for _ in range(generator.randrange(4))]) for t in generator.choices("abb", k=2)
    ]
    partitions = generator.choices([None, [], topics], [1, 3, 10])[0]
    fields = {
        "producerId": generator.choice([-1, 0, 5, 2**63 - 1]),
        "producerEpoch": generator.choice([-1, 0, 3, 2**15 - 1]),
        "transactionTimeoutMs": generator.choice([1, 60_000, 2**31 - 1]),
        "transactionLastUpdateTimestampMs": generator.choice([-1, 0, 1_700_000_000_000]),
        "transactionStartTimestampMs": generator.choice([-1, 0, 1_600_000_000_000]),
    }
    tags = {
        "previousProducerId": generator.choice([-1, 4]),
        "nextProducerId": generator.choice([-1, 6]),
        "nextProducerEpoch": generator.choice([-1, 0]),
        "clientTransactionVersion": generator.choices([0, 1, 2, 3, -1], [5, 5, 5, 0.3, 0.3])[0],
    }
    return transactional_id, version, value_bytes(value(status, partitions, **fields, **tags), version)
