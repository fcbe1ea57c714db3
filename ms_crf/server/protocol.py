"""HTTP/1.1 by uvicorn, with bounds on what a client may send before it is heard, and on the time that it takes.

uvicorn waits for ever for the rest of a head or a body, takes heads of any size, and keeps an answer for ever that
nobody reads.
"""

import asyncio
import json
from collections import deque
from typing import Any

from ms_crf.server.limits import MEGABYTE, TARGET, Limits

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD = 32 << 10                        # bytes of a request's first line and headers
LINGER = 1                             # seconds in which a client that is refused may still read why
_PAUSE = .5                            # seconds between two looks at all connections


class Protocol(HttpToolsProtocol):
    """A connection; `of_limits` gives the class of those under some limits."""

    most = 1 << 30                               # bytes of a request, with all that is around its body

    @classmethod
    def of_limits(cls, limits: Limits) -> 'type[Protocol]':
        # A body in chunks of one byte is six times as long; whoever sends more has been refused by its size.
        return type('Connection', (cls,), {'most': HEAD + 8 * max(limits.max_body, MEGABYTE)})

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.since = self.loop.time()            # when the request began that is being read
        self.reading = True                      # a request has begun to arrive
        self.in_head, self.head = True, 0        # what comes next is of a head, and the bytes of that head so far
        self.body, self.received = 0, 0          # bytes that the body still has, and bytes of the request so far
        self.tail = b''                          # the last two bytes
        self.unread, self.unread_since = 0, 0.0
        self.refusal: Any = None                 # status and message for the request that arrives
        self.refused: float | None = None        # when they were sent
        self.running: Any = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True     # uvicorn tells it to the last request only
            self.running.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.running = cycle                     # others wait behind it
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        """Parses data in pieces: no piece has bytes of a head and of what follows it, so that heads can be measured."""
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
            elif self.received > self.most:
                self._refuse(413, f'expected a request of at most {self.most:,} bytes, got more')

    def _end_of_piece(self, data: bytes, begin: int, start: int) -> int:
        """The end of the piece that begins somewhere: at the latest where a head or a body ends.

        A head ends with an empty line, and so does a body in chunks. Of other bodies the length is known. It does no
        harm that other empty lines end a piece, too.

        Args:
            data: bytes that have arrived.
            begin: where the piece begins.
            start: where a line end may begin whose empty line ends in the piece.
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
        self._refuse(400, 'expected a request of HTTP/1.1, got something else')

    def _refuse(self, status: int, message: str) -> None:
        """Refuses the request that arrives, once the requests before it are answered. Later data is not parsed."""
        self.refusal = status, message
        faulty = None if self.in_head else self.cycle
        if faulty is not None and not faulty.response_complete:
            faulty.disconnected = True           # the application has nobody to answer any more
            faulty.message_event.set()
        self.pipeline: deque[Any] = deque(waiting for waiting in self.pipeline if waiting[0] is not faulty)
        if self.running is None or self.running.response_complete or self.running is faulty:
            self._give_up()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.refusal and self.refused is None and self.running.response_complete:
            self._give_up()

    def _give_up(self) -> None:
        """Sends the refusal.

        The connection is closed a little later: what still comes, and is not read, would have the answer thrown away on
        its way.
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
        """Closes the connection if its client takes longer than so many seconds for a request or an answer."""
        if self.flow.read_paused:                # it is the server that takes its time
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
    """Looks after all connections, until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_PAUSE)
        for connection in list(connections):
            connection.check(loop.time(), limits.slow)
