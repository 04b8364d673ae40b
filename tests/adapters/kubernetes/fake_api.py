"""A small API server on loopback that speaks list and watch, and fails as it is told.

It is no full API server: versions count up, a list can be paged, a watch sends what happened
since its version. Whatever real servers do wrong is a `Fault`, used up by the next request of its
kind. Conflicts, pruning and apply are tested against the real one (tests/cluster).
"""

import json
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

PATIENCE = 20.0
BLINK = 0.005


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    @property
    def kind(self) -> str:
        if self.method != "GET":
            return "write"
        if "watch" in self.query:
            return "watch"
        return "page" if "continue" in self.query else "list"


@dataclass
class Fault:
    """What happens instead of an answer.

    status, reason, headers: an error with a Status body; body: these bytes instead.
    reset: the connection is reset. stall: it says nothing more, after `events`.
    events: sent on a watch as they are; the watch then ends, unless it stalls or is reset.
    torn: the first half of this event is sent after them.
    """

    status: int = 200
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    reset: bool = False
    stall: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    torn: dict[str, Any] | None = None


Answer = tuple[int, dict[str, Any]]


class FakeApi:
    """Objects by collection path, a history for watches, faults, and a log of requests."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.version = 100
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        self.history: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.compacted = 0
        self.absent: set[str] = set()
        self.requests: list[Request] = []
        self.faults: dict[str, list[Fault]] = {}
        self.gates: dict[str, Event] = {}
        self.writes: dict[tuple[str, str], Callable[[Request], Answer]] = {}
        self.open_watches = 0
        self.watch_round = 0
        self.reset_round = False
        self.closing = False
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self})
        )
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # What a test says.

    def put(self, path: str, raw: dict[str, Any], *, announce: bool = True) -> dict[str, Any]:
        """Create or change an object; without `announce`, no watch will ever tell."""
        with self.changed:
            self.version += 1
            known = self.objects.setdefault(path, {})
            name = f"{raw['metadata'].get('namespace', '')}/{raw['metadata']['name']}"
            stored = raw | {"metadata": raw["metadata"] | {"resourceVersion": str(self.version)}}
            kind = "MODIFIED" if name in known else "ADDED"
            known[name] = stored
            if announce:
                self._record(path, kind, stored)
            self.changed.notify_all()
        return stored

    def remove(self, path: str, name: str, *, announce: bool = True) -> None:
        with self.changed:
            self.version += 1
            gone = self.objects[path].pop(name)
            gone = gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self.version)}}
            if announce:
                self._record(path, "DELETED", gone)
            self.changed.notify_all()

    def send(self, path: str, *events: dict[str, Any]) -> None:
        """Send these to every watch of the collection, as they are."""
        with self.changed:
            for event in events:
                self.version += 1
                self.history.setdefault(path, []).append((self.version, event))
            self.changed.notify_all()

    def bookmark(self, path: str) -> None:
        version = str(self.version + 1)
        self.send(path, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}})

    def compact(self) -> None:
        """Forget the history: versions up to now are Gone."""
        with self.changed:
            self.version += 1
            self.compacted = self.version

    def fail(self, kind: str, *faults: Fault) -> None:
        """The next requests of that kind ("list", "page", "watch", "write") fail like this."""
        with self.changed:
            self.faults.setdefault(kind, []).extend(faults)

    def hold(self, kind: str) -> Event:
        """Requests of that kind are answered only once the event that is returned is set."""
        return self.gates.setdefault(kind, Event())

    def watched(self) -> None:
        """Wait until a watch is open."""
        self.eventually(lambda: self.open_watches)

    def end_watches(self, *, reset: bool = False) -> None:
        """End the watches that are open, once there are any."""
        self.watched()
        self.cut_watches(reset=reset)

    def cut_watches(self, *, reset: bool = False) -> None:
        """End the watches that happen to be open."""
        with self.changed:
            self.watch_round += 1
            self.reset_round = reset
            self.changed.notify_all()

    def poke(self, *_: object) -> None:
        """Something that `eventually` may wait for has happened."""
        with self.changed:
            self.changed.notify_all()

    def eventually(self, predicate: Callable[[], object]) -> None:
        """Wait until it holds; looked at whenever anything happens, and a little later."""
        deadline = time.monotonic() + PATIENCE
        with self.changed:
            while not predicate():
                assert time.monotonic() < deadline, "it did not happen"
                self.changed.wait(BLINK)

    def count(self, kind: str, path: str = "") -> int:
        return sum(r.kind == kind and (not path or r.path == path) for r in self.requests)

    def last(self, kind: str) -> Request:
        return [request for request in self.requests if request.kind == kind][-1]

    # What the server does.

    def _record(self, path: str, kind: str, stored: dict[str, Any]) -> None:
        event = {"type": kind, "object": stored}
        self.history.setdefault(path, []).append((self.version, event))

    def _take_fault(self, kind: str) -> Fault | None:
        waiting = self.faults.get(kind)
        return waiting.pop(0) if waiting else None


class _Handler(BaseHTTPRequestHandler):
    api: FakeApi  # set on the subclass of each server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        address = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        request = Request(
            self.command,
            address.path,
            dict(parse_qsl(address.query)),
            dict(self.headers),
            body,
        )
        with self.api.changed:
            self.api.requests.append(request)
            fault = self.api._take_fault(request.kind)
            self.api.changed.notify_all()
        if request.kind in self.api.gates:
            self.api.gates[request.kind].wait(PATIENCE)
        try:
            self._reply(request, fault)
        except OSError:
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_PATCH = _serve  # noqa: N815 - the base class names them

    def _reply(self, request: Request, fault: Fault | None) -> None:
        if fault is not None:
            self._fail(request, fault)
        elif request.kind == "watch":
            self._watch(request)
        elif (request.method, request.path) in self.api.writes:
            code, answer = self.api.writes[request.method, request.path](request)
            self._whole(code, json.dumps(answer).encode(), {})
        elif request.kind == "write" or request.path in self.api.absent:
            self._whole(404, b'{"kind":"Status","reason":"NotFound","code":404}', {})
        else:
            self._list(request)

    def _fail(self, request: Request, fault: Fault) -> None:
        if fault.status != 200 or fault.body is not None:
            status = {
                "kind": "Status",
                "reason": fault.reason,
                "message": "as told",
                "code": fault.status,
            }
            body = json.dumps(status).encode() if fault.body is None else fault.body
            self._whole(fault.status, body, fault.headers)
            return
        if request.kind == "watch":
            self._open()
            for event in fault.events:
                self._chunk(event)
            if fault.torn is not None:
                line = json.dumps(fault.torn).encode()
                self._bytes(line[: len(line) // 2])
        self._break(fault)

    def _whole(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _list(self, request: Request) -> None:
        with self.api.changed:
            items = list(self.api.objects.get(request.path, {}).values())
            version = self.api.version
        start = int(request.query.get("continue", "0"))
        limit = int(request.query.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        page = {"metadata": metadata, "items": items[start : start + limit]}
        self._whole(200, json.dumps(page).encode(), {})

    def _open(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _watch(self, request: Request) -> None:
        self._open()
        since = int(request.query["resourceVersion"])
        if since < self.api.compacted:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}
            self._chunk({"type": "ERROR", "object": gone})
            self._end()
            return
        self._follow(request.path, since)

    def _follow(self, path: str, since: int) -> None:
        with self.api.changed:
            round_ = self.api.watch_round
            self.api.open_watches += 1
            self.api.changed.notify_all()
        try:
            self._tell(path, since, round_)
        finally:
            with self.api.changed:
                self.api.open_watches -= 1

    def _tell(self, path: str, since: int, round_: int) -> None:
        def over() -> bool:
            return self.api.closing or self.api.watch_round != round_

        def due() -> list[tuple[int, dict[str, Any]]]:
            return [event for event in self.api.history.get(path, []) if event[0] > since]

        while True:
            with self.api.changed:
                self.api.changed.wait_for(lambda: over() or due())
                events, last = due(), over()
                reset = self.api.reset_round and not self.api.closing
            for at, event in events:
                self._chunk(event)
                since = at
            if last:
                self._break(Fault(reset=reset))
                return

    def _chunk(self, event: dict[str, Any]) -> None:
        self._bytes(json.dumps(event).encode() + b"\n")

    def _bytes(self, line: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _break(self, fault: Fault) -> None:
        if fault.stall:
            with self.api.changed:
                self.api.changed.wait_for(lambda: self.api.closing)
        elif fault.reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
            return
        else:
            self._end()
        self.close_connection = True
