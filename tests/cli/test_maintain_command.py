"""`kgroups maintain` on the command line: what it refuses before Spark is started, and the job for spark-submit."""

from kgroups_spark.audit.maintain import MaintainSummary
from kgroups_spark.audit.options import LEAST_VACUUM_MS
from kgroups_spark.cli.main import parse
from kgroups_spark.words import parse_duration


def test_a_dry_run_says_that_nothing_has_been_done():
    lines = [*MaintainSummary(rows_removed={"findings": 2}, bytes_freed=0, versions_removed=1).lines()]
    assert lines == [
        "nothing was done (--dry-run); a run would do this:",
        "  findings: 2 rows would be removed",
        "  0 B of unneeded files would be deleted",
        "  1 old version would be removed from the tables' logs",
    ]


def test_by_default_maintain_vacuums_after_seven_days_the_least_allowed():
    options = parse(["maintain", "--lake", "./lake"])
    assert (options.optimize, options.keep, options.dry_run) == (True, None, False)
    assert options.vacuum == LEAST_VACUUM_MS == parse_duration("7d")
    assert parse(["maintain", "--lake", "./lake", "--no-optimize"]).optimize is False
