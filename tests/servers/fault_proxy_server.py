"""The process of the fault proxy, which forwards HTTP/1.1 and injects faults.

Owns: the wire (keep-alive, chunks, `Expect: 100-continue`), the faults, the log. `fault_proxy.py` starts it with its
settings as JSON. It takes commands as JSON lines on stdin, and answers each with one line on stdout.
Every request gets its own connection to the server, because a reused connection that was cut would be an unplanned fault.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import time
from collections import Counter
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

LIMIT = 1 << 20
NO_BODY = (204, 304)


class Message(NamedTuple):
    """The head and body of a request or an answer, as sent; the names in `headers` are in lower case."""

    first_line: str
    headers: list[tuple[str, str]]
    body: bytes


def header(headers: list[tuple[str, str]], name: str) -> str:
    """The value of a header, or ""."""
    return next((value for key, value in headers if key == name), "")


async def read_head(reader: asyncio.StreamReader) -> tuple[str, list[tuple[str, str]]] | None:
    """The first line and the headers; None if the peer closed the connection."""
    try:
        block = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first_line, *lines = block[:-4].decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first_line, [(name.strip().lower(), value.strip()) for name, _, value in pairs]


async def read_body(reader: asyncio.StreamReader, headers: list[tuple[str, str]], *, to_end: bool) -> bytes:
    """The body without chunk framing. With `to_end` (answers only), a body without a length ends when the peer closes."""
    if "chunked" in header(headers, "transfer-encoding").lower():
        parts = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return b"".join(parts)
    length = header(headers, "content-length")
    if length:
        return await reader.readexactly(int(length))
    return await reader.read() if to_end else b""


def wire(message: Message, *, drop: tuple[str, ...], add: tuple[tuple[str, str], ...]) -> bytes:
    """The bytes of a message, without the headers named in `drop` and with those in `add`."""
    kept = [(name, value) for name, value in message.headers if name not in drop]
    lines = [message.first_line, *(f"{name}: {value}" for name, value in [*kept, *add])]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + message.body


BUSY = {"s3": (503, "SlowDown"), "gcs": (503, "backendError"), "azure": (503, "ServerBusy")}
BUSY_AS_429 = {"s3": "TooManyRequests", "gcs": "rateLimitExceeded", "azure": "TooManyRequests"}
STRANGER = {"s3": (400, "ExpiredToken"), "gcs": (401, "authError"), "azure": (403, "AuthenticationFailed")}
CONFLICT = {"s3": (409, "ConditionalRequestConflict"), "gcs": (409, "conflict"), "azure": (409, "PendingCopyOperation")}


def refusal(
    dialect: str, status: int, code: str, said: str = "", headers: dict[str, str] | None = None, with_body: bool = True
) -> bytes:
    """An error answer in the format of a store. One to a HEAD has no body."""
    said = said or code
    told = dict(headers or {})
    if dialect == "gcs":
        reasons = [{"domain": "global", "reason": code, "message": said}]
        body = json.dumps({"error": {"code": status, "message": said, "errors": reasons}}).encode()
        told["content-type"] = "application/json"
    else:
        xml = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{said}</Message></Error>"
        body = xml.encode() if code else b""
        told["content-type"] = "application/xml"
        if dialect == "azure" and code:
            told["x-ms-error-code"] = code
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}content-length: {len(body)}\r\n\r\n"
    return head.encode() + (body if with_body else b"")


def grant(token: str) -> bytes:
    """What Google's server of tokens answers to a service account."""
    body = json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 3600}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def is_write(method: str, path: str) -> bool:
    """Whether a request writes an object: a PUT, or the POST of an upload to GCS."""
    return method == "PUT" or (method == "POST" and path.startswith("/upload/"))


def object_path(path: str, query: str) -> str:
    """The path of the object of a request; for uploads to GCS, the query contains its name."""
    names = parse_qs(query).get("name") if path.startswith("/upload/") else None
    return f"{path}/{names[0]}" if names else path


def without_conditions(first_line: str) -> str:
    """The request line without GCS's condition."""
    return re.sub(r"([?&])ifGenerationMatch=\d+&?", r"\1", first_line).replace("& ", " ").replace("? ", " ")


class Proxy:
    """Settings, planned faults and the log; one `serve` per client connection."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.plans: list[dict[str, Any]] = []
        self.log: list[dict[str, Any]] = []
        self.seen: Counter[tuple[str, str]] = Counter()
        self.written_s: dict[str, float] = {}
        self.late: set[asyncio.Task[Message]] = set()

    def command(self, message: dict[str, Any]) -> Any:
        """Execute a command of the parent and return the answer."""
        match message.pop("do"):
            case "requests":
                return self.log
            case "clear":
                self.log = []
            case "set":
                self.settings.update(message["settings"])
            case "plan":
                self.plans.append(message)
        return None

    def fault_for(self, method: str, path: str) -> tuple[str, dict[str, Any]]:
        """The fault of this request ("" for none) and the plan that contains it."""
        for plan in self.plans:
            if plan["method"] != method and not (plan["method"] == "WRITE" and is_write(method, path)):
                continue
            if not re.search(plan["path"], path) or plan["times"] == 0:
                continue
            if plan["skip"]:
                plan["skip"] -= 1
                continue
            plan["times"] -= 1
            return plan["fault"], plan
        self.seen[method, path] += 1
        if (storms := self.settings["storms"]) is not None:
            seconds, every, status = storms
            if time.monotonic() % every < seconds:
                return "storm", {"status": status}
        if self.settings["rest_s"] and (is_write(method, path) or method == "DELETE"):
            name, now_s = path.rpartition("/o/")[2], time.monotonic()
            if now_s - self.written_s.get(name, 0.0) < self.settings["rest_s"]:
                return "too_soon", {}
            self.written_s[name] = now_s
        if not is_write(method, path):
            return "", {}
        text = f"{self.settings['seed']}|{method}|{path}|{self.seen[method, path]}"
        dice = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big") / 2**56
        if dice < self.settings["drop_put_answers"]:
            return "drop_answer", {}
        if dice < self.settings["drop_put_answers"] + self.settings["throttle_puts"]:
            return "throttle", {}
        return "", {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one client connection until one side closes it or a fault cuts it."""
        try:
            while head := await read_head(reader):
                if not await self.answer(reader, writer, *head):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client closed the connection; its requests are in the log
        finally:
            writer.transport.abort()

    async def answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        first_line: str,
        headers: list[tuple[str, str]],
    ) -> bool:
        """Handle one request; returns whether the connection can carry another."""
        method, target, _ = first_line.split(" ", 2)
        parts = urlsplit(target)
        entry: dict[str, Any] = {
            "method": method,
            "path": object_path(unquote(parts.path), parts.query),
            "query": parts.query,
            "start_s": time.monotonic(),
            "end_s": None,
            "status": 0,
            "upstream_status": 0,
            "conditional": bool(header(headers, "if-none-match") or header(headers, "if-match"))
            or "ifGenerationMatch=" in parts.query,
            "fault": "",
            "sent_bytes": 0,
            "received_bytes": 0,
        }
        self.log.append(entry)
        entry["fault"], plan = self.fault_for(method, entry["path"])
        if header(headers, "expect").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request = Message(first_line, headers, await read_body(reader, headers, to_end=False))
        entry["sent_bytes"] = len(request.body)
        half_s = self.settings["latency_ms"] / 2000
        if half_s:
            await asyncio.sleep(half_s)
        out = await self.outcome(request, entry, plan)
        if half_s:
            await asyncio.sleep(half_s)
        if out is not None:
            entry["status"] = int(out.split(b" ", 2)[1])
        entry["end_s"] = (
            time.monotonic()
        )  # before the last byte leaves, so that the log has the answer before the client
        if out is None:
            return False
        writer.write(out)
        await writer.drain()
        if entry["fault"] == "cut_answer":
            return False
        return header(headers, "connection").lower() != "close"

    async def outcome(self, request: Message, entry: dict[str, Any], plan: dict[str, Any]) -> bytes | None:
        """The bytes for the client; None means that the connection is cut."""
        dialect, with_body = self.settings["dialect"], entry["method"] != "HEAD"
        if self.settings["answer"] is not None:
            status, code, said, headers = self.settings["answer"]
            return refusal(dialect, status, code, said, headers, with_body=with_body)
        if (known := self.settings["tokens"]) is not None:
            asks = entry["path"].removeprefix("/token/")
            if asks in known:
                return grant(asks)
            shown = unquote(request.first_line) + "".join(value for _, value in request.headers)
            if not any(token in shown for token in known):
                entry["fault"] = "stranger"
                return refusal(dialect, *STRANGER[dialect], with_body=with_body)
        match entry["fault"]:
            case "drop_request":
                return None
            case "storm":
                code = BUSY[dialect][1] if plan["status"] == 503 else BUSY_AS_429[dialect]
                return refusal(dialect, plan["status"], code, with_body=with_body)
            case "too_soon":
                said = "The object exceeded the rate limit for object mutation operations (create, update, and delete)."
                return refusal(dialect, 429, BUSY_AS_429[dialect], said, with_body=with_body)
            case "throttle":
                return refusal(dialect, *BUSY[dialect], with_body=with_body)
            case "conflict":
                return refusal(dialect, *CONFLICT[dialect], with_body=with_body)
            case "refuse":
                return refusal(dialect, plan["status"], plan["code"], with_body=with_body)
            case "land_late":
                task = asyncio.create_task(self.forward(request, entry, plan["delay_ms"] / 1000))
                self.late.add(task)
                task.add_done_callback(self.late.discard)
                return None
            case "hang":
                await self.forward(request, entry, plan["delay_ms"] / 1000)
                await asyncio.Event().wait()
        try:
            answer = await self.forward(request, entry)
        except (ConnectionError, asyncio.IncompleteReadError):
            return None  # the server is gone; the client sees the same as without the proxy
        if entry["fault"] == "drop_answer":
            return None
        if entry["fault"] == "throttle_after":
            return refusal(dialect, *BUSY[dialect])
        if entry["fault"] == "cut_answer":
            return wire(
                answer, drop=("connection", "content-length"), add=(("content-length", str(len(answer.body) + 1)),)
            )
        has_body = entry["method"] != "HEAD" and entry["upstream_status"] not in NO_BODY
        length = (("content-length", str(len(answer.body))),) if has_body else ()
        drop = ("connection", "keep-alive", "transfer-encoding", *(("content-length",) if has_body else ()))
        return wire(answer, drop=drop, add=length)

    async def forward(self, request: Message, entry: dict[str, Any], delay_s: float = 0.0) -> Message:
        """Send the request to the server after `delay_s`."""
        await asyncio.sleep(delay_s)
        upstream = urlsplit(self.settings["upstream"])
        reader, writer = await asyncio.open_connection(upstream.hostname, upstream.port or 80, limit=LIMIT)
        try:
            drop = ["connection", "expect", "transfer-encoding", "content-length"]
            if self.settings["strip_conditions"]:
                drop += ["if-none-match", "if-match"]
                request = request._replace(first_line=without_conditions(request.first_line))
            # An empty body without the header, as in a GET, gets no header.
            sized = request.body or header(request.headers, "content-length")
            length = (("content-length", str(len(request.body))),) if sized else ()
            writer.write(wire(request, drop=tuple(drop), add=(*length, ("connection", "close"))))
            await writer.drain()
            while True:
                head = await read_head(reader)
                if head is None:
                    raise ConnectionResetError("the server closed without an answer")
                status = int(head[0].split(" ", 2)[1])
                if status >= 200:  # interim answers do not count
                    break
            entry["upstream_status"] = status
            if entry["method"] == "HEAD" or status in NO_BODY:
                return Message(*head, b"")
            answer = Message(*head, await read_body(reader, head[1], to_end=True))
            entry["received_bytes"] = len(answer.body)
            return answer
        finally:
            writer.close()


async def main(settings: dict[str, Any]) -> None:
    """Serve until stdin ends."""
    proxy = Proxy(settings)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=LIMIT, backlog=1024)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    commands = asyncio.StreamReader(limit=LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        print(json.dumps(proxy.command(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
