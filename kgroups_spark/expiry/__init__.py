"""Which committed offsets and groups the broker's next clean-up takes, and when: Arrow tables -> an Arrow table.

A clean-up looks at these, in this order (an offset's reason is the first that holds):

1. the group. An offset whose group is gone is never looked at (`orphan`). A classic group with members and a share
   group expire nothing (`group_active`), but for a `consumer` one that is Stable: there, what no member subscribes to
   may go, if every member's subscription can be read (`subscription_unknown`). Simple, Empty, consumer and streams
   groups always let go.
2. the topic. A topic that members subscribe to, by name or by expression, or that a streams topology reads, stays
   (`subscribed`).
3. a transaction with a pending offset on the same partition spares the committed one (`pending_transaction`; Java, 3.8
   on).
4. the time. A time that the client gave (`expire_timestamp`; clients before 2.1), else the retention counted from the
   commit; for an Empty classic group that was ever joined, from the moment it became Empty: committing does not prolong
   it.

A group goes in the same pass when it has no members and nothing is left of it. Before 2.1 only the offset's own time
counted. Releases differ: coordinator/expiry_rules.py has what in which, and Kafka's classes it comes from.

The tables are those of one or of several coordinator shards: a group and all that is of it lie in one. Rows are found
and judged by whole columns; only what is in a map or in JSON is read group by group.

Nothing here reads a clock: `as_of` may lie in the future ("if nobody comes back until then"), `retention_ms` may be one
that nobody has set yet. A state that no record tells (a rebalance that is going on, a session that ran out without a
trace) is not known.
"""

from kgroups_spark.expiry.group_expiry import group_expiry
from kgroups_spark.expiry.offset_expiry import offset_expiry

__all__ = ["group_expiry", "offset_expiry"]
