"""A directory that keeps the newest files of a stream, for records of rounds."""

import logging
from collections import deque
from pathlib import Path

log = logging.getLogger(__name__)


class Directory:
    """Writes files and removes the oldest beyond a number.

    A disk that is full costs the record, never the loop: errors are logged.

    Args:
        path: created if it does not exist.
        keep: files kept; those found at the start count.

    Raises:
        ValueError: the directory cannot be made or read.
    """

    def __init__(self, path: Path, keep: int = 2000) -> None:
        self._path = path
        self._keep = keep
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._files = deque(sorted(file.name for file in path.glob("*Z.json")))
        except OSError as error:
            raise ValueError(f"--record {path}: {error.strerror}") from error

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole, or not at all."""
        partial = self._path / f".{name}.partial"
        try:
            partial.write_bytes(data)
            partial.replace(self._path / name)
            self._files.append(name)
            while len(self._files) > self._keep:
                (self._path / self._files.popleft()).unlink(missing_ok=True)
        except OSError as error:
            log.warning("record", extra={"file": name, "error": error.strerror})
