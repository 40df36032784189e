"""The slow, obvious share coordinator: a dict from offset to (delivery count, delivery state).

It knows nothing of batches, so batches are compared joined: equal ones that touch are one.
"""

from __future__ import annotations


class Twin:
    def __init__(self):
        self.states = {}

    def replay(self, record):
        key = (record.group_id, record.topic_id, record.partition)
        value, state = record.value, self.states.get(key)
        if value is None:
            if record.record_type == 0:
                self.states.pop(key, None)
            return
        if record.record_type == 0 or state is None:
            numbers = {name: number for name, number in value.items() if name != "stateBatches"}
            if record.record_type == 1:
                numbers |= {"stateEpoch": 0, "createTimestamp": 0, "writeTimestamp": 0}
            self.states[key] = {**numbers, "offsets": offsets_of(value["stateBatches"])}
            return
        state["deliveryCompleteCount"] = value["deliveryCompleteCount"]
        for name in ("startOffset", "leaderEpoch"):
            if value[name] != -1:
                state[name] = value[name]
        for offset, priority in offsets_of(value["stateBatches"]).items():
            state["offsets"][offset] = max(priority, state["offsets"].get(offset, priority))
        if state["startOffset"] != -1:
            state["offsets"] = {o: p for o, p in state["offsets"].items() if o >= state["startOffset"]}


def offsets_of(batches):
    """The highest (count, state) of each offset."""
    out = {}
    for batch in batches:
        priority = (batch["deliveryCount"], batch["deliveryState"])
        for offset in range(batch["firstOffset"], batch["lastOffset"] + 1):
            out[offset] = max(priority, out.get(offset, priority))
    return out
