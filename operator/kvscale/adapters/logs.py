"""Logs: one JSON object a line, with the fields that a call gave as `extra`."""

import logging
import sys
from datetime import UTC, datetime

import orjson

STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as JSON: time, level, logger, message, and whatever was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extras(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class TextFormatter(logging.Formatter):
    """A record for a terminal: the same fields as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, and a traceback if there is one."""
        told = " ".join(f"{key}={value}" for key, value in extras(record).items())
        return f"{super().format(record)} {told}".rstrip()


def extras(record: logging.LogRecord) -> dict[str, object]:
    """The fields that the call gave as `extra`; kopf's own bulky ones are left out."""
    return {
        key: value
        for key, value in vars(record).items()
        if key not in STANDARD and not key.startswith(("k8s_", "settings"))
    }


def configure_logging(log_format: str) -> None:
    """Log to stderr.

    Raises:
        ValueError: the format is neither json nor text.
    """
    formatters = {
        "json": JsonFormatter(),
        "text": TextFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"),
    }
    if log_format not in formatters:
        raise ValueError(f"--log-format {log_format}: give json or text")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatters[log_format])
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for chatty in ("kopf", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
