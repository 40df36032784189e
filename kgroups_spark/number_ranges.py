"""Numbers of partitions as a person reads them."""

from collections.abc import Iterable, Sequence


def number_ranges(numbers: Iterable[int]) -> str:
    """`0-7, 12` for the numbers 0 to 7 and 12, which must be in ascending order."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def named_partitions(numbers: Sequence[int]) -> str:
    """`partition 7` or `partitions 2-3, 7`, for numbers in ascending order."""
    return f"partition{'' if len(numbers) == 1 else 's'} {number_ranges(numbers)}"
