"""README and the pages of docs/, as tests read them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str = "") -> list[str]:
    """The page's blocks of code in this language, in their order. `page`: its path from the root."""
    return [text for found, text in _BLOCK.findall((ROOT / page).read_text()) if found == language]
