"""The logs that were recorded from real brokers, in one archive: logs/NAME and answers/NAME.json."""

from __future__ import annotations

import zipfile
from pathlib import Path

CORPORA = Path(__file__).parent / "data" / "corpora" / "corpora.zip"


def unpacked(folder: Path, name: str = "") -> Path:
    """Writes one log, or all, below the folder; returns the folder of the log, or of all."""
    with zipfile.ZipFile(CORPORA) as archive:
        archive.extractall(folder, [each for each in archive.namelist() if each.startswith(f"logs/{name}")])
    return folder / "logs" / name
