"""The recorded logs that disturbed audits read."""

from __future__ import annotations

from pathlib import Path

CORPORA = Path(__file__).parents[1] / "data" / "corpora" / "corpora.zip"
