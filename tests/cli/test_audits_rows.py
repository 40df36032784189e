import subprocess

import pyarrow as pa

from kgroups_spark.cli.audits import counts, one_row_an_audit, with_sums
from kgroups_spark.lake.last_finished import HELD_BY_THIS_PROCESS, Owner, process_start


def ledger_row(audit_id, status, **facts):
    return {
        "audit_id": audit_id,
        "status": status,
        "partitions": None,
        "quarantined": None,
        "notes": None,
        "owner": "x",
    } | facts


FINISHED = ledger_row(
    1,
    "finished",
    partitions=[{"records": 10}, {"records": 99, "topic": "__transaction_state"}, {"records": 5}],
    quarantined={"corrupt_batch": 2, "truncated": 1},
    notes=["partition 7 is missing"],
)


def test_an_audit_is_its_finished_row_or_the_running_one():
    rows = one_row_an_audit([ledger_row(2, "running"), FINISHED, ledger_row(1, "running")], 2)
    assert [(row["audit_id"], row["status"]) for row in rows] == [(1, "finished"), (2, "running")]


def test_an_audit_is_interrupted_only_if_its_process_is_known_to_have_ended():
    ours, ended = Owner.this_process(), subprocess.Popen(["true"])
    here = ours._replace(pid=ended.pid, started=process_start(ended.pid) or "0")
    ended.wait()
    elsewhere = here._replace(host="another/host")
    HELD_BY_THIS_PROCESS.add(ours.uuid)
    owners = [here, elsewhere, ours, "", here]
    rows = [one_row_an_audit([ledger_row(1, "running", owner=str(owner))], 1)[0]["status"] for owner in owners]
    assert rows == ["interrupted", "running", "running", "running", "interrupted"]
    assert one_row_an_audit([ledger_row(1, "running", owner=str(here))], 2)[0]["status"] == "abandoned"


def sums(*rows):
    """The sums and counts that the screen shows instead of each row's lists and maps."""
    columns = pa.schema([("partitions", pa.list_(pa.struct([("records", pa.int64()), ("topic", pa.string())])))])
    table = with_sums(pa.Table.from_pylist([{"partitions": row["partitions"]} for row in rows], columns))
    return [summed | counts(row | summed) for row, summed in zip(rows, table.to_pylist(), strict=True)]


def test_the_screen_sums_and_counts_lists_and_maps():
    nothing_read = ledger_row(3, "finished", partitions=[], quarantined={}, notes=[])
    expected = {"partition_count": 2, "records_read": 15, "quarantine_count": 3, "note_count": 1}
    running = ledger_row(2, "running")
    assert sums(FINISHED, running, nothing_read, FINISHED) == [
        expected,
        dict.fromkeys(expected),
        dict.fromkeys(expected, 0),
        expected,
    ]


def test_an_unfinished_audit_is_abandoned_once_a_later_one_exists():
    ledger = [ledger_row(1, "running"), ledger_row(2, "abandoned"), ledger_row(2, "running"), ledger_row(3, "running")]
    assert [row["status"] for row in one_row_an_audit(ledger, 3)] == ["abandoned", "abandoned", "running"]
    assert [row["status"] for row in one_row_an_audit(ledger, 4)] == ["abandoned"] * 3
