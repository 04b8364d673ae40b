"""Version numbers of engines, as image tags and people write them."""

import re

Version = tuple[int, int, int]

LAST_PATCH = 9_999
"""Patch of a version that names none: "0.20" is the last of 0.20."""

_NUMBER = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?!\.?\d)")


def parse_version(text: str) -> Version | None:
    """(major, minor, patch) of "v0.5.9", "0.5.6.post2", "1.2.0rc3", "0.5"; None if it is none."""
    found = _NUMBER.match(text.strip())
    if found is None:
        return None
    major, minor, patch = found.groups()
    return int(major), int(minor), LAST_PATCH if patch is None else int(patch)


def version_text(version: Version) -> str:
    """The version for a person ("0.5.9"; "0.5" where no patch was named)."""
    major, minor, patch = version
    return f"{major}.{minor}" + ("" if patch == LAST_PATCH else f".{patch}")
