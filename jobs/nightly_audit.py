"""The nightly audit for spark-submit: `kgroups audit` with the same options, in the session that spark-submit made.

Reads segments of __consumer_offsets and writes the lake: it appends history, rewrites the current state and adds a row
to the ledger. A second run reads only new records. A killed run leaves nothing that counts; the next one cleans up.

    spark-submit --properties-file conf/spark-cluster.conf jobs/nightly_audit.py \\
        --lake s3://bucket/kgroups --segments s3://bucket/kafka-logs --release-version 4.3

Exit codes are those of kgroups: 0 done, 1 failed, 2 bad usage, 3 something to look at with --strict.
"""

import sys
from collections.abc import Sequence

from kgroups_spark.cli.main import main as kgroups


def main(argv: Sequence[str]) -> int:
    """The exit code of `kgroups audit` with these options."""
    return kgroups(["audit", *argv], "nightly_audit.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
