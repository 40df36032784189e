"""What a file system says through Java: a wrong place or missing rights, in one line instead of two stack traces."""

from __future__ import annotations

_STORAGE = ("java.io.", "java.nio.file.", "java.net.", "org.apache.hadoop.fs.", "org.apache.hadoop.security.")


def storage_error_text(error: BaseException) -> str | None:
    """`FileNotFoundException: File file:/proc/lake does not exist` of a Java error whose root is the storage; None:
    it is something else, and where it happened matters."""
    java_error = getattr(error, "java_exception", None)  # py4j's Py4JJavaError; PySpark may not be there to import it
    if java_error is None:
        return None
    root = java_error
    while root.getCause() is not None:
        root = root.getCause()
    name = str(root.getClass().getName())
    if not name.startswith(_STORAGE):
        return None
    return f"{name.rsplit('.', 1)[1]}: {root.getMessage()}"
