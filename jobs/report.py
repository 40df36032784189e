"""The report for spark-submit: `kgroups report` with the same options, in the session that spark-submit made.

Reads the lake's tables of the last finished audit and writes one HTML file. The driver needs the extra `[report]`.

    spark-submit --properties-file conf/spark-cluster.conf jobs/report.py \\
        --lake s3://bucket/kgroups --output s3://bucket/kafka.html

Exit codes are those of kgroups: 0 done, 1 failed, 2 bad usage.
"""

import sys
from collections.abc import Sequence

from kgroups_spark.cli.main import main as kgroups


def main(argv: Sequence[str]) -> int:
    """The exit code of `kgroups report` with these options."""
    return kgroups(["report", *argv], "report.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
