import pytest

from kgroups_spark.spark.java import NoJava, major_version, require_java


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "21" 2023-09-19 LTS', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_version_is_read_from_what_java_prints(text, version):
    assert major_version(text) == version


def test_a_wrong_java_home_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match=r"JAVA_HOME is .*bin/java is not there; Spark needs Java 17 or newer"):
        require_java()


def test_java_home_comes_before_the_path(monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"19.0.1\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert require_java() == 19


def test_a_java_that_does_not_run_is_named(monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("no shell would run this")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match="bin/java does not run"):
        require_java()
