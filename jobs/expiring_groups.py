"""Groups whose offsets expire soon, for spark-submit: `kgroups expiring --fail-if-any` with the same options.

Reads the lake's tables of the last finished audit and changes nothing. The table goes to stdout, and with --output the
rows go to a file as well.

    spark-submit --properties-file conf/spark-cluster.conf jobs/expiring_groups.py \\
        --lake s3://bucket/kgroups --within 48h --output s3://bucket/expiring.csv

Exit codes are those of kgroups: 0 nothing expires, 1 failed, 2 bad usage, 4 something expires.
"""

import sys
from collections.abc import Sequence

from kgroups_spark.cli.main import main as kgroups


def main(argv: Sequence[str]) -> int:
    """The exit code of `kgroups expiring --fail-if-any` with these options."""
    return kgroups(["expiring", "--fail-if-any", *argv], "expiring_groups.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
