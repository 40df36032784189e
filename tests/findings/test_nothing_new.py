"""An audit that reads nothing after one that read nothing keeps its findings; any other one looks."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

from kgroups_spark.audit import result
from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.audit.run import run_audit
from kgroups_spark.findings.finders import look
from tests.findings.cases import WEEK, two_members
from tests.findings.logs import DAY, MINUTE
from tests.nights.nights_here import LOOKING, audit, in_memory


def test_only_the_second_audit_in_a_row_that_reads_nothing_keeps_the_findings() -> None:
    log = two_members().commit("g", committed_ago=10 * MINUTE + 1).tick(WEEK)
    lake = audit(log.files, LOOKING)
    first = lake.found()
    assert [each["finding"] for each in first] == ["commit_time_skew", "lost_when_emptied"]
    other = replace(LOOKING, retention_ms=8 * DAY)
    nights = [(LOOKING, 1), (LOOKING, 0), (LOOKING, 0), (other, 1), (other, 0), (LOOKING, 1)]
    for how, looks in nights:
        with mock.patch.object(result, "look", side_effect=look) as looked:
            lake.night(log.files, how)
        assert looked.call_count == looks
        # Only the first audit had read the commit with another time.
        assert lake.found() == [each for each in first[1:] if how is LOOKING]
        assert lake.newest.rows_added == {"findings": len(lake.found())}
    with mock.patch.object(result, "look", side_effect=look) as looked:
        lake.night(log.commit("g").files, LOOKING)
    assert looked.call_count == 1


def test_after_an_audit_of_chosen_partitions_the_next_one_looks() -> None:
    log = two_members().commit("g").tick(WEEK)
    lake = audit(log.files, LOOKING)
    lake.night(log.files, LOOKING)
    options = AuditOptions(lake=lake.lake, segments=[str(lake.folder / "log")], partitions=[0], **LOOKING.rules)
    with mock.patch.object(result, "look", side_effect=look) as looked:
        with in_memory():
            chosen = run_audit(lake.session, options)
        lake.night(log.files, LOOKING)
    assert chosen.audit.notes == ("only partition 0 was asked for: --partitions",)
    assert looked.call_count == 2
