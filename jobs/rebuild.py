"""The rebuild for spark-submit: `kgroups rebuild` with the same options, in the session that spark-submit made.

Reads the history tables of a lake and rebuilds current state, versions and saved state. A second run writes the same
tables; a killed run leaves nothing that counts.

    spark-submit --properties-file conf/spark-cluster.conf jobs/rebuild.py --lake s3://bucket/kgroups

Exit codes are those of kgroups: 0 done, 1 failed, 2 bad usage.
"""

import sys
from collections.abc import Sequence

from kgroups_spark.cli.main import main as kgroups


def main(argv: Sequence[str]) -> int:
    """The exit code of `kgroups rebuild` with these options."""
    return kgroups(["rebuild", *argv], "rebuild.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
