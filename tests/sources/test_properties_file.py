"""Java's .properties syntax, as java.util.Properties (Java 17) reads the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgroups_spark.cluster.security import BadClientProperty, read_properties_file
from kgroups_spark.errors import UsageError
from kgroups_spark.sources.files import parse_properties


@pytest.mark.parametrize(
    ("content", "properties"),
    [
        (b"", {}),
        (b"a=b", {"a": "b"}),
        (b"a = b \r\nc : d\re f\n", {"a": "b ", "c": "d", "e": "f"}),
        (b"a==b\nc=:d\ne :=f\ng\n", {"a": "=b", "c": ":d", "e": "=f", "g": ""}),
        (b"# a=b\n  ! c=d\\\ne=f\n \t\f\n", {"e": "f"}),
        (b"a\\=b\\:c\\ d=e\n", {"a=b:c d": "e"}),
        (b"a=one \\\n   two \\\r\n\tthree\nb=c", {"a": "one two three", "b": "c"}),
        (b"a=one\\\\\nb=two\\\\\\\nthree", {"a": "one\\", "b": "two\\three"}),
        (b"a=one\\\n\nb=two", {"a": "one", "b": "two"}),
        (b"a=one\\\n# two\nb=three", {"a": "one# two", "b": "three"}),
        (b"\\\n# a comment\n\\\na=b\\", {"a": "b"}),
        (b'p=\\"q\\" \\t\\n\\r\\f \\q\\\\', {"p": '"q" \t\n\r\f q\\'}),
        (b"a=\\u00e4\\u20AC\\ud83d\\ude00", {"a": "ä€😀"}),
        ("a=ä".encode("iso-8859-1"), {"a": "ä"}),
        ("a=ä".encode(), {"a": "Ã¤"}),
        (b"\xef\xbb\xbfa=b", {"a": "b"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=1\n\\", {"a": "1", "": ""}),
        (b"a=1\n\\\n", {"a": "1", "": ""}),
        (b"a=1\n\\\r\n", {"a": "1"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(tmp_path, content, properties):
    file = tmp_path / "client.properties"
    file.write_bytes(content)
    assert read_properties_file(str(file)) == properties


RECORDED = json.loads((Path(__file__).parents[1] / "data" / "java-properties.json").read_text())


def test_random_texts_are_read_as_javas_own_properties_read_them() -> None:
    """400 texts of backslashes, line ends, blanks, signs and letters, as Java 17 read them; null: it refused one."""
    for text, properties in RECORDED:
        if properties is None:
            with pytest.raises(UsageError, match="four hexadecimal digits"):
                parse_properties(text)
        else:
            assert parse_properties(text) == properties, text


def test_a_broken_escape_names_its_line_and_none_of_its_text(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("a=b\n\nsasl.jaas.config=x \\\n  password=\\u12zz\n")
    with pytest.raises(BadClientProperty) as caught:
        read_properties_file(str(file))
    assert str(caught.value) == (f"the properties file {file}: line 3 has a \\u without four hexadecimal digits")


def test_a_file_that_is_not_iso_8859_1_is_refused(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("a=b", encoding="utf-16")
    with pytest.raises(BadClientProperty, match=f"the properties file {file} is not ISO-8859-1 text"):
        read_properties_file(str(file))


@pytest.mark.parametrize(
    ("path", "problem"),
    [("none", "No such file or directory"), (".", "Is a directory"), ("file/below", "Not a directory")],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, monkeypatch, path, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f"^the properties file {path} cannot be read: {problem}$"):
        read_properties_file(path)
