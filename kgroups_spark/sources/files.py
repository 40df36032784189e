"""Files and folders, local or where pyarrow.fs opens them, by a path or URI that works in every process."""

from __future__ import annotations

import gc
import io
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import fs

from kgroups_spark.errors import NotReadable, UsageError

# A store that pyarrow cannot open in this process, and the local folder that the process uses instead. Spark carries a
# task's files to it and from it (spark/runner.py). The driver copies files by Hadoop. All other code uses the store's
# URIs.


_stand_ins: dict[str, StandIn] = {}


class StandIn:
    """The local folder that this process uses instead of the store at `uri`, until it is closed: Parquet files."""

    def __init__(self, uri: str) -> None:
        self.uri, self._folder = uri, tempfile.mkdtemp(prefix="kgroups-")
        self.close = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def path(self, uri: str) -> str:
        """The local path of a file or folder of the store; its folder exists."""
        found = Path(f"{self._folder}{uri.removeprefix(self.uri)}")
        (found.parent if found.suffix == ".parquet" else found).mkdir(parents=True, exist_ok=True)
        return str(found)

    def uris(self) -> Iterator[str]:
        for folder, _, names in os.walk(self._folder):
            for name in names:
                yield f"{self.uri}{folder.removeprefix(self._folder)}/{name}"


def stand_in_for(uri: str) -> StandIn:
    """The folder of this process for a store: the one that it has, or a new one."""
    if uri not in _stand_ins:
        _stand_ins[uri] = StandIn(uri)
    return _stand_ins[uri]


def forget(stand_in: StandIn) -> None:
    """From now on this process opens files of the store again."""
    _stand_ins.pop(stand_in.uri, None)
    stand_in.close()


def stand_in_path(location: str) -> str | None:
    """The local path that this process uses instead of a URI, or None if it opens the URI itself."""
    for uri, each in _stand_ins.items():
        if location == uri or location.startswith(f"{uri}/"):
            return each.path(location)
    return None


# How memory is allocated: Arrow's pool, and malloc for NumPy's arrays.


# Environment variables, which users may set. Arrow takes its memory from malloc: of mimalloc, its default, a task that
# reads a million records keeps 40 MB more, of jemalloc 35 MB (a night over a million live offsets: 80 and 75 MB), for
# the same CPU. Its threads, which read files, would keep 25 MB in arenas of their own. glibc raises the first limit to
# the size of the largest array that was freed, and smaller arrays then leave holes. With limits of 1 and 4 MB the
# kernel clears pages so often that decoding takes a seventh more CPU, and an audit of 5 million hard records more than
# a twentieth. With 8 and 8 MB that audit takes 4 % less, and its largest worker 367 instead of 335 MB. Huge pages,
# where the kernel has them on request, save a worker a twentieth of its CPU, and take no more memory.
POOL = "ARROW_DEFAULT_MEMORY_POOL"
OF_WORKERS = {
    POOL: "system",
    "MALLOC_MMAP_THRESHOLD_": "2097152",
    "MALLOC_TRIM_THRESHOLD_": "8388608",
    "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def use_malloc() -> None:
    """Makes Arrow allocate with malloc, unless the user chose a pool."""
    if not os.environ.get(POOL):
        pa.set_memory_pool(pa.system_memory_pool())


def memory_of_workers() -> dict[str, str]:
    """Spark's settings by which new workers have Arrow's memory from malloc, and malloc returns large arrays, unless
    the user chose otherwise. Arrow's threads keep the pool of its start: with two pools a worker takes more."""
    return {f"spark.executorEnv.{name}": os.environ.get(name) or ours for name, ours in OF_WORKERS.items()}


# S3 by pyarrow, configured like Hadoop's s3a.
#
# Spark reaches s3a:// through Hadoop, and Hadoop's settings (`fs.s3a.*`) have the endpoint and the credentials. Tasks
# write parts and read segments by pyarrow, which does not know these settings, so this module translates them. For a
# setting that Hadoop does not have, and without Hadoop (`kgroups dump`), pyarrow uses the sources of AWS's own tools:
# AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_REGION, ~/.aws, the machine's role.
#
# The driver calls `use`; `with_storage` sends the settings to tasks. They are part of the task's code, just as Spark
# sends Hadoop's own settings, so they are in no plan, event log or table.


# Schemes of the same storage: s3 is AWS's and pyarrow's, s3a Hadoop's, s3n an old one of Hadoop's.
SCHEMES = ("s3", "s3a", "s3n")

SECRETS = ("access.key", "secret.key", "session.token")
# Hadoop's settings that pyarrow needs, without `fs.s3a.`. Hadoop 3.5: org.apache.hadoop.fs.s3a.Constants
TRANSLATED = (
    *SECRETS,
    "aws.credentials.provider",
    "connection.ssl.enabled",
    "endpoint",
    "endpoint.region",
    "path.style.access",
)

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class S3Settings:
    """Hadoop's settings of S3 that pyarrow needs: `fs.s3a.bucket.<bucket>.` takes precedence over `fs.s3a.`. Its text
    shows no value, because some are secrets."""

    def __init__(self, hadoop: Mapping[str, str] | None = None) -> None:
        """`hadoop`: settings by names without `fs.s3a.`; those not in TRANSLATED are dropped. None: without Hadoop."""
        self._there_is_hadoop = hadoop is not None
        self._values = {name: value for name, value in (hadoop or {}).items() if name.endswith(TRANSLATED)}

    def __repr__(self) -> str:
        return f"S3Settings({', '.join(sorted(self._values))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, S3Settings) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def options(self, bucket: str) -> dict[str, Any]:
        """The arguments of pyarrow's S3FileSystem for a bucket."""
        endpoint = self._value(bucket, "endpoint")
        endpoint = endpoint or endpoint_of_environment()
        options = {
            **self._credentials(bucket),
            "region": self._value(bucket, "endpoint.region") or _region_in(endpoint),
        }
        if endpoint and not _is_amazons(endpoint):
            protocol = "http" if self._value(bucket, "connection.ssl.enabled") == "false" else "https"
            options["endpoint_override"] = endpoint if "://" in endpoint else f"{protocol}://{endpoint}"
            # By default Hadoop has the bucket in the host name, pyarrow in the path. A numeric address cannot have it.
            in_path = self._value(bucket, "path.style.access") == "true" or not self._there_is_hadoop
            is_number = re.fullmatch(r"[\d.]+", _host(endpoint)) is not None
            options["force_virtual_addressing"] = not in_path and not is_number
            options["region"] = options["region"] or region_of_environment() or "us-east-1"
        return options

    def _credentials(self, bucket: str) -> dict[str, Any]:
        """The credentials; empty: pyarrow finds its own. It refuses a key without its secret, which is dropped."""
        access_key, secret_key, session_token = (self._value(bucket, name) for name in SECRETS)
        if access_key and secret_key:
            pair = {"access_key": access_key, "secret_key": secret_key}
            return {**pair, "session_token": session_token} if session_token else pair
        provider = self._value(bucket, "aws.credentials.provider") or ""
        return {"anonymous": True} if provider.endswith("AnonymousAWSCredentialsProvider") else {}

    def _value(self, bucket: str, name: str) -> str | None:
        value = self._values.get(f"bucket.{bucket}.{name}") or self._values.get(name)
        return value.strip() or None if value else None


_settings = S3Settings()
_file_systems: dict[str, fs.S3FileSystem] = {}


def use(settings: S3Settings) -> None:
    """Makes this process reach S3 with these settings from now on."""
    global _settings
    if settings != _settings:
        _settings = settings
        _file_systems.clear()


def with_storage(task: Task, *, in_worker: bool = False) -> Task:
    """The task for `mapPartitions`, which runs everywhere with the calling process's settings, and with malloc.
    `in_worker`: in one of Spark's, which looks for no garbage among its modules: that takes a twelfth of its CPU."""
    settings = _settings

    def on_storage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use(settings)
        use_malloc()
        if in_worker and not gc.get_freeze_count():
            gc.freeze()
        yield from task(batches)

    return on_storage


def is_s3(location: str) -> bool:
    return location.partition("://")[0] in SCHEMES and "://" in location


def s3_file_system(location: str) -> tuple[fs.S3FileSystem, str]:
    """pyarrow's file system for s3://bucket/path, and `bucket/path`. Options (`?region=eu-west-1`) take the place of
    the settings. Raises UsageError as require_no_credentials."""
    require_no_credentials(location)
    rest = location.split("://", 1)[1]
    if "?" in rest:
        file_system, path = fs.FileSystem.from_uri(f"s3://{rest}")
        return file_system, path
    bucket = rest.partition("/")[0]
    if bucket not in _file_systems:
        _file_systems[bucket] = _connected(bucket)
    return _file_systems[bucket], rest.rstrip("/")


def _connected(bucket: str) -> fs.S3FileSystem:
    options = _settings.options(bucket)
    if "endpoint_override" not in options and not options["region"]:
        options["region"] = region_of_environment() or fs.resolve_s3_region(bucket)
    # A small file in one request instead of three.
    return fs.S3FileSystem(**options, allow_delayed_open=True)


def require_no_credentials(location: str) -> None:
    """Raises UsageError for s3://key:secret@bucket, because locations are printed and are in tables."""
    scheme, _, rest = location.partition("://")
    if is_s3(location) and "@" in rest.partition("/")[0]:
        raise UsageError(
            f"a {scheme}:// location with credentials in it would be printed and stored: give them as "
            "spark.hadoop.fs.s3a.access.key and .secret.key, or as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


def endpoint_of_environment() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def deltalake_options(location: str) -> dict[str, str] | None:
    """The options with which deltalake reaches S3 as AWS's tools do: it reads their settings itself, but refuses http
    without being asked, and does not know the endpoint of S3 alone. None: it needs none."""
    endpoint = endpoint_of_environment() if is_s3(location) else None
    if endpoint is None:
        return None
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}


def require_bucket(location: str) -> None:
    """Raises UsageError for a URI of S3 without a bucket."""
    if is_s3(location) and not location.partition("://")[2].partition("/")[0]:
        raise UsageError(f"{location} names no bucket: write s3://bucket/folder")


def region_of_environment() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _host(endpoint: str) -> str:
    return endpoint.split("://", 1)[-1].partition("/")[0].partition(":")[0]


def _is_amazons(endpoint: str) -> bool:
    """Whether it is a region's public endpoint, which follows from the region. A VPC's private endpoint is not."""
    return re.fullmatch(r"s3([.-][a-z0-9-]+)?\.amazonaws\.com(\.cn)?", _host(endpoint)) is not None


def _region_in(endpoint: str | None) -> str | None:
    match = re.fullmatch(r"s3[.-]([a-z0-9-]+)\.amazonaws\.com(\.cn)?", _host(endpoint or ""))
    return match[1] if match else None


class FolderNotFound(UsageError, NotReadable):
    """A folder that does not exist, or is none."""


class UnreadableFolder(NotReadable):
    """A folder that the file system does not let us list, or that no file system can open."""


class FileVersion(NamedTuple):
    """The identity of the file that a path names at a moment, by its file system. None: unknown."""

    size: int  # bytes
    modified_ns: int | None
    inode: tuple[int, int] | None = None  # device and inode of a local file
    etag: str | None = None  # of an object; listings do not have it

    def is_still(self, now: FileVersion, *, may_grow: bool = False) -> bool:
        """Whether `now` is the same file with the same content. `may_grow`: a local file may have been appended to."""
        if _differ(self.inode, now.inode) or _differ(self.etag, now.etag):
            return False
        if may_grow and self.inode is not None:
            return now.size >= self.size
        return now.size == self.size and not _differ(self.modified_ns, now.modified_ns)


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


class Entry(NamedTuple):
    """An entry of a folder: a file, or not (a folder, a link whose target is gone, a pipe)."""

    name: str
    path: str  # an absolute path, or a URI like its folder's
    is_file: bool
    version: FileVersion | None = None  # of a file

    @property
    def size(self) -> int:
        """Bytes; 0 of a folder."""
        return 0 if self.version is None else self.version.size


class LocalFile(io.FileIO):
    """A local file. It stays readable if its path is deleted or names another file."""

    def version(self) -> FileVersion:
        """The identity of the open file, even if its path now names another one."""
        return _local_version(os.fstat(self.fileno()))


class StoredFile:
    """An object of a store, or a file that is not local. Each read returns the content at that time."""

    def __init__(self, system: fs.FileSystem, inside: str) -> None:
        self._system, self._inside = system, inside
        self._file = system.open_input_file(inside)
        self._etag = _etag(self._file)
        self._was_asked = False
        self.seek, self.read, self.close = self._file.seek, self._file.read, self._file.close

    def readinto(self, buffer: memoryview) -> int | None:
        got: int | None = self._file.readinto(buffer)
        return got

    def version(self) -> FileVersion:
        """The object's present identity, by one request: at first with the facts of a listing, later only size and
        ETag, if it has one. Raises FileNotFoundError if it is gone."""
        if self._was_asked and self._etag is not None:
            with self._system.open_input_file(self._inside) as now:
                return FileVersion(now.size(), None, None, _etag(now))
        self._was_asked = True
        info = self._system.get_file_info(self._inside)
        if info.type != fs.FileType.File:
            raise FileNotFoundError(f"{self._inside} is gone")
        return FileVersion(info.size or 0, info.mtime_ns, None, self._etag)


def _etag(file: fs.NativeFile) -> str | None:
    found: bytes | None = {key.lower(): value for key, value in file.metadata().items()}.get("etag")
    return None if found is None else found.decode(errors="replace")


def _local_version(found: os.stat_result) -> FileVersion:
    return FileVersion(found.st_size, found.st_mtime_ns, (found.st_dev, found.st_ino))


def is_local(location: str) -> bool:
    """Whether a path or URI names a local file or folder. Raises the errors of file_system."""
    return isinstance(file_system(location)[0], fs.LocalFileSystem)


_NO_FOLDER = {
    fs.FileType.File: "is a file, not a folder (an archive must be unpacked)",
    fs.FileType.NotFound: "does not exist",
    fs.FileType.Unknown: "is a pipe or a device, not a folder",
}


def list_folder(folder: str) -> list[Entry]:
    """The entries of a folder, by name. Raises FolderNotFound, UnreadableFolder."""
    if not folder:
        raise FolderNotFound("an empty name is no folder; the current one is .")
    try:
        system, inside = file_system(folder)
        kind = system.get_file_info(inside).type
        if kind == fs.FileType.Directory:
            if isinstance(system, fs.LocalFileSystem):
                entries = _local_entries(folder, inside)
            else:
                entries = [_entry(folder, info) for info in system.get_file_info(fs.FileSelector(inside))]
    except (OSError, ValueError, NotImplementedError) as err:
        raise UnreadableFolder(f"{folder} cannot be listed: {err}") from err
    if kind != fs.FileType.Directory:
        raise FolderNotFound(f"{folder} {_NO_FOLDER[kind]}")
    return sorted(entries, key=lambda entry: entry.name)


def _local_entries(folder: str, inside: str) -> list[Entry]:
    """The entries of a local folder. pyarrow's listing lacks inodes, and links whose target is missing."""
    found = []
    with os.scandir(inside) as entries:
        for entry in entries:
            path = path_in(folder, entry.name)
            try:
                about = entry.stat()
            except FileNotFoundError:
                if entry.is_symlink():
                    found.append(Entry(entry.name, path, False))
                continue  # removed since the listing
            is_file = S_ISREG(about.st_mode)
            version = _local_version(about) if is_file else None
            found.append(Entry(entry.name, path, is_file, version))
    return found


def _entry(folder: str, info: fs.FileInfo) -> Entry:
    is_file = info.type == fs.FileType.File
    version = FileVersion(info.size or 0, info.mtime_ns) if is_file else None
    return Entry(info.base_name, path_in(folder, info.base_name), is_file, version)


def open_file(path: str) -> LocalFile | StoredFile:
    """A file for random access, to be closed by the caller. Raises OSError."""
    system, inside = file_system(path)
    return LocalFile(inside) if isinstance(system, fs.LocalFileSystem) else StoredFile(system, inside)


def read_text(path: str) -> str:
    """The text of a small file. Raises UnreadableFolder if it cannot be read."""
    try:
        with closing(open_file(path)) as file:
            content: bytes = file.read()
    except OSError as err:
        raise UnreadableFolder(f"{path} cannot be read: {err}") from err
    return content.decode("utf-8", errors="replace")


def read_text_if_there(path: str) -> str | None:
    """The same; None if there is no such file."""
    try:
        return read_text(path)
    except UnreadableFolder as err:
        if isinstance(err.__cause__, FileNotFoundError):
            return None
        raise


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """pyarrow's file system for a path or URI, and the path in it. `~`, Hadoop's schemes and `file:/path` are
    understood. Raises OSError, ValueError or NotImplementedError if it cannot open the location, UsageError for
    credentials in a URI."""
    if (stand_in := stand_in_path(location)) is not None:
        return fs.LocalFileSystem(), stand_in
    if is_s3(location):
        return s3_file_system(location)
    if location.startswith("file:/") and not location.startswith("file://"):
        location = location.removeprefix("file:")
    if "://" not in location:
        return fs.LocalFileSystem(), _absolute(location)
    system, inside = fs.FileSystem.from_uri(location)
    return system, inside


def _absolute(path: str) -> str:
    """As pathlib spells it, which takes many times as long if nothing changes."""
    return path if re.fullmatch(r"(?:/(?!\.?(?:/|$))[^/]+)+", path) else str(Path(path).expanduser().absolute())


def path_in(folder: str, name: str) -> str:
    if "://" not in folder and not folder.startswith("file:/"):
        return f"{_absolute(folder).rstrip('/')}/{name}"
    place, options = _place_and_options(folder)
    return f"{place}/{name}{options}"


def folder_of(path: str) -> str:
    place, options = _place_and_options(path)
    return f"{place.rpartition('/')[0]}{options}"


def name_of(path: str) -> str:
    return _place_and_options(path)[0].rpartition("/")[2]


def _place_and_options(path: str) -> tuple[str, str]:
    """A URI may end with options of its file system: s3://bucket/logs?region=eu-west-1. A path may have a `?`, too."""
    place, question_mark, options = path.partition("?") if "://" in path else (path, "", "")
    return place.rstrip("/"), question_mark + options


# Files of Java's .properties syntax: settings of clients, and `meta.properties` of a log directory.
#
# The rules are those of java.util.Properties.load (Java 17): a line that ends with an odd number of backslashes goes on
# in the next one, whose leading blanks are dropped; a line that starts with # or ! is a comment; a key ends at the
# first unescaped `=`, `:` or blank. Files are ISO-8859-1, other characters are written \uXXXX. If a name is given
# twice, the last value counts. Kafka 4.3: org.apache.kafka.common.utils.Utils.loadProps.
#
# A test compares with Java's answers. The package javaproperties 0.8.2 is not equal: it takes a comment after a lone
# backslash for a property, and its error does not name the line.


BLANKS = " \t\f"
# Java treats it as a separate, empty line.
LONE_BACKSLASH_AT_THE_END = re.compile(r"(?:^|[\r\n])[ \t\f]*\\[\r\n]?\Z")
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Names and values of a text in .properties syntax. Raises UsageError for a broken \\uXXXX."""
    properties = {}
    for number, line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", line, re.DOTALL)
        assert match  # every part may be empty
        properties[_unescaped(match[1], number)] = _unescaped(match[2], number)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined with their continuation lines, and the number of the first; without comments and blank lines."""
    logical = ""
    first = slashes = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(BLANKS)
        if not logical:  # also after a line with nothing but its backslash, as in Java
            if not line or line[0] in "#!":
                continue
            first = number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            logical += line[:-1]
            continue
        yield first, logical + line
        logical = ""
    if logical or (slashes % 2 and LONE_BACKSLASH_AT_THE_END.search(text)):
        yield first, logical


def _unescaped(text: str, line: int) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise UsageError(f"line {line} has a \\u without four hexadecimal digits")
        return ESCAPES.get(match[2], match[2])

    text = re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", lambda m: one(m) if m[0] != "\\" else "", text, flags=re.DOTALL)
    # Java's characters are UTF-16: one beyond the basic plane is written as two escapes.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
