"""Groups record by record, as Kafka's `GroupMetadataManager` replays them, with the rules of each release as data.

releases.py            the rules: replay of each release, expiry of each release, RULES_VERSION, topic names
broker_release.py      the release of a live cluster, from what its brokers answer
groups.py              the groups of one offsets partition: one record in, changed groups out. Begin here
classic_group.py       a classic group (type 2), or one that has only offsets
consumer_group.py      a group of KIP-848 (types 3 to 8, 16), and what modern groups share
share_group.py         share groups (types 9 to 15) and streams groups (types 17 to 23)
versions.py            rows of versions: one if a record changed the group or a member; conversions between types
rows.py                the rows of groups, members and their versions
events.py              events and their causes: rows of group_events
state_entries.py       the state of groups as rows, and back
group_snapshots.py     records of groups from rows of group_records; snapshots in blocks
share_shard.py         a partition of __share_group_state, as Kafka's ShareCoordinatorShard replays it
transaction_shard.py   a partition of __transaction_state, as Kafka's TransactionStateManager loads it; what hangs
"""
