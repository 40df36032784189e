"""Parts of the page as data: a question, the sentence if its answer is empty, sentences with figures of the answer,
tables and bars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgroups_spark.counts import group_count
from kgroups_spark.report.figures import BUDGET_BYTES, Plot, Section, Table, table
from kgroups_spark.report.queries import Row
from kgroups_spark.report.sections.shared import Answers, last_days_plot
from kgroups_spark.report.words import CAUSES, EVENTS
from kgroups_spark.sentences import filled

# Columns whose values are shown in words.
WORDS: Mapping[str, Mapping[str, str]] = {"event": EVENTS, "cause": CAUSES}


@dataclass(frozen=True)
class TableOf:
    """A query's answer. `columns`: as in `table`."""

    query: str
    caption: str
    columns: str
    budget_bytes: int = BUDGET_BYTES

    def figures(self, answers: Answers) -> list[Table | Plot]:
        rows = [
            row | {name: words[row[name]] for name, words in WORDS.items() if name in row}
            for row in answers[self.query]
        ]
        return [table(self.query, self.caption, self.columns, rows, budget_bytes=self.budget_bytes)] if rows else []


@dataclass(frozen=True)
class BarsOf:
    """Bars for the last days: `value` by day and by `series`, a column whose values have names and colours."""

    name: str
    query: str
    caption: str
    series: str
    colors: Mapping[str, str]
    value: str
    noun: str
    where: Callable[[Row], bool] = bool

    def figures(self, answers: Answers) -> list[Table | Plot]:
        words = WORDS.get(self.series, {})
        bars = [
            {"day": row["day"], "series": words.get(row[self.series], row[self.series]), "value": row[self.value]}
            for row in answers[self.query]
            if self.where(row)
        ]
        series = [(words.get(name, name), color) for name, color in self.colors.items()]
        return [last_days_plot(answers, self.name, self.caption, bars, series, self.query, self.noun)] if bars else []


@dataclass(frozen=True)
class Part:
    """`asked`: the query whose answer the sentences are about; without rows there is only the sentence `nothing`."""

    name: str
    heading: str
    asked: str
    nothing: str
    sentences: Sequence[str]
    figures: Sequence[TableOf | BarsOf]

    def __call__(self, answers: Answers) -> Section:
        rows = answers[self.asked]
        if not rows:
            return Section(self.name, self.heading, [self.nothing])
        facts = facts_of(answers, [self.asked, *(figure.query for figure in self.figures)])
        said = filter(None, (filled(text, facts) for text in self.sentences))
        return Section(self.name, self.heading, [*said], [each for f in self.figures for each in f.figures(answers)])


def facts_of(answers: Answers, queries: Sequence[str]) -> dict[str, Any]:
    """For sentences: `removals`, the number of that query's rows; `removals_groups`; `removals_offsets`, the sum of its
    column, null without a value; `removals_offsets_known`, the number of values; `removals_no_offsets`, empty without
    one, else null."""
    facts = defaultdict[str, Any](lambda: None)
    for name in queries:
        rows = answers[name]
        facts |= {name: len(rows), f"{name}_groups": group_count(rows) if rows and "group_id" in rows[0] else None}
        for column in rows[0] if rows else ():
            values = [row[column] for row in rows if isinstance(row[column], int)]
            facts |= {f"{name}_{column}": sum(values) if values else None, f"{name}_{column}_known": len(values)}
            facts[f"{name}_no_{column}"] = None if values else ""
    return facts
