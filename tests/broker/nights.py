"""Nights: what scenarios do, what the broker says then, and audits of the live broker and of a copy of its log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgroups_spark.audit.run import AuditOptions, AuditSummary, run_audit
from kgroups_spark.cluster.client_properties import client_properties
from tests.broker.answers import OFFSETS_TOPIC, Json, answers, end_offsets, while_the_log_stands_still
from tests.broker.brokers import Brokers, until
from tests.broker.lab import Expected, Lab, Scenario, lab_of
from tests.broker.scenarios import BOTH, EXPIRING, JAVA_COORDINATOR
from tests.nights.lakes import COMPARED, contents_of, rows

Row = dict[str, Any]
LIVE, COPY = "live", "copy"
SCENARIOS = {"4.3.1": JAVA_COORDINATOR, "3.9.2": BOTH}
FIRST, SECOND, THIRD, RESTARTED = "first night", "second night", "third night", "after a restart"
USUAL = (FIRST, SECOND, THIRD, RESTARTED)
# Those of a broker whose offsets expire after a minute.
BEFORE_EXPIRY, AFTER_EXPIRY = "before the expiry", "after the expiry"
EXPIRY = (BEFORE_EXPIRY, AFTER_EXPIRY)
# Clusters by name: releases, and the names of their nights. `make test` plays one of them, by the seed.
CLUSTERS = {f"{release}, {names[0]}": (release, names) for names in (EXPIRY, USUAL) for release in SCENARIOS}
# librdkafka commits this as metadata when there is none (12.13).
LIBRDKAFKAS_EMPTY = "\0"


@dataclass(frozen=True)
class Night:
    """`expected`: by scenario. `answer`: of the broker as it runs. `loaded`: the same as it would be if the broker had
    just loaded its log. By lake: `folders`; rows of all `tables`; `summaries` of its audit; `contents`, what is in
    all tables but for who wrote it, as text."""

    expected: Mapping[str, Expected]
    answer: Json
    loaded: Json
    folders: Mapping[str, Path]
    tables: Mapping[str, Mapping[str, list[Row]]]
    summaries: Mapping[str, AuditSummary]
    contents: Mapping[str, Mapping[str, list[str]]]

    def rows_of(self, lake: str) -> Callable[[str], list[Row]]:
        return lambda name: self.tables[lake][name]


class Nights:
    """The nights of one cluster, and two lakes: one of audits of the live cluster, one of audits of copies of its log.

    `sessions`: by lake.
    """

    def __init__(self, sessions: Mapping[str, Any], lab: Lab, folder: Path, scenarios: Mapping[str, Scenario]) -> None:
        self._sessions, self._lab, self._folder = sessions, lab, folder
        self._playing: dict[str, Iterator[Expected]] = {name: play(lab) for name, play in scenarios.items()}
        self._last: dict[str, Expected] = {}

    def play(self) -> Night:
        """The next step of every scenario that has one, and the audits while the log stands still. A night without any
        step left follows a restart of the broker."""
        expected = self._steps()
        if not expected:
            self._lab.brokers.broker.restart()
            self._lab.await_coordinator()
        self._last = {**self._last, **expected} if expected else {}
        folders = {lake: self._folder / f"lake-{lake}" for lake in (LIVE, COPY)}
        summaries: dict[str, AuditSummary] = {}

        def ask() -> Json:
            return answers(self._lab.clients, self._lab.release, self._lab.slots)

        def audit() -> None:
            as_of, live = time.time_ns() // 1_000_000, {"client": client_properties(self._lab.address, {})}
            for lake, options in ((LIVE, live), (COPY, self._copy())):
                reported = AuditOptions(lake=str(folders[lake]), as_of=as_of, **options)
                summaries[lake] = run_audit(self._sessions[lake], reported)

        answer = while_the_log_stands_still(self._lab.clients, ask, audit)
        tables = {lake: {name: rows(folder, name) for name in COMPARED} for lake, folder in folders.items()}
        said = {lake: contents_of(of_lake) for lake, of_lake in tables.items()}
        return Night(expected, answer, self._loaded(answer), folders, tables, summaries, said)

    def _steps(self) -> dict[str, Expected]:
        with ThreadPoolExecutor(len(self._playing)) as pool:
            steps = {name: pool.submit(next, playing, None) for name, playing in self._playing.items()}
        return {name: expected for name, step in steps.items() if (expected := step.result()) is not None}

    def _copy(self) -> dict[str, Any]:
        """The options of an audit of a copy of the broker's log directory, without files mapped into its memory."""
        target = self._folder / "copy"
        shutil.rmtree(target, ignore_errors=True)
        ends = end_offsets(self._lab.clients, OFFSETS_TOPIC)
        until("the high watermarks are written down", lambda: self._written_down() == ends)
        # A checkpoint is a file *.tmp while the broker writes it, which is gone before it can be copied.
        left_out = shutil.ignore_patterns("*index", "*.lock", "*.tmp")
        shutil.copytree(self._lab.brokers.broker.data, target, ignore=left_out)
        minutes = self._lab.brokers.broker.properties.get("offsets.retention.minutes")
        return {
            "segments": [str(target)],
            "release_version": self._lab.release.rsplit(".", 1)[0],
            "retention_ms": int(minutes) * 60_000 if minutes else None,
        }

    def _written_down(self) -> dict[str, int]:
        """High watermarks of the offsets partitions, as the broker would find them after a start."""
        lines = (self._lab.brokers.broker.data / "replication-offset-checkpoint").read_text().splitlines()
        found = [line.split() for line in lines if line.startswith(OFFSETS_TOPIC)]
        return {number: int(offset) for _, number, offset in found}

    def _loaded(self, answer: Json) -> Json:
        """The answer as if the broker had just loaded its log, as an audit replays it: in the cases that scenarios
        list, the running Scala coordinator remembers something else."""
        if not self._lab.is_scala:
            return answer
        changed = {name: dict(answer[name]) for name in ("groups", "committed", "unstable")}
        for group, loaded in (case for expected in self._last.values() for case in expected.reloaded.items()):
            if loaded is None:
                for of_groups in changed.values():
                    of_groups.pop(group, None)  # it is gone already if a sweep over empty groups came after it
                continue
            committed, unstable = loaded
            known = {(topic, partition): row for topic, partition, *row in answer["committed"][group]}
            changed["committed"][group] = sorted(
                [*slot, *known.get(slot, (offset, None, LIBRDKAFKAS_EMPTY))] for slot, offset in committed.items()
            )
            changed["unstable"][group] = sorted(map(list, unstable))
        return {**answer, **changed}


@contextmanager
def played(
    sessions: Mapping[str, Any], folder: Path, release: str, names: tuple[str, ...]
) -> Iterator[dict[str, Night]]:
    """The nights of a cluster by name; `sessions`: what audits the live broker and the copy of its log."""
    # No check before the first audit, however long that takes.
    expiry = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "3600000"}
    with (
        Brokers(release, folder / "brokers", expiry if names == EXPIRY else {}) as brokers,
        lab_of(brokers) as lab,
    ):
        nights = Nights(sessions, lab, folder, SCENARIOS[release] if names == USUAL else EXPIRING)
        found = {name: nights.play() for name in names}
        brokers.check()
    yield found
