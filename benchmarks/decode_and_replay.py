"""Decodes and replays all segments below a folder, in one process, and prints the state in numbers.

    python -m benchmarks.decode_and_replay FOLDER [--groups]

    records=5000133 keys=97671 offset_sum=12351743370

With `--groups` the groups and members are replayed, too, which no other program here does.
"""

from __future__ import annotations

import sys

from kgroups_spark.audit.in_process import LogReplay, whole_log
from kgroups_spark.sources.segments import find_partitions


def main(arguments: list[str]) -> int:
    replay = LogReplay(groups="--groups" in arguments)
    folder = next(a for a in arguments if not a.startswith("-"))
    keys = offset_sum = 0
    for shard in replay.shards(map(whole_log, find_partitions([folder]))):
        for offsets in shard.offsets.committed.values():
            keys += len(offsets)
            offset_sum += sum(commit.value.committed_offset for commit in offsets.values())
    sys.stdout.write(f"records={replay.records} keys={keys} offset_sum={offset_sum}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
