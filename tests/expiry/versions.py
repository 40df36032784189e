"""Release names as the twin wants them."""


def parsed(release):
    """((major, minor, ...), whether the Java coordinator is meant) of `4.0.0`, `3.9`, `3.9-java`."""
    version = tuple(int(number) for number in release.removesuffix("-java").split("."))
    return version, release.endswith("-java") or version >= (4,)
