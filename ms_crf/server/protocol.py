"""HTTP/1.1 connections of uvicorn, with limits on the size of requests and on the time of slow clients.

uvicorn alone waits forever for the rest of a head or a body, accepts heads of any size, and keeps an answer that its
client does not read.
"""

import asyncio
import json
from collections import deque
from typing import Any

from ms_crf.server.limits import MEGABYTE, TARGET, Limits

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD = 32 << 10                        # most bytes of the request line and the headers
LINGER = 1                             # seconds until the connection of a refused request is closed
_PAUSE = .5                            # seconds between checks of all connections


class Protocol(HttpToolsProtocol):
    """A connection. `Protocol.of_limits` returns a subclass with the limits of a server."""

    max_bytes = 1 << 30                          # most bytes of a request, including head and chunk sizes

    @classmethod
    def of_limits(cls, limits: Limits) -> 'type[Protocol]':
        """Returns the class of connections for a server with these limits."""
        # Chunks of one byte make a body six times as long. The application refuses larger bodies by their real size.
        return type('Connection', (cls,), {'max_bytes': HEAD + 8 * max(limits.max_body, MEGABYTE)})

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.since = self.loop.time()            # time when the current request began to arrive
        self.reading = True                      # whether a request is arriving
        self.in_head, self.head = True, 0        # whether the next byte belongs to a head; bytes of the head so far
        self.body, self.received = 0, 0          # missing bytes of the body; bytes of the request so far
        self.tail = b''                          # the last two bytes that arrived
        self.unread, self.unread_since = 0, 0.0  # bytes that the client has not read; time when their number changed
        self.refusal: Any = None                 # status and message of the error for the current request
        self.refused: float | None = None        # time when the error was sent
        self.running: Any = None                 # the request that the application is answering

    def connection_lost(self, exc: Exception | None) -> None:
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True     # uvicorn informs only the last request
            self.running.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.running = cycle                     # later requests of the connection wait
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        """Parses data in pieces. A piece never goes beyond the end of a head, so that the size of heads is known."""
        data, begin, start = self.tail + data, len(self.tail), 0
        self.tail = data[-2:]
        while begin < len(data) and self.refusal is None and not self.transport.is_closing():
            if not self.reading:
                self.reading, self.since = True, self.loop.time()
            piece = data[begin:self._end_of_piece(data, begin, start)]
            begin += len(piece)
            start = begin
            self.received += len(piece)
            if self.in_head:
                self.head += len(piece)
            else:
                self.body = max(0, self.body - len(piece))
            super().data_received(piece)
            if self.refusal is not None or self.transport.is_closing():
                return
            if self.head >= HEAD and self.in_head:
                self._refuse(431, f'expected headers of at most {HEAD:,} bytes, got more')
            elif self.received > self.max_bytes:
                self._refuse(413, f'expected a request of at most {self.max_bytes:,} bytes, got more')

    def _end_of_piece(self, data: bytes, begin: int, start: int) -> int:
        """Returns the offset where the piece that starts at `begin` ends, at the latest the end of a head or body.

        Heads and chunked bodies end with an empty line. The length of other bodies is known. Other empty lines also end
        a piece, which is harmless.

        Args:
            data: bytes that have arrived.
            begin: offset of the piece.
            start: offset from which to search for the empty line. Its first byte may come before the piece.
        """
        if self.body:
            return begin + self.body
        line = data.find(b'\n\r\n', start)
        end = len(data) if line < 0 else line + 3
        return min(end, begin + HEAD - self.head) if self.in_head else end

    def on_headers_complete(self) -> None:
        self.body = next((int(value) for name, value in self.headers if name == b'content-length'), 0)
        self.scope[TARGET] = self.url
        super().on_headers_complete()            # raises an error if the target is invalid
        self.in_head = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.reading = False
        self.in_head, self.head, self.body, self.received = True, 0, 0, 0

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, 'expected a request in HTTP/1.1, got other data')

    def _refuse(self, status: int, message: str) -> None:
        """Refuses the current request when all earlier requests are answered. Later data is not parsed."""
        self.refusal = status, message
        faulty = None if self.in_head else self.cycle
        if faulty is not None and not faulty.response_complete:
            faulty.disconnected = True           # stops the application
            faulty.message_event.set()
        self.pipeline: deque[Any] = deque(waiting for waiting in self.pipeline if waiting[0] is not faulty)
        if self.running is None or self.running.response_complete or self.running is faulty:
            self._give_up()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.refusal and self.refused is None and self.running.response_complete:
            self._give_up()

    def _give_up(self) -> None:
        """Sends the error answer.

        The connection is closed `LINGER` seconds later. If it were closed while data arrives, the system could discard
        the answer before the client has read it.
        """
        self.refused = self.loop.time()
        if self.transport.is_closing():
            return
        if self.in_head or not self.cycle.response_started:
            status, message = self.refusal
            body = json.dumps({'error': message}).encode()
            head = f'content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n'
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.flow.resume_reading()
        self.transport.write_eof()

    def check(self, now: float, seconds: float) -> None:
        """Closes the connection if the client needs more than `seconds` to send a request or to read an answer."""
        if self.flow.read_paused:                # the server is slow, not the client
            self.since = now
        unread = self.transport.get_write_buffer_size()
        if unread != self.unread or not unread:
            self.unread, self.unread_since = unread, now
        elif now - self.unread_since > seconds:
            self.transport.abort()
        if self.refused is not None:
            if now - self.refused > LINGER:
                self.transport.abort()
        elif self.refusal is None and not self.transport.is_closing() and self.reading and now - self.since > seconds:
            self.reading = False
            self._refuse(408, f'expected a whole request within {seconds:g} seconds')


async def watch(connections: set[Protocol], limits: Limits) -> None:
    """Checks all connections regularly, until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_PAUSE)
        for connection in list(connections):
            connection.check(loop.time(), limits.slow)
