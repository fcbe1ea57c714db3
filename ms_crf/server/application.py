"""The Starlette application: routes for tagging, model information, health checks, metrics and the page."""

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
from ms_crf.base.errors import brief, one_line
from ms_crf.formats.registry import HTML, JSON
from ms_crf.server.limits import Limits, RequestError, check_host
from ms_crf.server.metrics import TYPE, Metrics
from ms_crf.server.model import ServedModel, page
from ms_crf.server.reading import TagRequest, parse_request, prepare_request
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

LEFT = 499                             # status in the metrics of requests whose clients disconnected
_HEADERS = [(b'x-content-type-options', b'nosniff'), (b'referrer-policy', b'no-referrer'),
            (b'cache-control', b'no-store'), (b'cross-origin-resource-policy', b'same-origin')]
_POLICY = (b'content-security-policy', b"default-src 'none'; frame-ancestors 'none'")


@dataclass
class Service:
    """The state that all routes share: the active model and the arguments of the server."""

    name: str                                    # name of the run, for messages and the page
    limits: Limits
    say: Callable[[str], None]                   # shows a line to the user
    token: bytes | None = None                   # None: requests need no token
    any_host: bool = False                       # whether requests may name other hosts than the loopback
    origins: Sequence[str] | None = None         # origins that CORS allows
    model: ServedModel | None = None             # None until the first model is loaded
    connections: set[Any] = field(default_factory=set)
    metrics: Metrics = field(default_factory=Metrics)
    reload: Callable[[], Awaitable[None]] | None = None      # loads the model again; raises RequestError if that fails

    def __post_init__(self) -> None:
        self.splitters = Splitters(self.limits)
        self.processes: dict[str, int] = {}
        self.requests = request_types(self.limits)

    def ready(self) -> ServedModel:
        """Returns the active model; raises RequestError while no model is loaded."""
        if self.model is None:
            raise RequestError(503, 'the model is still loading; try again', 2)
        return self.model

    def check_token(self, request: Request) -> None:
        """Raises RequestError if the server has a token and the request does not send this token.

        The comparison takes the same time for every token, so that response times reveal nothing.
        """
        if self.token is None:
            return
        kind, _, token = request.headers.get('authorization', '').partition(' ')
        if not hmac.compare_digest(token.strip().encode('latin-1'), self.token) or kind.lower() != 'bearer':
            raise RequestError(401, 'expected the header "Authorization: Bearer TOKEN" with the token of this server, '
                                    f'got {"a wrong token" if token else "no token"}')


def application(service: Service) -> ASGIApp:
    """Returns the ASGI application that uvicorn runs.

    The application checks the Host header, adds security headers to all answers, counts answers for the metrics, and
    reports unexpected errors as one line.
    """
    table = (('/v1/tag', 'POST', _tag), ('/v1/model', 'GET', _model), ('/v1/reload', 'POST', _reload),
             ('/healthz', 'GET', _healthz), ('/readyz', 'GET', _readyz), ('/metrics', 'GET', _metrics),
             ('/openapi.json', 'GET', _openapi), ('/', 'GET', _page))
    routes = [Route(path, partial(answer, service), methods=[method]) for path, method, answer in table]
    middleware = []
    if service.origins:
        middleware.append(Middleware(CORSMiddleware, allow_origins=service.origins, allow_methods=['GET', 'POST'],
                                     allow_headers=['Authorization', 'Content-Type']))
    app = Starlette(routes=routes, middleware=middleware,
                    exception_handlers={RequestError: _request_error, HTTPException: _http_error,
                                        ClientDisconnect: _client_left, Exception: _server_error})
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
        except RequestError as error:            # from check_host
            await _request_error(None, error)(scope, receive, answer)
        except Exception as error:               # `_server_error` has sent the answer
            service.say(one_line(f'{scope["method"]} {path}: {type(error).__name__}: {error}'))
        if status:
            service.metrics.request(path if path in (route.path for route in routes) else '', status,
                                    time.perf_counter() - began)

    return outermost


def _json(value: Struct | dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    data = json.dumps(to_builtins(value), ensure_ascii=False).encode('utf-8', 'backslashreplace')
    return Response(data, status, headers, 'application/json')


def _request_error(_: Request | None, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    headers = {} if error.retry is None else {'Retry-After': str(error.retry)}
    if error.close:
        headers['Connection'] = 'close'
    if error.status == 401:
        headers['WWW-Authenticate'] = 'Bearer'
    return _json(Error(one_line(error.message)), error.status, headers)


def _http_error(request: Request, error: Exception) -> Response:
    """Returns the answer to a request with an unknown path or a wrong method."""
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get('Allow')
    message = (f'expected the method {allowed}, got {request.method}' if allowed else
               f'unknown path {brief(request.scope["path"])}; /openapi.json lists all paths'
               if error.status_code == 404 else str(error.detail))
    return _json(Error(one_line(message)), error.status_code, dict(error.headers or {}))


def _client_left(_: Request, __: Exception) -> Response:
    """Returns an answer that is counted in the metrics but not sent, because the client has disconnected."""
    return Response(status_code=LEFT)


async def _server_error(_: Request, __: Exception) -> Response:
    return _json(Error('internal error; the log of the server has a line about it'), 500)


async def _body(request: Request, limits: Limits) -> bytes:
    """Returns the body of a request; raises RequestError if it is too large, or if its headers do not announce JSON."""
    kind = request.headers.get('content-type', '').partition(';')[0].strip().lower()
    if kind != 'application/json':
        raise RequestError(415, f'expected the header "Content-Type: application/json", got {kind or "none"!r:.60}')
    encoding = request.headers.get('content-encoding', 'identity').strip().lower()
    if encoding != 'identity':
        raise RequestError(415, f'expected a body without Content-Encoding, got {encoding!r:.60}')
    body, too_large = bytearray(), int(request.headers.get('content-length', 0)) > limits.max_body
    if not too_large:
        async for part in request.stream():
            body += part
            if too_large := len(body) > limits.max_body:
                break
    if too_large:
        raise RequestError(413, f'expected a body of at most {limits.max_body:,} bytes, got more; send less at a time')
    return bytes(body)


async def _tag(service: Service, request: Request) -> Response:
    service.check_token(request)
    accepted = request.headers.get('accept', '')
    kind = HTML if 'text/html' in accepted and 'application/json' not in accepted else JSON
    service.ready()
    if len(service.connections) > service.limits.connections:
        raise RequestError(503, 'too many open connections; try again', 1, True)
    tag_request = parse_request(await _body(request, service.limits), service.requests)
    model = service.ready()
    with model.used():
        model.check(tag_request.confidence, tag_request.nbest)
        body = await _waited_for(request, service.limits.timeout, _tagged(service, model, tag_request, kind))
    media_type = 'application/json' if kind == JSON else 'text/html; charset=utf-8'
    return Response(body, headers={'MS-CRF-Model': model.mark, 'Vary': 'Accept'}, media_type=media_type)


async def _waited_for(request: Request, seconds: float, work: Coroutine[Any, Any, bytes]) -> bytes:
    """Returns the result of `work`; cancels `work` after `seconds` or when the client disconnects."""
    tasks = working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_departure(request))
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            raise ClientDisconnect
        raise RequestError(503, f'the request was not answered within {seconds:g} seconds; send less text at a time, '
                                'or try again', 5)
    except asyncio.CancelledError:
        raise RequestError(503, 'the server stopped before the request was answered', None, True) from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _departure(request: Request) -> None:
    """Waits until the client closes the connection."""
    while (await request.receive())['type'] != 'http.disconnect':
        pass


async def _tagged(service: Service, model: ServedModel, tag_request: TagRequest, kind: str) -> bytes:
    """Returns the body of the answer to a request, as JSON or as an HTML fragment."""
    if tag_request.kind in RAW:
        prepared = await service.splitters.split(tag_request, model.splitter(tag_request.splitter), model.info.splitter)
    else:
        prepared = prepare_request(tag_request, None, service.limits)
    results = await model.tag(prepared, kind)
    if kind == HTML:
        body = '\n'.join(results)
    else:
        rest = iter(results)
        sizes = [len(results)] if prepared.sizes is None else prepared.sizes
        texts = [f'{{"sentences": [{", ".join(islice(rest, size))}]}}' for size in sizes]
        body = texts[0] if prepared.sizes is None else f'{{"texts": [{", ".join(texts)}]}}'
    return body.encode('utf-8', 'backslashreplace')


async def _model(service: Service, request: Request) -> Response:
    service.check_token(request)
    model = service.ready()
    loaded = datetime.fromtimestamp(model.loaded, timezone.utc)
    limits = {name: value for name, value in asdict(service.limits).items()
              if name.startswith('max_') or name == 'timeout'}
    return _json(ModelAnswer(service.name, *model.info, loaded.isoformat(timespec='seconds'), VERSION, limits),
                 headers={'MS-CRF-Model': model.mark})


async def _reload(service: Service, request: Request) -> Response:
    service.check_token(request)
    if service.token is None:
        raise RequestError(403, 'reloading over HTTP needs a server with a token; start the server with a token, or '
                                'send SIGHUP to its process')
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
    info = service.model.info if service.model else None
    return _json(document(service.limits, service.token is not None, service.any_host, info))


async def _page(service: Service, _: Request) -> Response:
    shown, policy = page(service.ready(), service.name, service.limits.max_nbest)
    return Response(shown, headers={'Content-Security-Policy': policy}, media_type='text/html; charset=utf-8')
