"""Nights: what scenarios do, what the broker says then, and audits of the live broker and of a copy of its log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgroups_spark.audit.run import AuditOptions, AuditSummary, run_audit
from kgroups_spark.client.properties import client_properties
from tests.audit.lakes import contents, rows
from tests.broker.answers import Json, answers, while_the_log_stands_still
from tests.broker.brokers import Brokers
from tests.broker.java_clients import JavaClients
from tests.broker.lab import Expected, Lab, Scenario
from tests.broker.scenarios import EXPIRING

Row = dict[str, Any]
LIVE, COPY = "live", "copy"
FIRST, SECOND, THIRD, RESTARTED = "first night", "second night", "third night", "after a restart"
# Those of a broker whose offsets expire after a minute, which passes while the others are played.
BEFORE_EXPIRY, AFTER_EXPIRY = "before the expiry", "after the expiry"
NIGHTS = (BEFORE_EXPIRY, FIRST, SECOND, THIRD, RESTARTED, AFTER_EXPIRY)
# What is compared with answers, or between the lakes with names of topics completed.
KEPT = (
    "groups",
    "group_members",
    "committed_offsets",
    "pending_offsets",
    "open_transactions",
    "group_records",
    "topics",
    "topic_offsets",
    "offset_expiry",
    "group_expiry",
    "share_partitions",
)
# What librdkafka commits as metadata when there is none (12.13).
LIBRDKAFKAS_EMPTY = "\0"


@dataclass(frozen=True)
class Night:
    """`expected`: by scenario. `answer`: of the broker as it runs. `loaded`: the same as it would be if the broker had
    just loaded its log. By lake: `folders`; `tables`, those of KEPT; `summaries` of its audit; `contents`, all tables
    as text."""

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
    """Of one cluster. Two lakes: of its live audits, and of audits of copies of its log; `sessions` by lake."""

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
            as_of = time.time_ns() // 1_000_000
            for lake, options in ((LIVE, self._live()), (COPY, self._copy())):
                told = AuditOptions(lake=str(folders[lake]), as_of=as_of, **options)
                summaries[lake] = run_audit(self._sessions[lake], told)

        answer = while_the_log_stands_still(self._lab.clients, ask, audit)
        return Night(
            expected,
            answer,
            self._loaded(answer),
            folders,
            {lake: {name: rows(folder, name) for name in KEPT} for lake, folder in folders.items()},
            summaries,
            {lake: contents(folder) for lake, folder in folders.items()},
        )

    def _steps(self) -> dict[str, Expected]:
        with ThreadPoolExecutor(4) as pool:
            steps = {name: pool.submit(next, playing, None) for name, playing in self._playing.items()}
        done = {name: step.result() for name, step in steps.items()}
        return {name: expected for name, expected in done.items() if expected is not None}

    def _live(self) -> dict[str, Any]:
        """What an audit of the cluster is told: nothing but where it is."""
        return {"client": client_properties(self._lab.address, {})}

    def _copy(self) -> dict[str, Any]:
        """What an audit of a copy of the broker's log directory (without what is mapped into its memory) is told."""
        target = self._folder / "copy"
        shutil.rmtree(target, ignore_errors=True)
        time.sleep(1)  # ten times the interval at which the broker writes its high watermarks down
        # A checkpoint is a file *.tmp while the broker writes it, which is gone before it can be copied.
        left_out = shutil.ignore_patterns("*index", "*.lock", "*.tmp")
        shutil.copytree(self._lab.brokers.broker.data, target, ignore=left_out)
        minutes = self._lab.brokers.broker.properties.get("offsets.retention.minutes")
        return {
            "segments": [str(target)],
            "release_version": self._lab.release.rsplit(".", 1)[0],
            "retention_ms": int(minutes) * 60_000 if minutes else None,
        }

    def _loaded(self, answer: Json) -> Json:
        """The answer as if the broker had just loaded its log, as an audit replays it: in the cases that scenarios
        list, the running Scala coordinator remembers something else."""
        if not self._lab.is_scala:
            return answer
        changed = {name: dict(answer[name]) for name in ("groups", "committed", "unstable")}
        for case in (case for expected in self._last.values() for case in expected.reloaded):
            if not case.exists:
                for of_groups in changed.values():
                    del of_groups[case.group]
                continue
            known = {(topic, partition): row for topic, partition, *row in answer["committed"][case.group]}
            changed["committed"][case.group] = sorted(
                [*slot, *known.get(slot, (offset, None, LIBRDKAFKAS_EMPTY))] for slot, offset in case.committed.items()
            )
            changed["unstable"][case.group] = sorted(map(list, case.unstable))
        return {**answer, **changed}


class Played:
    """Nights by name, played in their order when they are first asked for.

    What broke a night breaks those after it, too.
    """

    def __init__(self, nights: Nights, expiring: Nights) -> None:
        self._of = {name: expiring if name in (BEFORE_EXPIRY, AFTER_EXPIRY) else nights for name in NIGHTS}
        self._played: dict[str, Night | Exception] = {}

    def __getitem__(self, name: str) -> Night:
        for each in NIGHTS[: NIGHTS.index(name) + 1]:
            if each not in self._played:
                try:
                    self._played[each] = self._of[each].play()
                except Exception as error:
                    self._played.update(dict.fromkeys(set(NIGHTS) - self._played.keys(), error))
        night = self._played[name]
        if isinstance(night, Exception):
            raise night
        return night

    def up_to(self, name: str) -> list[Night]:
        """That night, and those of the same cluster before it."""
        names = NIGHTS[: NIGHTS.index(name) + 1]
        return [self[each] for each in names if self._of[each] is self._of[name]]


@contextmanager
def played(
    sessions: Mapping[str, Any], folder: Path, release: str, scenarios: Mapping[str, Scenario]
) -> Iterator[Played]:
    """Nights of brokers of this release; `sessions`: what audits the live broker and the copy of its log."""
    with ExitStack() as stack:

        def nights(name: str, scenarios: Mapping[str, Scenario], properties: Mapping[str, str]) -> Nights:
            brokers = stack.enter_context(Brokers(release, folder / f"{name}-brokers", properties))
            stack.callback(brokers.check)
            lab = Lab(brokers, stack.enter_context(JavaClients(brokers.address)))
            stack.callback(lab.close)
            return Nights(sessions, lab, folder / name, scenarios)

        # No check before the first audit, however long that takes.
        expiry = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "3600000"}
        yield Played(nights("nights", scenarios, {}), nights("expiring", EXPIRING, expiry))
