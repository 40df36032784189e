"""Errors due to the user's input or environment: shown as one message, never as a stack trace."""


class KgroupsError(Exception):
    """An error that a person can act on. The text names the input, what is wrong with it, and what to do. Exit code 1.

    Several texts are several lines. A text may hold names unchanged from the log. Code that prints it must spell out
    characters that a terminal would obey, including line feeds (terminal/output.py).
    """

    exit_code = 1

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(str, self.args))

    def __str__(self) -> str:
        return "\n".join(self.lines)


class NotReadable(KgroupsError):
    """A partition cannot be read to its end now. It is left to a later audit; other partitions are not affected."""


class UsageError(KgroupsError):
    """An invalid command or option, found before work starts, so nothing is written. Exit code 2."""

    exit_code = 2
