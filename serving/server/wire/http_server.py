"""A small HTTP/1.1 server on asyncio and h11, with limits on time, size and connections.

Knows nothing about what it serves. Connections that are slow to send a request or to read the answer are
closed, and use no thread until then.
"""

from __future__ import annotations

import asyncio
import dataclasses
import http
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping

import h11

from serving.server.requests.limits import Limits
from xtr_tf.errors import InputError

_MAX_CONNECTIONS = 1024
_MAX_HEADER_BYTES = 16 << 10
_CHUNK_BYTES = 64 << 10
_IDLE_SECONDS = 60.0
_HEADER_SECONDS = 10.0
_BODY_SECONDS = 30.0
_WRITE_SECONDS = 30.0
_GZIP = 16 + zlib.MAX_WBITS  # tells zlib to expect gzip's header and checksum


@dataclasses.dataclass(frozen=True)
class HttpRequest:
    """A complete request.

    Attributes:
        method: The method. HEAD is reported as GET.
        path: The path with its query string.
        headers: Headers by name in lower case.
        body: The body, decompressed.
        peer: `host:port` of the client.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    peer: str


@dataclasses.dataclass(frozen=True)
class HttpResponse:
    """An answer.

    Attributes:
        body: The body.
        status: The HTTP status.
        content_type: The `content-type` header.
        headers: Further headers.
    """

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]


class _BadRequestError(Exception):
    """The bytes received are not a request that can be served."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Budget:
    """Counts the bytes of bodies that all connections are receiving."""

    def __init__(self, max_body_bytes: int, max_total_bytes: int) -> None:
        self.max_body_bytes = max_body_bytes
        self._max_total = max_total_bytes
        self._held = 0

    def check(self, size: int) -> None:
        """Refuses a body that is too large."""
        if size > self.max_body_bytes:
            raise _BadRequestError(
                413, f"A body may have at most {self.max_body_bytes} bytes on this server."
            )

    def take(self, size: int) -> None:
        """Counts bytes that have arrived, or refuses them if there are too many."""
        if self._held + size > self._max_total:
            raise _BadRequestError(503, "The server is receiving too much at once; try again later.")
        self._held += size

    def give_back(self, size: int) -> None:
        """Stops counting bytes."""
        self._held -= size


class HttpServer:
    """Serves a handler over HTTP or HTTPS.

    Args:
        handler: Answers requests. Must not raise.
        render_error: Returns the body of errors that occur before the handler is called.
        limits: Limits of bodies. A body that is too large gets 413 without being read. If all bodies
            together are too large, some get 503.
        context: TLS context, or None for plain text.
    """

    def __init__(
        self,
        handler: Handler,
        render_error: Callable[[str], bytes],
        limits: Limits,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._handler = handler
        self._render_error = render_error
        self._budget = _Budget(limits.max_message_bytes, limits.max_total_bytes)
        self._context = context
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self, host: str, port: int) -> int:
        """Opens the port.

        Args:
            host: Address to bind.
            port: Port to open. 0 chooses a free one.

        Returns:
            The port.

        Raises:
            InputError: The port cannot be opened.
        """
        try:
            self._server = await asyncio.start_server(
                self._serve,
                host,
                port,
                ssl=self._context,
                ssl_handshake_timeout=_HEADER_SECONDS if self._context else None,
                limit=_CHUNK_BYTES,
            )
        except OSError as error:
            raise InputError(
                f"The REST port cannot be opened ({error.strerror}); choose another. Received: {host}:{port}."
            ) from None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, grace_seconds: float) -> None:
        """Refuses new connections, closes idle ones and waits up to `grace_seconds` for the others."""
        if self._server is None:
            return
        self._server.close()
        for connection in self._connections:
            connection.end_when_idle()
        deadline = asyncio.get_running_loop().time() + grace_seconds
        while self._connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer, self._handler, self._render_error, self._budget)
        self._connections.add(connection)
        try:
            await connection.serve(too_many=len(self._connections) > _MAX_CONNECTIONS)
        finally:
            self._connections.discard(connection)


class _Connection:
    """The connection of a client, which may send several requests in sequence."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handler: Handler,
        render_error: Callable[[str], bytes],
        budget: _Budget,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._render_error = render_error
        self._budget = budget
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEADER_BYTES)
        address = writer.get_extra_info("peername")
        self._peer = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else ""
        self._is_head = False
        self._busy = False
        self._ending = False

    def end_when_idle(self) -> None:
        """Closes the connection as soon as no request is being served on it."""
        self._ending = True
        if not self._busy:
            self.abort()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._writer.transport.abort()

    async def serve(self, too_many: bool) -> None:
        """Serves requests until either side is done."""
        try:
            if too_many:
                await self._send_error(_BadRequestError(503, "The server has too many connections."))
                return
            while await self._serve_one():
                self._http.start_next_cycle()
        except _BadRequestError as error:
            await self._send_error(error)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, h11.LocalProtocolError):
            pass  # the client has left or is too slow, so nobody would read an error
        finally:
            self._writer.close()

    async def _serve_one(self) -> bool:
        """Serves one request. Returns whether another may follow on this connection."""
        request = await self._read_request()
        if request is None:
            return False
        self._busy = True
        try:
            response = await self._handler(request)
            await self._send(response)
        finally:
            self._busy = False
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        return done and not self._ending

    async def _read_request(self) -> HttpRequest | None:
        event = await self._next_event(_IDLE_SECONDS, _HEADER_SECONDS)
        if not isinstance(event, h11.Request):
            return None
        self._is_head = event.method == b"HEAD"
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        declared = headers.get("content-length", "")
        if declared.isdigit():
            self._budget.check(int(declared))
        if self._http.they_are_waiting_for_100_continue:
            await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        self._busy = True
        try:
            body = await asyncio.wait_for(self._read_body(), _BODY_SECONDS)
        except asyncio.TimeoutError:
            raise _BadRequestError(408, "The request did not arrive in time.") from None
        body = self._unpacked(body, headers.get("content-encoding", ""))
        method = "GET" if self._is_head else event.method.decode("ascii")
        return HttpRequest(method, event.target.decode("latin-1"), headers, body, self._peer)

    def _unpacked(self, body: bytes, encoding: str) -> bytes:
        if encoding in ("", "identity"):
            return body
        if encoding not in ("gzip", "x-gzip"):
            raise _BadRequestError(415, f"A body may only be compressed with gzip. Received: {encoding:.40}.")
        unpacking = zlib.decompressobj(_GZIP)
        try:
            unpacked = unpacking.decompress(body, self._budget.max_body_bytes + 1)
        except zlib.error:
            raise _BadRequestError(400, "The body is not compressed with gzip.") from None
        self._budget.check(len(unpacked))
        if not unpacking.eof or unpacking.unused_data:
            raise _BadRequestError(400, "The body is not compressed with gzip.")
        return unpacked

    async def _read_body(self) -> bytes:
        body = bytearray()
        try:
            while True:
                event = await self._next_event(_BODY_SECONDS, _BODY_SECONDS)
                if isinstance(event, h11.EndOfMessage):
                    return bytes(body)
                if not isinstance(event, h11.Data):
                    raise ConnectionResetError
                self._budget.check(len(body) + len(event.data))
                self._budget.take(len(event.data))
                body += event.data
        finally:
            # From now on the bytes are counted as part of the request.
            self._budget.give_back(len(body))

    async def _next_event(self, first_seconds: float, total_seconds: float) -> object:
        """Reads until h11 has an event. The first byte may take longer than the rest."""
        loop = asyncio.get_running_loop()
        patience, deadline = first_seconds, None
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise _BadRequestError(error.error_status_hint, f"Malformed HTTP: {error}.") from None
            if event is not h11.NEED_DATA:
                return event
            data = await asyncio.wait_for(self._reader.read(_CHUNK_BYTES), patience)
            deadline = deadline or loop.time() + total_seconds
            patience = max(0.0, deadline - loop.time())
            self._http.receive_data(data)

    async def _send(self, response: HttpResponse) -> None:
        headers = [
            ("content-type", response.content_type),
            ("content-length", str(len(response.body))),
            *response.headers,
        ]
        if self._ending:
            headers.append(("connection", "close"))
        status = response.status
        reason = http.HTTPStatus(status).phrase if status in http.HTTPStatus._value2member_map_ else ""
        head = self._http.send(h11.Response(status_code=status, headers=headers, reason=reason))
        body = b"" if self._is_head else response.body
        await self._write(head + self._http.send(h11.Data(data=body)) + self._http.send(h11.EndOfMessage()))

    async def _send_error(self, error: _BadRequestError) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        response = HttpResponse(
            self._render_error(str(error)), error.status, headers=(("connection", "close"),)
        )
        try:
            await self._send(response)
        except (OSError, asyncio.TimeoutError, h11.LocalProtocolError):
            return

    async def _write(self, data: bytes | None) -> None:
        self._writer.write(data or b"")
        await asyncio.wait_for(self._writer.drain(), _WRITE_SECONDS)
