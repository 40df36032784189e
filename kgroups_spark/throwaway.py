"""Groups that an application makes for one run: their names differ only by a UUID or a number."""

from __future__ import annotations

import re
from collections.abc import Iterable

# With fewer, one sentence saves no lines.
MANY = 10

# A UUID with its dashes or without; a number of five digits or more between other characters; a number at the end.
_GENERATED = re.compile(
    r"(?P<uuid>[0-9a-f]{8}(?P<dash>-?)(?:[0-9a-f]{4}(?P=dash)){3}[0-9a-f]{12})"
    r"|(?<![0-9a-z])[0-9]{5,}(?![0-9a-z])|(?<![0-9])[0-9]+$",
    re.IGNORECASE,
)


def pattern(group_id: str) -> str | None:
    """The name with `<uuid>` and `<number>` for its generated parts, such as `report-<uuid>`; None: it has none."""
    found = _GENERATED.sub(lambda part: "<uuid>" if part["uuid"] else "<number>", group_id)
    return None if found == group_id else found


def throwaway_groups(groups: Iterable[tuple[str, int]]) -> dict[str, list[str]]:
    """By pattern, the names of at least ten groups without members that were most likely made for one run each.

    `groups`: the name of each group, and the number of its members. Numbers up to 99 may be chosen names (of
    instances, of shards), and so may those of groups most of which have members.
    """
    empty: dict[str, set[str]] = {}
    in_use: dict[str, set[str]] = {}
    for group_id, members in groups:
        if (its := pattern(group_id)) is not None:
            (in_use if members else empty).setdefault(its, set()).add(group_id)
    return {
        its: sorted(names)
        for its, names in sorted(empty.items())
        if len(names) >= MANY
        and (
            "<uuid>" in its
            or (len(names) > len(in_use.get(its, ())) and max(map(len, names)) - len(its.replace("<number>", "")) > 2)
        )
    }
