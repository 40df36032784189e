"""The page: one file without external parts, so that it opens from a disk, a mail or a build server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache

import jinja2

from kgroups_spark.durations import format_duration
from kgroups_spark.escapes import printable
from kgroups_spark.package_data import package_text
from kgroups_spark.report.figures import ROWS_SHOWN, Plot, Table, has_long_word
from kgroups_spark.report.groups import CAPTIONS, groups_of
from kgroups_spark.report.headlines import headlines
from kgroups_spark.report.plots import DARK
from kgroups_spark.report.queries import Ask, Row, query
from kgroups_spark.report.sections import QUESTIONS, sections
from kgroups_spark.report.sections.shared import Answers
from kgroups_spark.times import format_time_for_people


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
    groups, groups_left_out = groups_of(answers)
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
            groups=groups,
            group_queries=[(caption, query(name)) for name, caption in CAPTIONS.items()],
            groups_left_out=groups_left_out,
            # The page runs only this script, so its text never runs, even if it were not escaped.
            script=script,
            script_digest=digest,
            style=package_text("report/page/report.css"),
            dark=DARK,
            rows_shown=ROWS_SHOWN,
        )
    )
    return page


def _title(lake: Row, location: str) -> str:
    return location if lake["cluster_id"] is None else f"Kafka cluster {lake['cluster_id']}"


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
