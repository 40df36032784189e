"""Work divided among tasks by its weight."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def by_weight(items: Iterable[Item], weight: Callable[[Item], int], tasks: int) -> list[list[Item]]:
    """The items of each task, in the order given. The heaviest item is assigned first, and each one to the lightest of
    at most `tasks` tasks.

    No task is empty, unless there are no items.
    """
    # Weight plus one, so that items without any weight are spread as well.
    given = [(weight(item) + 1, number, item) for number, item in enumerate(items)]
    found: list[list[tuple[int, Item]]] = [[] for _ in range(max(1, min(tasks, len(given))))]
    loads = [0] * len(found)
    for load, number, item in sorted(given, key=lambda each: (-each[0], each[1])):
        lightest = loads.index(min(loads))
        found[lightest].append((number, item))
        loads[lightest] += load
    return [[item for _, item in sorted(of_task, key=lambda each: each[0])] for of_task in found]
