"""Logs recorded from real brokers, the brokers' answers, and audits of the logs."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.chosen import some_of
from tests.logs.log_files import Files, read_zip
from tests.nights.decoded import Decoded, decode
from tests.nights.nights_here import Audited, How, audit
from tests.recorded_logs import CORPORA

# Those of 4.4.0: compared with their broker's answers here, while other tests take samples from the older releases.
CORPORA_44 = CORPORA.with_name("corpora-4.4.zip")
Json = dict[str, Any]


def answers_in(corpora: Path) -> dict[str, Json]:
    """By corpus."""
    with zipfile.ZipFile(corpora) as archive:
        names = [name for name in archive.namelist() if name.startswith("answers/")]
        return {Path(name).stem: json.loads(archive.read(name)) for name in names}


ANSWERS, ANSWERS_44 = answers_in(CORPORA), answers_in(CORPORA_44)
ALL = ANSWERS | ANSWERS_44
some_corpora = pytest.mark.parametrize("corpus", some_of(3, *sorted(ANSWERS)))


def files_of(corpus: str) -> Files:
    return read_zip(CORPORA if corpus in ANSWERS else CORPORA_44)[corpus]


@cache
def audited(corpus: str) -> Audited:
    return audit(files_of(corpus), How(ALL[corpus]["release"]))


def decoded(corpus: str) -> Decoded:
    return decode(files_of(corpus), ALL[corpus]["release"])
