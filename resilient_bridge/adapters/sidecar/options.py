"""The options of a sidecar: the server, waiting times, permissions and limits.

Rule: an immutable value without state; a secret is written as `env:NAME` or `file:PATH` and is read
when a connection is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ...calls import Breaker, RateLimit
from ...failure import config_error
from ...lazy_names import public
from ...values.backoff import Backoff
from ...values.fields import (
    Value,
    as_seconds,
    as_tuple,
    flag,
    instance_of,
    is_count,
    is_number,
    optional,
    path_of,
    refuse,
    seconds,
    short_seconds,
    some_seconds,
    tuple_of,
    wants,
)


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from ...calls.ports import EnvironmentSource, SettingsSource
    from ...values.fields import Seconds, Validator


EVERY_TOOL: Final = "*"
"""The name for all tools together in `concurrency` and `rates`."""


def _mapping(
    wanted: str,
    fits: Callable[[object], bool],
    *,
    is_secret: bool = False,
) -> Validator:
    """Return a validator for a mapping of names to values that `fits` accepts.

    With `is_secret`, an error shows the type of a value instead of the value.
    """

    @wants(f"a table of names, each with {wanted}")
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        path = path_of(instance, attribute)
        if not isinstance(value, Mapping):
            refuse(path, f"a mapping of names, each to {wanted}", value)
        for name, item in cast("Mapping[object, object]", value).items():
            if not isinstance(name, str) or not name:
                refuse(path, "names that are not empty", name)
            if not fits(item):
                refuse(f"{path}[{name!r}]", wanted, type(item).__name__ if is_secret else item)

    return check


def _as_seconds_by_name(value: Mapping[str, Seconds]) -> Any:
    received: Any = value
    if not isinstance(received, Mapping):
        return received
    return {name: as_seconds(item) for name, item in cast("Mapping[str, Any]", received).items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


@wants("an address that begins with http:// or https://")
def _check_server(instance: Sidecar, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not (
        isinstance(value, str) and value.startswith(("http://", "https://"))
    ):
        refuse(
            path_of(instance, attribute),
            "an address that begins with http:// or https://",
            type(value).__name__,
        )
    if bool(instance.command) == bool(value):
        refuse("Sidecar", "a command or a url", "both" if value else "neither")


@wants("the path of a folder")
def _check_folder(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not _is_text(value):
        refuse(path_of(instance, attribute), "the path of a folder", value)


@wants("the path of a file")
def _check_path(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not _is_text(value):
        refuse(path_of(instance, attribute), "the path of a file", value)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Sidecar(Value):
    """The options of an MCP sidecar: `command` starts the server, `url` is that of a running one.

        sidecar = rb.mcp.Sidecar(
            command=["uvx", "mcp-server-git"], timeout=60, idempotent=["git_log"]
        )

    The url speaks streamable HTTP. `headers` are sent to it, to no other origin, and over http://
    to another machine only with `allow_plaintext_credentials`; a word `env:NAME` or `file:PATH` in
    a value is replaced by the secret. Durations are seconds, timedeltas or texts ("10s").

    While there is no server a call waits for at most `patience` seconds, and then ends as not
    executed. A tool that does not answer within its time in `timeouts`, else within `timeout`, ends
    as unknown; `deadline` bounds a call with its waits and repeats. A start may take
    `start_timeout`.

    A call that may have run is repeated only with proof that it did not, if it only reads by
    protocol, or by permission: names in `idempotent`, and a tool that a server started by `command`
    calls read-only. `trust_hints` also trusts a url, and a tool that is called idempotent while no
    other call was sent. `check` names the tool that shows whether another took effect; the client
    is informed.

    A call that is identical to one in doubt is not sent: once, for a minute; with `effects`, the
    path of a file that outlives the sidecar, for ten minutes, or until the read tool that `verify`
    names for it says what became of the first.

    `concurrency` and `rates` limit tools by name, "*" all together. The server is started again
    after `backoff`; after the failures that `circuit` counts (sessions in a row that ended before
    they had answered a call) calls fail at once. ConfigError names a bad field.
    """

    command: tuple[str, ...] = attrs.field(
        default=(), converter=as_tuple, validator=tuple_of("a text that is not empty", _is_text)
    )
    url: str | None = attrs.field(default=None, validator=_check_server)
    headers: Mapping[str, str] = attrs.field(
        factory=dict[str, str], validator=_mapping("a text", _is_text, is_secret=True)
    )
    cwd: str | None = attrs.field(default=None, validator=optional(_check_folder))
    env: Mapping[str, str] = attrs.field(
        factory=dict[str, str],
        validator=_mapping("a text", lambda value: isinstance(value, str), is_secret=True),
    )
    patience: float = attrs.field(default=30.0, converter=as_seconds, validator=seconds())
    start_timeout: float = attrs.field(default=55.0, converter=as_seconds, validator=short_seconds)
    timeout: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(as_seconds),
        validator=optional(some_seconds),
    )
    timeouts: Mapping[str, float] = attrs.field(
        factory=dict[str, float],
        converter=_as_seconds_by_name,
        validator=_mapping("seconds above 0", lambda value: is_number(value) and value > 0),
    )
    deadline: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(as_seconds),
        validator=optional(some_seconds),
    )
    idempotent: tuple[str, ...] = attrs.field(
        default=(), converter=as_tuple, validator=tuple_of("the name of a tool", _is_text)
    )
    trust_hints: bool = attrs.field(default=False, validator=flag)
    check: Mapping[str, str] = attrs.field(
        factory=dict[str, str], validator=_mapping("the name of a tool", _is_text)
    )
    concurrency: Mapping[str, int] = attrs.field(
        factory=dict[str, int], validator=_mapping("a whole number of at least 1", is_count)
    )
    rates: Mapping[str, RateLimit] = attrs.field(
        factory=dict[str, RateLimit],
        validator=_mapping("a RateLimit", lambda value: isinstance(value, RateLimit)),
    )
    circuit: Breaker = attrs.field(
        default=Breaker.consecutive(5, open_for=Backoff.exponential(5, cap=60, jitter="none")),
        validator=instance_of(Breaker),
    )
    backoff: Backoff = attrs.field(
        default=Backoff.steps(0, 0.5, then=Backoff.exponential(1, cap=30, jitter="equal")),
        validator=instance_of(Backoff),
    )
    allow_plaintext_credentials: bool = attrs.field(default=False, validator=flag)
    status_tool: bool = attrs.field(default=False, validator=flag)
    log_arguments: bool = attrs.field(default=False, validator=flag)
    effects: str | None = attrs.field(default=None, validator=optional(_check_path))
    verify: Mapping[str, str] = attrs.field(
        factory=dict[str, str], validator=_mapping("the name of a tool", _is_text)
    )

    @classmethod
    def from_config(
        cls,
        source: SettingsSource,
        /,
        *,
        names: Mapping[str, Any] | None = None,
        env: EnvironmentSource = False,
    ) -> Self:
        """Return the sidecar that the table `mcp` of a file, a dict or the environment describes.

        Raises ConfigError with every problem of the source, and if there is no such table.
        """
        tables: Mapping[str, Any] = public("load")(source, names=names, env=env).tables
        if "mcp" not in tables:
            raise config_error("mcp", "a table with a command or a url", None)
        return cast("Self", tables["mcp"])

    @property
    def is_command(self) -> bool:
        """Whether the server is a command, which the user starts and so trusts."""
        return bool(self.command)

    def named_tools(self) -> dict[str, list[str]]:
        """Return each name of a tool in these options, with the options that it stands in."""
        stands: dict[str, list[str]] = {}
        for option, names in (
            ("idempotent", self.idempotent),
            ("check", [name for pair in self.check.items() for name in pair]),
            ("verify", [name for pair in self.verify.items() for name in pair]),
            ("timeouts", self.timeouts),
            ("concurrency", self.concurrency),
            ("rates", self.rates),
        ):
            for name in dict.fromkeys(names):
                if name != EVERY_TOOL or option not in ("concurrency", "rates"):
                    stands.setdefault(name, []).append(option)
        return stands

    def timeout_of(self, tool: str) -> float | None:
        """Return the seconds that a call of this tool may take; None for no limit."""
        return self.timeouts.get(tool, self.timeout)

    def __repr__(self) -> str:
        """Show the server without arguments, headers and environment, which may hold secrets."""
        from ...failure import redact

        return f"<Sidecar {redact(self.command[0] if self.command else self.url or '')}>"
