"""Removal of secrets from texts, in any of their written forms."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
# A shorter secret is hidden only as a separate word: a password "a" would hide every a in a message.
SHORTEST_WITHIN_WORDS = 4


@dataclass(frozen=True, repr=False)
class Secrets:
    """Values that no message, log or table may show; neither does the text of this object."""

    values: tuple[str, ...] = ()

    def __add__(self, other: Secrets) -> Secrets:
        return Secrets(self.values + other.values)

    def hide(self, text: str) -> str:
        """The text with HIDDEN for each secret: as it is, escaped as by repr or JSON, URL- or base64-encoded."""
        written = {form for value in self.values if value.strip() for form in _forms(value)}
        if not written:
            return text
        # The longest comes first, because a password can be a part of another secret.
        patterns = [_pattern(form) for form in sorted(written, key=len, reverse=True)]
        return re.sub("|".join(patterns), HIDDEN, text)


def _forms(value: str) -> set[str]:
    utf8 = value.encode(errors="surrogatepass")
    return {
        value,
        value.strip(),
        repr(value)[1:-1],
        repr(utf8)[2:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(utf8, safe=""),
        quote(utf8),
        quote_plus(utf8),
        *(
            form
            for code in (b64encode, urlsafe_b64encode)
            for form in (code(utf8).decode(), code(utf8).decode().rstrip("="))
        ),
    } - {""}


def _pattern(form: str) -> str:
    pattern = re.escape(form)
    return pattern if len(form) >= SHORTEST_WITHIN_WORDS else rf"(?<!\w){pattern}(?!\w)"
