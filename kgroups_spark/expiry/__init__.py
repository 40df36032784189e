"""Which committed offsets and groups the broker's next clean-up removes, and when: Arrow tables -> an Arrow table.

A clean-up checks these, in this order (an offset's reason is the first that applies):

1. the group. An offset without a group is never checked (`orphan`). A share group expires nothing (`share_group`), nor
   does a classic group with members (`group_active`), except a Stable classic group of protocol type `consumer`: its
   offsets of topics that no member subscribes to may expire, if every member's subscription can be parsed
   (`subscription_unknown`). Offsets of simple, Empty, consumer and streams groups can always expire.
2. the topic. Offsets of a topic that members subscribe to, by name or by regular expression, or that a streams topology
   reads, stay (`subscribed`).
3. a transaction with a pending offset on the same partition spares the committed one (`pending_transaction`; Java from
   3.8 on).
4. the time. It is the time that the client gave (`expire_timestamp`; clients before 2.1), otherwise the commit time
   plus the retention. For an Empty classic group with a protocol type the retention counts from the moment when it
   became Empty, and a later commit does not prolong it.

A group is removed in the same clean-up if it has no members and no offsets left. Before 2.1 only the offset's own time
counted. The differences between releases, and their sources in Kafka, are in coordinator/expiry_rules.py.

The tables are those of one or several coordinator shards; a group and its offsets are in one shard. Rules are applied
to whole columns; only maps and JSON are read group by group.

Nothing here reads a clock: `as_of` may be in the future ("if no member comes back until then"), and `retention_ms` may
be a value that no broker has yet. A state that no record shows (a running rebalance, a session timeout not logged yet)
is unknown.
"""
