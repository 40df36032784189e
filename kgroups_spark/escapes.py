r"""Characters that a terminal would obey, spelled out: names come from a log, and any client may choose a group's.

All characters that Unicode does not call printable are spelled out: control characters (C0, DEL, C1), the controls of
bidirectional text, other invisible format characters, line and paragraph separators, unassigned ones. ESC becomes
`\x1b`.
"""

from __future__ import annotations

import re
import shlex

# Text that already has the form of a spelled-out character.
_LOOKS_ESCAPED = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])")
# The form of a character that a name can have, and a doubled backslash.
_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u(?!d[89a-f])[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4}|[nrt\\])")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
# The shown forms of an empty text, and of the text that looks like it.
SPECIAL = {"": "''", "''": r"\x27\x27"}
# Blanks that are invisible, or that look like the gap between two columns.
_HIDDEN_BLANK = re.compile(r"^ | $|(?<= ) ")


def printable(text: str) -> str:
    r"""The text with control characters, including line feeds, spelled out for a sentence: `orders\x1bc`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def cell_text(text: str) -> str:
    r"""The text for a table's cell: two different texts never look alike, and `as_typed` reads it back.

    As `printable`; also, blanks at an end, and those after a blank, become `\x20`. If one of these forms is in the
    result, backslashes of the text itself are doubled. An empty text becomes `''`. A name of ordinary characters stays
    unchanged.
    """
    if text in SPECIAL:
        return SPECIAL[text]
    if text.isprintable() and not _HIDDEN_BLANK.search(text) and not _LOOKS_ESCAPED.search(text):
        return text
    return printable(_HIDDEN_BLANK.sub(r"\\x20", text.replace("\\", "\\\\")))


def as_typed(text: str) -> str:
    r"""The name that is shown as `text` (cell_text): `orders\x20` is the name with a blank at its end. A text that no
    name is shown as is a name as it is."""
    name = {shown: name for name, shown in SPECIAL.items()}.get(text)
    if name is None and _LOOKS_ESCAPED.search(text):
        name = _ESCAPE.sub(_unescaped, text)
    return name if name is not None and cell_text(name) == text else text


def _unescaped(escape: re.Match[str]) -> str:
    form = escape[0][1:]
    return _LETTERS[form] if form in _LETTERS else chr(int(form[1:], 16))


def quoted(name: str) -> str:
    """The name in quotes, for a sentence."""
    return f"'{cell_text(name)}'" if name else cell_text(name)


def typed_word(name: str) -> str:
    r"""The name as one word of a shell's command line that `as_typed` reads: `'orders\x20'`."""
    return shell_word(cell_text(name)) if name else "''"


def json_text(json: str) -> str:
    r"""Equivalent JSON with printable characters only: `\u009b` is an escape in JSON."""
    if json.isprintable():
        return json
    return "".join(char if char.isprintable() else _json_escape(char) for char in json)


def shell_word(text: str) -> str:
    r"""The text as one word of a shell's command line; control characters have the form `$'...'` of bash and zsh."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(
        "\\" + char if char in "\\'" else char if char.isprintable() else _bytes_escape(char) for char in text
    )
    return f"$'{escaped}'"


def shell_option(name: str, value: str) -> str:
    """An option of kgroups with a value, as words of a shell's command line: a value that begins with a dash needs the
    form with `=`, or it would be taken for an option."""
    return f"{name}{'=' if value.startswith('-') else ' '}{shell_word(value)}"


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _bytes_escape(char: str) -> str:
    """The escapes of the character's bytes in UTF-8: bash reads other escapes in the locale's encoding."""
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
