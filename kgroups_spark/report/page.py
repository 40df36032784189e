"""The page: one file without external parts, so that it opens from a disk, a mail or a build server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import PurePath
from typing import Any

import jinja2

from kgroups_spark.durations import format_duration
from kgroups_spark.escapes import printable
from kgroups_spark.package_data import package_text
from kgroups_spark.report.figures import ROWS_SHOWN, Plot, Table, has_long_word
from kgroups_spark.report.groups import CAPTIONS, Group, groups_of
from kgroups_spark.report.headlines import headlines
from kgroups_spark.report.plots import DARK
from kgroups_spark.report.queries import Ask, Row, query
from kgroups_spark.report.sections import QUESTIONS, sections
from kgroups_spark.report.sections.shared import Answers
from kgroups_spark.times import format_time_for_people

BUDGET_BYTES = 4_990_000  # of a page that stays below 5 MB, with the sentence on the groups that it leaves out
_EACH_GROUP = "<!-- each group -->"  # the place of the groups in the page; no name can be markup


def report_page(
    ask: Ask, location: str, progress: Callable[[str], None] = lambda text: None, title: str | None = None
) -> str:
    """The HTML of the report of a lake with a finished audit. `progress` is called with each step.

    `title`: the cluster's name; None: its id, or the lake's location if the id is unknown.
    """
    answers: dict[str, list[dict[str, object]]] = {}
    for number, (heading, names) in enumerate(QUESTIONS.items(), 1):
        progress(f"asking the lake, {number} of {len(QUESTIONS)}: {heading}")
        answers.update({name: ask(query(name)) for name in names})
    progress("drawing")
    return html(answers, location, title)


def html(answers: Answers, location: str, title: str | None = None) -> str:
    script = package_text("report/page/report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    lake = answers["lake"][0]
    page: str = (
        _environment()
        .get_template("report.html")
        .render(
            title=printable(title or _title(lake, location)),
            location=printable(location),
            lake=lake,
            as_of=format_time_for_people(lake["as_of"]),
            retention=format_duration(lake["retention_ms"]),
            headlines=headlines(answers),
            sections=sections(answers),
            group_queries=[(caption, query(name)) for name, caption in CAPTIONS.items()],
            # The page runs only this script, so its text never runs, even if it were not escaped.
            script=script,
            script_digest=digest,
            style=package_text("report/page/report.css"),
            dark=DARK,
            rows_shown=ROWS_SHOWN,
        )
    )
    return page.replace(_EACH_GROUP, _each_group(answers, BUDGET_BYTES - len(page.encode())), 1)


def _each_group(answers: Answers, budget_bytes: int) -> str:
    """The HTML of as many groups as the budget allows, and the number of others."""
    macros: Any = _environment().get_template("each_group.html").module
    parts: dict[str, str] = {}

    def fits(group: Group) -> bool:
        nonlocal budget_bytes
        parts[group.anchor] = str(macros.one(group))
        budget_bytes -= len(parts[group.anchor].encode())
        return budget_bytes >= 0

    groups, left_out = groups_of(answers, fits)
    return "".join(parts[group.anchor] for group in groups) + (str(macros.others(left_out)) if left_out else "")


def _title(lake: Row, location: str) -> str:
    """The cluster's id, or the lake's name without its folders."""
    if lake["cluster_id"] is not None:
        return f"Kafka cluster {lake['cluster_id']}"
    return PurePath(location).name or location


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: package_text(f"report/page/{name}")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Compact, and escaped by jinja2 for a script element, so that no name in it can end that element.
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters["printable"] = printable
    environment.filters["time"] = lambda moment: "?" if moment is None else format_time_for_people(moment)[:16]
    environment.tests["long_worded"] = has_long_word
    environment.tests["table"] = lambda figure: isinstance(figure, Table)
    environment.tests["plot"] = lambda figure: isinstance(figure, Plot)
    return environment
