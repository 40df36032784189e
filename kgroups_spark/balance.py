"""Work for tasks, by its weight."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def by_weight(items: Iterable[Item], weight: Callable[[Item], int], tasks: int) -> list[list[Item]]:
    """The items of each task, in the order given: the heaviest first, each to the lightest of at most `tasks` tasks.

    No task is without items, unless there are none.
    """
    # One more than its weight: items without any are spread as well.
    given = [(weight(item) + 1, number, item) for number, item in enumerate(items)]
    found: list[list[tuple[int, Item]]] = [[] for _ in range(max(1, min(tasks, len(given))))]
    loads = [0] * len(found)
    for load, number, item in sorted(given, key=lambda each: (-each[0], each[1])):
        lightest = loads.index(min(loads))
        found[lightest].append((number, item))
        loads[lightest] += load
    return [[item for _, item in sorted(of_task, key=lambda each: each[0])] for of_task in found]
