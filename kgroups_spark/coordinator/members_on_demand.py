"""Members of a GroupMetadata value that are made when they are asked for.

A value of hundreds of members is mostly replaced by the next one, and all that is asked of it is which members came,
changed and went. A reader of many values at once may give the shard a value whose `members` are these in place of a
list of dicts: to everything else they are a sequence of such dicts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

Member = dict[str, Any]


class MembersOnDemand(Sequence[Member]):
    """Members of one value. Every blob in it has no bytes or can be read, so that reading one fails no load."""

    __slots__ = ()

    @property
    @abstractmethod
    def layout(self) -> object:
        """Fingerprints of equal layouts can be compared."""

    @abstractmethod
    def ids(self) -> list[str]:
        """The member ids, in the order of the value."""

    @abstractmethod
    def instance_ids(self) -> list[str | None]:
        """The group instance ids, in the same order."""

    @abstractmethod
    def fingerprints(self) -> list[bytes]:
        """Equal where the member is, in the same order."""

    @abstractmethod
    def assignments(self) -> list[str | None]:
        """The assignments as JSON, in the same order; see ClassicGroup.assignments."""

    @abstractmethod
    def value_json(self) -> str:
        """The JSON text of the whole value."""
