"""Ctrl-C and SIGTERM in processes of their own: one line, the exit code, and nothing left running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def start(script: str) -> subprocess.Popen[str]:
    """A script in a process group of its own, which says when a signal may come: `ready`."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


COMMAND = """
    import sys, time
    from kgroups_spark.cli import main as cli
    from kgroups_spark.cli import dump

    def work(path, topic):
        {work}

    dump.segments_at = work
    sys.argv = ["kgroups", "dump", "x"]
    cli.entry_point()
"""
# Many short calls: a signal between the last look of Python and the beginning of a call does not end that call.
WAITS = "print('ready', flush=True); [time.sleep(0.1) for _ in range(6000)]"


def command(work: str) -> str:
    return textwrap.dedent(COMMAND).replace("{work}", work)


ENDS = [(signal.SIGINT, 130, "kgroups: interrupted\n"), (signal.SIGTERM, 143, "kgroups: terminated\n")]


@pytest.mark.parametrize(("number", "code", "said"), ENDS)
def test_a_signal_ends_a_command_with_one_line(number: signal.Signals, code: int, said: str) -> None:
    process = start(command(WAITS))
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (code, "", said)


def test_an_error_after_a_signal_is_reported_as_the_signal() -> None:
    work = "\n    ".join(
        ["try:", f"    {WAITS}", "except KeyboardInterrupt:", "    raise RuntimeError('the JVM has gone') from None"]
    )
    process = start(command(work))
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "kgroups: terminated\n")


def test_a_second_signal_does_not_wait() -> None:
    work = "\n    ".join(
        [
            "try:",
            f"    {WAITS}",
            "except KeyboardInterrupt:",
            "    print('cleaning up', flush=True)",
            "    [time.sleep(0.1) for _ in range(6000)]",
        ]
    )
    process = start(command(work))
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "cleaning up\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")


@pytest.mark.parametrize(("number", "code", "said"), ENDS)
@pytest.mark.parametrize("module", ["cli.main", "cli.audit"])
def test_a_signal_while_the_commands_are_loaded_is_one_line(
    module: str, number: signal.Signals, code: int, said: str
) -> None:
    script = """
        import sys, time

        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "kgroups_spark.{module}":
                    print("ready", flush=True)
                    [time.sleep(0.1) for _ in range(6000)]

        sys.meta_path.insert(0, Slow())
        from kgroups_spark.cli.entry import entry_point
        entry_point()
    """
    process = start(script.replace("{module}", module))
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, said)


def test_a_prompt_survives_ctrl_c_but_not_sigterm() -> None:
    script = """
        import time
        from kgroups_spark.spark.interruption import going_on, interruptible

        with interruptible():
            say = "ready"
            while True:
                try:
                    print(say, flush=True)
                    [time.sleep(0.1) for _ in range(6000)]
                except KeyboardInterrupt as asked:
                    going_on(asked)
                    say = "again"
    """
    process = start(script)
    assert process.stdout is not None
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "again\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Terminated" in err


QUERY = """
    import time
    import duckdb
    from kgroups_spark.cli import main as cli
    from kgroups_spark.cli import dump
    from kgroups_spark.spark.interruption import run_interruptibly

    def work(path, topic):
        connection = duckdb.connect()
        query = lambda: connection.execute("SELECT count(*) FROM range(1000000000000)").fetchall()
        print("ready", flush=True)
        {run}

    dump.segments_at = work
    cli.sys.argv = ["kgroups", "dump", "x"]
    cli.entry_point()
"""


def test_a_query_in_c_is_interrupted() -> None:
    process = start(textwrap.dedent(QUERY).replace("{run}", "run_interruptibly(query, connection.interrupt)"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "kgroups: interrupted\n")


def test_interruptible_work_passes_on_its_result_and_its_error() -> None:
    from kgroups_spark.spark.interruption import interruptible, run_interruptibly

    def fail() -> None:
        raise ValueError("as it is")

    for block in (contextlib.nullcontext, interruptible):
        with block():
            assert run_interruptibly(lambda: 5, fail) == 5
            with pytest.raises(ValueError, match="as it is"):
                run_interruptibly(fail, fail)


def test_a_signal_after_the_work_ends_the_process_silently() -> None:
    script = """
        import atexit, pyspark, sys, time
        from kgroups_spark.cli import main as cli
        from kgroups_spark.cli import dump

        def last():
            print("ready", flush=True)
            [time.sleep(0.1) for _ in range(6000)]

        atexit.register(last)
        dump.run = lambda arguments: 0
        sys.argv = ["kgroups", "dump", "x"]
        from kgroups_spark.cli.entry import entry_point
        entry_point()
    """
    process = start(script)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")


ARRIVES = """
    import threading, time
    from kgroups_spark.spark.interruption import SIGNALS, going_on, interruptible, is_interruption

    ended = threading.Event()
    SIGNALS.on_arrival.append(ended.set)
    with interruptible():
        try:
            try:
                print("ready", flush=True)
                [time.sleep(0.1) for _ in range(6000)]
            finally:
                ended.wait(600)  # as PySpark for the end of a job
                raise RuntimeError("the job was cancelled")
        except RuntimeError as error:
            assert is_interruption(error)
            going_on(error)
            assert SIGNALS.received is None
            print("goes on", flush=True)
"""


@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, "goes on\n"), (signal.SIGTERM, "")])
def test_a_signal_ends_the_job_that_the_main_thread_waits_for(number: signal.Signals, said: str) -> None:
    process = start(ARRIVES)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (out, "Terminated" in err) == (said, number == signal.SIGTERM)


def test_the_block_restores_the_signal_handlers() -> None:
    from kgroups_spark.spark.interruption import interruptible, is_in_force, still_in_force

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    hook = sys.unraisablehook
    with interruptible():
        assert is_in_force()
        with still_in_force():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        assert is_in_force()
        with interruptible():
            assert is_in_force()
        assert is_in_force()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert sys.unraisablehook is hook
    with still_in_force():
        assert not is_in_force()
