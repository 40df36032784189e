"""Records to values: Kafka's message definitions, and what `GroupCoordinatorRecordSerde` does with them.

definitions/             Kafka's message files as JSON, one for each key and value
schema.py                a definition at one version, compiled into a reader
coordinator_records.py   key and value bytes to a CoordinatorRecord or Undecodable; record types; the three logs; which
                         offsets partition a group's name hashes to
offset_commits.py        types 0 and 1, the offset commits, as columns: 99 % of the records
group_metadata.py        type 2, the snapshots of classic groups: JSON text and members as columns; user data as JSON
"""
