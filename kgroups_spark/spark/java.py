"""Whether there is a Java on which Spark 4.2 runs. The Makefile runs this as a script, before there is a virtual
environment: standard library only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_JAVA = 17  # Spark 4 is compiled for this release


class NoJava(Exception):
    """There is no Java, or one too old for Spark; the text has the one found, and what to do."""


def require_java() -> int:
    """The major version of the Java that Spark would start: $JAVA_HOME's, else the one on the PATH. Raises NoJava."""
    java = _java_command()
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoJava(f"{java} does not run ({error}); Spark needs Java {OLDEST_JAVA} or newer") from error
    text = answer.stderr + answer.stdout
    version = major_version(text)
    if version is None:
        raise NoJava(f"{java} -version printed {text.strip()[:80]!r}; Spark needs Java {OLDEST_JAVA} or newer")
    if version < OLDEST_JAVA:
        raise NoJava(f"{java} is Java {version}; Spark needs Java {OLDEST_JAVA} or newer: {_ADVICE}")
    return version


def major_version(text: str) -> int | None:
    """The major version in the output of `java -version`: 17 of `"17.0.15"`, 8 of `"1.8.0_412"`; None: it has none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


_ADVICE = "install one and put it on the PATH, or point JAVA_HOME at it"


def _java_command() -> str:
    """The java command that Spark's own start script would choose."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise NoJava(f"JAVA_HOME is {home}, and {java} is not there; Spark needs Java {OLDEST_JAVA} or newer")
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise NoJava(f"no Java found; Spark needs Java {OLDEST_JAVA} or newer: {_ADVICE}")
    return found


if __name__ == "__main__":
    try:
        require_java()
    except NoJava as missing:
        sys.exit(f"kgroups: {missing}")
