"""The routes: requests to tag, what is said of the model and of the server, the page."""

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from typing import Any

from ms_crf.base.environment import VERSION
from ms_crf.base.errors import one_line
from ms_crf.formats.registry import HTML, JSON
from ms_crf.server.limits import Limits, Refused, check_host
from ms_crf.server.metrics import TYPE, Metrics
from ms_crf.server.model import Model, page
from ms_crf.server.reading import Asked, asked, wanted
from ms_crf.server.schema import RAW, Error, Status, document, request_types
from ms_crf.server.schema import Model as ModelAnswer
from ms_crf.server.splitters import Splitters

from msgspec import Struct, to_builtins
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEFT = 499                             # the status in the metrics of requests whose clients left
_HEADERS = [(b'x-content-type-options', b'nosniff'), (b'referrer-policy', b'no-referrer'),
            (b'cache-control', b'no-store'), (b'cross-origin-resource-policy', b'same-origin')]
_POLICY = (b'content-security-policy', b"default-src 'none'; frame-ancestors 'none'")


@dataclass
class Service:
    """What routes share: the model that serves at the moment, and the arguments of the server."""

    name: str                                    # of the run, as it is shown
    limits: Limits
    say: Callable[[str], None]                   # shows a line
    token: bytes | None = None                   # without it all are answered
    any_host: bool = False                       # whether requests may name other hosts than the loopback
    origins: Sequence[str] | None = None         # of pages elsewhere whose scripts may ask
    model: Model | None = None                   # None while the first one is loaded
    connections: set[Any] = field(default_factory=set)
    metrics: Metrics = field(default_factory=Metrics)
    reload: Callable[[], Awaitable[None]] | None = None      # loads the model again; raises Refused if that fails

    def __post_init__(self) -> None:
        self.splitters = Splitters(self.limits)
        self.processes: dict[str, int] = {}
        self.requests = request_types(self.limits)

    def ready(self) -> Model:
        """The model; raises Refused while there is none."""
        if self.model is None:
            raise Refused(503, 'expected a model that is loaded, got one that is being loaded; try again', 2)
        return self.model

    def check_token(self, request: Request) -> None:
        """Raises Refused unless the request has the token, if there is one; how long that takes says nothing of it."""
        if self.token is None:
            return
        kind, _, given = request.headers.get('authorization', '').partition(' ')
        if not hmac.compare_digest(given.strip().encode('latin-1'), self.token) or kind.lower() != 'bearer':
            raise Refused(401, 'expected the header "Authorization: Bearer TOKEN" with the token of this server, got '
                               f'{"another one" if given else "none"}')


def application(service: Service) -> ASGIApp:
    """What uvicorn runs: checks hosts, adds headers to all answers and counts them; what fails is one line."""
    table = (('/v1/tag', 'POST', _tag), ('/v1/model', 'GET', _model), ('/v1/reload', 'POST', _reload),
             ('/healthz', 'GET', _healthz), ('/readyz', 'GET', _readyz), ('/metrics', 'GET', _metrics),
             ('/openapi.json', 'GET', _openapi), ('/', 'GET', _page))
    routes = [Route(path, partial(answer, service), methods=[method]) for path, method, answer in table]
    middleware = []
    if service.origins:
        middleware.append(Middleware(CORSMiddleware, allow_origins=service.origins, allow_methods=['GET', 'POST'],
                                     allow_headers=['Authorization', 'Content-Type']))
    app = Starlette(routes=routes, middleware=middleware,
                    exception_handlers={Refused: _refused, HTTPException: _no_route, ClientDisconnect: _left,
                                        Exception: _fault})
    app.router.redirect_slashes = False

    async def outermost(scope: Scope, receive: Receive, send: Send) -> None:
        began, status, path = time.perf_counter(), 0, scope['path']

        async def answer(message: Message) -> None:
            nonlocal status
            if message['type'] == 'http.response.start':
                status, headers = message['status'], list(message['headers'])
                has_policy = any(name == _POLICY[0] for name, _ in headers)
                message['headers'] = headers + _HEADERS + ([] if has_policy else [_POLICY])
            await send(message)

        try:
            if not service.any_host:
                check_host(scope)
            await app(scope, receive, answer)
        except Refused as error:                 # the host
            await _refused(None, error)(scope, receive, answer)
        except Exception as error:               # it has been answered by `_fault`
            service.say(one_line(f'{scope["method"]} {path}: {type(error).__name__}: {error}'))
        if status:
            service.metrics.request(path if path in (route.path for route in routes) else '', status,
                                    time.perf_counter() - began)

    return outermost


def _json(value: Struct | dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    data = json.dumps(to_builtins(value), ensure_ascii=False).encode('utf-8', 'backslashreplace')
    return Response(data, status, headers, 'application/json')


def _refused(_: Request | None, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {} if error.retry is None else {'Retry-After': str(error.retry)}
    if error.close:
        headers['Connection'] = 'close'
    if error.status == 401:
        headers['WWW-Authenticate'] = 'Bearer'
    return _json(Error(one_line(error.message)), error.status, headers)


def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get('Allow')
    message = (f'expected the method {allowed}, got {request.method}' if allowed else
               'expected one of the paths of /openapi.json, got another one' if error.status_code == 404 else
               str(error.detail))
    return _json(Error(one_line(message)), error.status_code, dict(error.headers or {}))


def _left(_: Request, __: Exception) -> Response:
    """Is counted, but not sent: the client has closed the connection."""
    return Response(status_code=LEFT)


async def _fault(_: Request, __: Exception) -> Response:
    return _json(Error('the server has failed; its log has a line about it'), 500)


async def _body(request: Request, limits: Limits) -> bytes:
    """All of a body; raises Refused if it is too large, or no JSON by its own account."""
    kind = request.headers.get('content-type', '').partition(';')[0].strip().lower()
    if kind != 'application/json':
        raise Refused(415, f'expected the header "Content-Type: application/json", got {kind or "none"!r:.60}')
    encoding = request.headers.get('content-encoding', 'identity').strip().lower()
    if encoding != 'identity':
        raise Refused(415, f'expected a body without Content-Encoding, got {encoding!r:.60}')
    body, too_large = bytearray(), int(request.headers.get('content-length', 0)) > limits.max_body
    if not too_large:
        async for part in request.stream():
            body += part
            if too_large := len(body) > limits.max_body:
                break
    if too_large:
        raise Refused(413, f'expected a body of at most {limits.max_body:,} bytes, got more; send less at a time')
    return bytes(body)


async def _tag(service: Service, request: Request) -> Response:
    service.check_token(request)
    accepted = request.headers.get('accept', '')
    kind = HTML if 'text/html' in accepted and 'application/json' not in accepted else JSON
    service.ready()
    if len(service.connections) > service.limits.connections:
        raise Refused(503, 'expected fewer connections, got too many; try again', 1, True)
    question = asked(await _body(request, service.limits), service.requests)
    model = service.ready()
    with model.used():
        model.check(question.confidence, question.nbest)
        body = await _waited_for(request, service.limits.timeout, _tagged(service, model, question, kind))
    media_type = 'application/json' if kind == JSON else 'text/html; charset=utf-8'
    return Response(body, headers={'MS-CRF-Model': model.mark, 'Vary': 'Accept'}, media_type=media_type)


async def _waited_for(request: Request, seconds: float, work: Coroutine[Any, Any, bytes]) -> bytes:
    """The result of some work, which is cancelled when it takes longer than so many seconds or the client leaves."""
    tasks = working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_departure(request))
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            raise ClientDisconnect
        raise Refused(503, f'expected a request that is answered within {seconds:g} seconds, got one that takes '
                           'longer; send less at a time, or try again', 5)
    except asyncio.CancelledError:
        raise Refused(503, 'expected a request that is answered before the server ends, got one that takes longer',
                      None, True) from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _departure(request: Request) -> None:
    """Waits until the client closes the connection."""
    while (await request.receive())['type'] != 'http.disconnect':
        pass


async def _tagged(service: Service, model: Model, question: Asked, kind: str) -> bytes:
    """The body of the answer to a request."""
    if question.kind in RAW:
        found = await service.splitters.split(question, model.splitter(question.splitter), model.about.splitter)
    else:
        found = wanted(question, None, service.limits)
    results = await model.tag(found, kind)
    if kind == HTML:
        body = '\n'.join(results)
    else:
        rest = iter(results)
        sizes = [len(results)] if found.sizes is None else found.sizes
        texts = [f'{{"sentences": [{", ".join(islice(rest, size))}]}}' for size in sizes]
        body = texts[0] if found.sizes is None else f'{{"texts": [{", ".join(texts)}]}}'
    return body.encode('utf-8', 'backslashreplace')


async def _model(service: Service, request: Request) -> Response:
    service.check_token(request)
    model = service.ready()
    loaded = datetime.fromtimestamp(model.loaded, timezone.utc)
    limits = {name: value for name, value in asdict(service.limits).items()
              if name.startswith('max_') or name == 'timeout'}
    return _json(ModelAnswer(service.name, *model.about, loaded.isoformat(timespec='seconds'), VERSION, limits),
                 headers={'MS-CRF-Model': model.mark})


async def _reload(service: Service, request: Request) -> Response:
    service.check_token(request)
    if service.token is None:
        raise Refused(403, 'expected a server with a token, got one without; start it with a token, or send SIGHUP '
                           'to its process')
    assert service.reload is not None
    await service.reload()
    return _json(Status('loaded'), headers={'MS-CRF-Model': service.ready().mark})


async def _healthz(_: Service, __: Request) -> Response:
    return _json(Status('running'))


async def _readyz(service: Service, _: Request) -> Response:
    service.ready()
    return _json(Status('ready'))


async def _metrics(service: Service, request: Request) -> Response:
    service.check_token(request)
    model = service.model
    text = service.metrics.text(model is not None, model.queue.tokens if model else 0, len(service.connections),
                                [*service.processes.items(), *service.splitters.processes()])
    return Response(text, headers={'Content-Type': TYPE})


async def _openapi(service: Service, _: Request) -> Response:
    about = service.model.about if service.model else None
    return _json(document(service.limits, service.token is not None, service.any_host, about))


async def _page(service: Service, _: Request) -> Response:
    shown, policy = page(service.ready(), service.name, service.limits.max_nbest)
    return Response(shown, headers={'Content-Security-Policy': policy}, media_type='text/html; charset=utf-8')
