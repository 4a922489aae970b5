"""Requests of other clients in the form that HTTPTransport uses, so that it serves all of them.

Rule: a view changes nothing about the request but its headers. Its extensions are passed to the
request of the next redirect.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import attrs

from .bodies import LOOK, tells
from .request_checks import PORTS
from .transport import HTTPTransport


if TYPE_CHECKING:
    from ...calls import Policy
    from ...failure import BridgeError
    from ...presets.bridge_policy import BridgePolicy


class URLView:
    """Scheme, host, port and query of a URL, as httpx names them: `port` is None if it is the default."""

    __slots__ = ("host", "path", "port", "query", "raw_host", "scheme")

    def __init__(self, scheme: str, host: str, port: int | None, query: str, path: str) -> None:
        self.scheme = scheme
        self.path = path
        self.query = query.encode("utf-8", "surrogatepass")
        self.host = host
        self.raw_host = host.encode("utf-8", "surrogatepass")
        self.port = None if port == PORTS.get(scheme) else port


class HeadersView(MutableMapping[str, str]):
    """Headers by their names in lower case, as in httpx; changes apply to the request."""

    __slots__ = ("_headers",)

    def __init__(self, headers: MutableMapping[str, str]) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        value: object = self._headers[name]
        return value.decode("latin-1") if isinstance(value, bytes) else str(value)

    def __setitem__(self, name: str, value: str) -> None:
        self._headers[name] = value

    def __delitem__(self, name: str) -> None:
        del self._headers[name]

    def __iter__(self) -> Iterator[str]:
        return iter([str(name).lower() for name in self._headers])

    def __len__(self) -> int:
        return len(self._headers)


def _cookie_lines(answer: Any) -> list[str]:
    """Return the Set-Cookie lines of a response of aiohttp, or of urllib3 below requests."""
    headers = getattr(getattr(answer, "raw", None), "headers", None) or answer.headers
    read = getattr(headers, "getlist", None) or getattr(headers, "getall", None)
    return list(read("set-cookie")) if read is not None else []


def _nothing(*_: Any) -> None:
    pass


async def _nothing_async(*_: Any) -> None:
    pass


def _watch_read(response: Any, tell: Callable[[Exception], None]) -> None:
    """Have `tell` called with the error of a body that breaks while the client reads it.

    Its class is replaced by one of the same name: a function on the response would hold it for ever.
    """
    native = getattr(response, "native", response)
    with suppress(Exception):  # a double in a test may be anything
        native.__class__ = _watched_class(cast("Any", type(native)))
        native._rb_tell = tell  # noqa: SLF001 -- the attribute of that class


@cache
def _watched_class(base: Any) -> type[Any]:
    async def read(self: Any) -> Any:  # aiohttp: text() and json() call it
        try:
            return await base.read(self)
        except Exception as error:
            self._rb_tell(error)
            raise

    def iter_content(
        self: Any, *args: Any, **kwargs: Any
    ) -> Iterator[Any]:  # requests: all else calls it
        return _each(base.iter_content(self, *args, **kwargs), self._rb_tell)

    def reduced(self: Any, protocol: Any) -> Any:
        _, _, *state = cast("tuple[Any, ...]", base.__reduce_ex__(self, protocol))
        return (copyreg._reconstructor, (base, object, None), *state)  # type: ignore[attr-defined] # noqa: SLF001

    methods: dict[str, Any] = {"iter_content": iter_content, "__reduce_ex__": reduced}
    if not hasattr(base, "iter_content"):
        methods = {"read": read}
    return type(
        base.__name__,
        (base,),
        {**methods, "__module__": base.__module__, "__qualname__": base.__qualname__},
    )


def _each(parts: Iterator[Any], tell: Callable[[Exception], None]) -> Iterator[Any]:
    try:
        yield from parts
    except Exception as error:
        tell(error)
        raise


@attrs.define(eq=False)
class RequestView:
    """A request of another client.

    `stream.is_started` is true once its body cannot be sent again; None: it always can.
    """

    native: Any
    url: URLView
    extensions: dict[str, Any]
    stream: Any = attrs.field(default=None, kw_only=True)
    options: dict[str, Any] = attrs.field(factory=dict[str, Any], kw_only=True)
    method: str = attrs.field(init=False)
    headers: HeadersView = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.method, self.headers = self.native.method, HeadersView(self.native.headers)


def says_more(answer: Any) -> bool:
    """Return whether an error's body can change what its status means, and is short."""
    length = answer.headers.get("content-length", "")
    return tells(answer) and length.isdecimal() and int(length) <= LOOK


class Core(HTTPTransport):
    """HTTPTransport over views of another library's requests.

    The view watches the body, and no client of mcp sends through it. `look` reads the body of an
    error into the response, if it is short; for an async library it is async. `add_base` gives an
    error of ours the base class of the library.
    """

    _watch = staticmethod(_nothing)
    _hold_body = None  # the permit of an adaptive limit is given back with the headers
    _report_request = _report_answer = staticmethod(_nothing_async)
    _cookie_lines = staticmethod(_cookie_lines)
    _watch_body = staticmethod(_watch_read)

    def __init__(
        self,
        owner: str,
        policy: Policy | BridgePolicy | None,
        inner: Any,
        look: Callable[[Any], Any],
        add_base: Callable[[BridgeError, Any], None] = _nothing,
        **options: Any,
    ) -> None:
        self._owner = owner
        super().__init__(policy, inner, **options)
        self._peek = self._peek_async = look
        self._add_base = add_base

    @property
    def policy(self) -> Policy:
        return self._policy

    def __repr__(self) -> str:
        return repr(self._policy)
