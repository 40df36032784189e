"""What goes wrong because of what was asked or given: shown as one message, never as a stack trace."""


class KgroupsError(Exception):
    """Something a person can act on; the text says what was read, found, expected, and what to do. Exit code 1."""

    exit_code = 1


class UsageError(KgroupsError):
    """A command or option that cannot be meant: found before work starts, nothing written. Exit code 2."""

    exit_code = 2
