"""The logs that were recorded from real brokers, in one archive: logs/NAME and answers/NAME.json."""

from __future__ import annotations

from pathlib import Path

CORPORA = Path(__file__).parent / "data" / "corpora" / "corpora.zip"
