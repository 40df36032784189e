"""Upkeep for spark-submit: `kgroups maintain` with the same options, in the session that spark-submit made.

Rewrites history tables of the lake and deletes files that no version needs; answers stay the same. A second run finds
little to do; after a killed run the next one does the rest.

    spark-submit --properties-file conf/spark-cluster.conf jobs/maintain.py --lake s3://bucket/kgroups --keep 400d

Exit codes are those of kgroups: 0 done, 1 failed, 2 bad usage.
"""

import sys
from collections.abc import Sequence

from kgroups_spark.cli.main import main as kgroups


def main(argv: Sequence[str]) -> int:
    """The exit code of `kgroups maintain` with these options."""
    return kgroups(["maintain", *argv], "maintain.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
