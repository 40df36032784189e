"""Upkeep of a lake, under the audit's claim: one audit at a time, and maintenance is one of them.

    claim a number -> clear up -> [save the state at H -> ledger -> claim the next number] -> reduce history below H
    -> optimize -> vacuum, old versions of logs -> ledger

The state that rebuilds need after `keep` is saved before anything is reduced: a killed reduction has lost nothing, and
the next one completes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kgroups_spark.audit.keep import (
    COUNTED,
    KeptHistory,
    Rewritten,
    foreseen,
    new_horizons,
    optimize,
    save_states,
    vacuum,
)
from kgroups_spark.audit.options import MaintainOptions, require_vacuum_allowed
from kgroups_spark.audit.plan import not_read_now
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit, old_versions
from kgroups_spark.lake.claim import Claim, clear_up, gone_tables, remove_work, require_given_up, require_newest
from kgroups_spark.lake.lake import Engine, Lake
from kgroups_spark.lake.last_finished import RUNNING, TABLES_ALONE, table_lost
from kgroups_spark.lake.ledger import AuditRow, Ledger
from kgroups_spark.lake.writer import LakeWriter, make_writable
from kgroups_spark.replay.ranges import known_times
from kgroups_spark.replay.shard_states import of_groups, reduced_to
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import counted, sized, to_epoch_ms


@dataclass
class MaintainSummary:
    """The work that was done, or would be (`audit` None)."""

    audit: AuditRow | None = None
    rewritten: list[Rewritten] = field(default_factory=list)
    rows_removed: dict[str, int] = field(default_factory=dict)
    bytes_freed: int = 0
    versions_removed: int = 0  # of the tables' logs
    notes: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield (
            "nothing was done (--dry-run); a run would do this:"
            if self.audit is None
            else (f"audit {self.audit.audit_id}: maintenance")
        )
        yield from (f"  {line}" for line in self.reported("would be " if self.audit is None else ""))

    def reported(self, would_be: str = "") -> Iterator[str]:
        """The same for the ledger's notes."""
        for name, rows in self.rows_removed.items():
            yield f"{name}: {counted(rows, 'row')} {would_be}removed"
        for each in (each for each in self.rewritten if each.files_before != each.files_after):
            size = sized(each.bytes_before)
            if each.bytes_after is not None:
                size += f" to {sized(each.bytes_after)}"
            yield f"{each.table}: {counted(each.files_before, 'file')} to {each.files_after:,} ({size})"
        yield f"{sized(self.bytes_freed)} of unneeded files {would_be}deleted"
        if self.versions_removed:
            yield f"{counted(self.versions_removed, 'old version')} {would_be}removed from the tables' logs"
        yield from self.notes


def run_maintain(spark: Engine, options: MaintainOptions) -> MaintainSummary:
    """Runs the maintenance under a claim. Raises KgroupsError, UsageError. A killed run can be repeated."""
    require_vacuum_allowed(options.vacuum_ms)
    lake = Lake.open(spark, options.lake)
    for name in gone_tables(lake):
        raise table_lost(lake.location, name)
    last = Ledger(lake).last_finished()
    require_newest(lake, last)
    if options.dry_run:
        summary = MaintainSummary()
        _work(lake, _finished(lake, last), options, summary)
        return summary
    since = last.audit_id if last else 0
    if unfinished := [row for row in Ledger(lake).newest() if row.status == RUNNING and row.audit_id > since]:
        # Before the claim: one that is refused would keep the next audit waiting on another machine.
        require_given_up(unfinished[-1], options.take_over)
        _require_no_audit(lake, unfinished)
    why = make_writable(lake)
    summary = MaintainSummary(notes=[why] if why else [])
    with Claim.take(lake, take_over=options.take_over) as claim:
        writer = _writer(lake, claim)
        summary.notes += claim.notes
        if not _saved_states(claim, writer, options):
            return _maintained(claim, writer, options, summary)
    with Claim.take(lake, take_over=options.take_over) as claim:
        return _maintained(claim, _writer(lake, claim), options, summary)


def _writer(lake: Lake, claim: Claim) -> LakeWriter:
    """A writer for the claim, after rows of killed maintenance have been removed."""
    _require_no_audit(lake, claim.unfinished_rows)
    clear_up(claim)
    newest_audits = dict((claim.before and claim.before.newest_audits) or {})
    return LakeWriter(lake, claim.audit_id, claim.check, newest_audits=newest_audits)


def _require_no_audit(lake: Lake, unfinished: Sequence[AuditRow]) -> None:
    """Raises KgroupsError for an audit or a rebuild that did not finish: it may have rewritten current tables."""
    if any(row.release_version is not None or not row.owner for row in unfinished):
        raise KgroupsError(f"the lake at {lake.location} has an unfinished audit: run kgroups audit or kgroups rebuild")


def _finished(lake: Lake, last: AuditRow | None) -> AuditRow:
    """The last finished audit. Raises KgroupsError if none has finished."""
    if last is None:
        raise KgroupsError(f"the lake at {lake.location} has no finished audit: nothing to maintain")
    return last


def _saved_states(claim: Claim, writer: LakeWriter, options: MaintainOptions) -> bool:
    """Saves the state for --keep, with which the claim's audit finishes; returns whether there was one."""
    before = _finished(writer.lake, claim.before)
    moment_ms = _moment_ms(before, options)
    if moment_ms is None:
        return False
    of = new_horizons(writer.lake, before, moment_ms)
    if not of:
        return False
    of_offsets = len(of_groups(of))
    saved = f"the state of {counted(of_offsets, 'partition')} at the end of old history"
    options.progress(f"saving {saved}")
    save_states(writer, before, of)
    note = f"--keep: saved {saved}"
    if of_states := len(of) - of_offsets:
        note += f", and of {counted(of_states, 'partition')} of share-group and transaction state"
    claim.finish(**_carried_over(before, (note,)), newest_audits=writer.newest_audits)
    return True


NO_TIMES = "--keep: no record read has a log time that counts, so nothing is known to be old"


def _moment_ms(audit: AuditRow, options: MaintainOptions) -> int | None:
    """The oldest time to keep, in epoch ms; None: everything is kept (no --keep, or no log time is known)."""
    if options.keep_ms is None:
        return None
    newest = max(known_times(audit, to_epoch_ms(datetime.now(UTC))).values(), default=None)
    return None if newest is None else newest - options.keep_ms


def _maintained(
    claim: Claim, writer: LakeWriter, options: MaintainOptions, summary: MaintainSummary
) -> MaintainSummary:
    before = _finished(writer.lake, claim.before)
    removed_up_to = _work(writer.lake, before, options, summary, writer)
    remove_work(writer.fence)
    facts = _carried_over(before, tuple(summary.reported()))
    summary.audit = claim.finish(**facts, newest_audits=writer.newest_audits, removed_up_to=removed_up_to)
    return summary


def _work(
    lake: Lake, before: AuditRow, options: MaintainOptions, summary: MaintainSummary, writer: LakeWriter | None = None
) -> int | None:
    """Does the work, or without a writer only counts it. Returns the newest audit whose findings are gone."""
    say, removed_up_to, moment_ms = options.progress, None, _moment_ms(before, options)
    if moment_ms is None:
        summary.notes += [NO_TIMES] if options.keep_ms is not None else []
    elif writer is None:
        say("counting rows that would go")
        of = {**reduced_to(lake), **new_horizons(lake, before, moment_ms)}
        summary.rows_removed = KeptHistory(lake, of, moment_ms).foreseen()
    else:
        kept = KeptHistory(lake, reduced_to(lake), moment_ms)
        summary.rows_removed = kept.apply(writer, say)
        if "findings" in summary.rows_removed:
            removed_up_to = kept.old[-1]
            summary.notes.append(f"findings of audits up to {removed_up_to} are gone (--keep)")
    for name in [each for each in TABLES if options.optimize and TABLES[each].kind in COUNTED]:
        if writer is not None:
            say(f"optimizing {name}")
        summary.rewritten.append(foreseen(lake, name) if writer is None else optimize(writer, name))
    left = LakeAsOfAudit(lake, before.audit_id)
    for name in TABLES:
        say(f"{'looking for' if writer is None else 'deleting'} files of {name} that no version needs")
        summary.bytes_freed += vacuum(lake, name, options.vacuum_ms, writer)
        summary.versions_removed += old_versions(left, name, remove=writer is not None)
    return removed_up_to


def _carried_over(before: AuditRow, notes: tuple[str, ...]) -> dict[str, Any]:
    """The columns of the ledger's row: those of the last audit, without anything read."""
    names = ("as_of", "retention_ms", "retention_source", "release_version", "rules_version", "state_format")
    return {
        **{name: getattr(before, name) for name in (*names, "cluster_id", "newest_log_timestamp")},
        "source": TABLES_ALONE,
        "partitions": tuple(map(not_read_now, before.partitions or ())),
        "state_partitions": tuple(map(not_read_now, before.state_partitions)),
        "rows_added": {},
        "quarantined": {},
        "record_counts": (),
        "notes": notes,
    }
