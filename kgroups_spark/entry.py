"""`kgroups` as a process: Ctrl-C is handled before the commands are loaded, which takes a moment."""

from __future__ import annotations

import os
import signal
import sys

from kgroups_spark.interruption import exit_code, interruptible


def entry_point() -> None:
    """The console script."""
    with interruptible():
        try:
            from kgroups_spark import cli
        except KeyboardInterrupt:
            sys.stderr.write("kgroups: interrupted\n")
            sys.stderr.flush()
            os._exit(exit_code(signal.SIGINT))
        cli.entry_point()
