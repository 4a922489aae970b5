"""The tools of an agent: decorated functions and commands.

`Toolbox.call` calls one by name and returns an Outcome.

Rule: an agent loop reads outcomes. A failed tool, wrong arguments and an unknown name are outcomes;
only a mistake in the program is raised.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from ...calls.ports import EffectLedger, bind, call_options, form_of, inside
from ...failure import ANSWERS, config_error
from ...failure.teaching import TeachesNames, taught
from ...lazy_names import public
from ...values.fields import check_flag, is_count, read_name
from .bounded import GRACE, bound_async, bound_in_thread, bound_sync
from .shell_commands import END_SECONDS, MAX_OUTPUT, CommandResult, run_command, words_of
from .tool_arguments import Parameters
from .tool_calls import Tool, ToolEntry, call_tool, check_call, refuse_name
from .tool_policy import Limits, as_limit, names_in


if TYPE_CHECKING:
    import os
    from typing import Self

    from ...calls import Outcome, Policy
    from ...calls.ports import EnvironmentSource, SettingsSource
    from ...presets.bridge_policy import BridgePolicy
    from ...values.fields import Seconds


P = ParamSpec("P")
Function = TypeVar("Function", bound=Callable[..., Any])


class Toolbox(TeachesNames):
    """Tools by name, bounded in time and repeated by policy; their failures are returned as data.

        tools = rb.agent.Toolbox(timeouts={"add": 10})

        @tools.tool(idempotent=True)
        async def add(a: int, b: int) -> int:
            return a + b
        print((await tools.call("add", {"a": 1, "b": 2})).value)      # 3

    `policy` (None: that of `presets.default`) applies to every tool. Of a BridgePolicy its `calls`
    apply; the layers in its `tools` replace those of their class for the tool of that name, or for
    all with "default".

    `timeouts` are seconds by name, with "default" for the rest; without any, 30 s. Each tool has
    its own circuit and retry budget. `idempotent` names the tools that may be repeated although
    they may have run, `optional` those that are not required; an argument of `tool` takes
    precedence. With `effects` (a `rb.stores.Effects`) a call of any other tool that is identical to
    one in doubt is not made: it fails with SYS_EFFECT_HELD.
    """

    @taught
    def __init__(
        self,
        policy: Policy | BridgePolicy | None = None,
        *,
        timeouts: Mapping[str, Seconds] | None = None,
        idempotent: Collection[str] = (),
        optional: Collection[str] = (),
        effects: EffectLedger | None = None,
    ) -> None:
        """Make an empty toolbox. Raises ConfigError that names a wrong argument."""
        if policy is None:
            from ...presets import default

            policy = default
        self._limits = Limits(policy, {} if timeouts is None else timeouts)
        self._idempotent = names_in("Toolbox.idempotent", idempotent)
        self._optional = names_in("Toolbox.optional", optional)
        self._entries: dict[str, ToolEntry] = {}
        if effects is not None and not isinstance(effects, EffectLedger):  # pyright: ignore[reportUnnecessaryIsInstance]
            wanted = "an Effects, such as rb.stores.Effects(path), or None"
            raise config_error("Toolbox.effects", wanted, effects)
        self._effects = effects

    @classmethod
    def from_config(
        cls,
        source: SettingsSource,
        /,
        *,
        names: Mapping[str, Any] | None = None,
        env: EnvironmentSource = False,
    ) -> Self:
        """Return an empty toolbox configured from a file, a dict or the environment.

        It has the policies, timeouts and permissions of the source. Raises ConfigError with all
        mistakes of the source.
        """
        return cls(**public("load")(source, names=names, env=env).toolbox_arguments())

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name, in the order they were added."""
        return MappingProxyType({name: entry.tool for name, entry in self._entries.items()})

    def schema(self) -> list[dict[str, Any]]:
        """Return the description of each tool for a model.

        Each has `name`, `description` (its docstring) and `parameters`, a JSON schema. Annotations
        that are not plain are described by pydantic, if it is installed; without it they allow
        anything. Wrap the entries as your provider wants them, for instance as `{"type":
        "function", "function": entry}`.
        """
        return [
            {
                "name": name,
                "description": entry.description,
                "parameters": entry.parameters.schema(),
            }
            for name, entry in self._entries.items()
        ]

    def __repr__(self) -> str:
        """Return the names of the tools."""
        return f"<Toolbox {', '.join(self._entries) or 'empty'}>"

    # ---- adding -----------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: Function, /) -> Function: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = ...,
        timeout: Seconds | None = ...,
        required: bool | None = ...,
        idempotent: bool | None = ...,
        policy: Policy | BridgePolicy | None = ...,
    ) -> Callable[[Function], Function]: ...
    @taught
    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        timeout: Seconds | None = None,
        required: bool | None = None,
        idempotent: bool | None = None,
        policy: Policy | BridgePolicy | None = None,
    ) -> Any:
        """Add a function; return it protected, with the same signature.

        Called directly, it raises the same exceptions. `timeout` bounds each attempt with an
        AttemptTimeoutError (TOOL_TIMEOUT). An async function is cancelled, and abandoned if it has
        not ended a second later; a sync one runs in a thread, which is abandoned.

        A tool that is not `required` may be skipped when it fails; one that is `idempotent` may be
        repeated although it may have run. None: as the toolbox says for its name. `policy` replaces
        that of the toolbox. Raises ConfigError for a name that is taken, and for a generator
        function.
        """
        options: dict[str, Any] = {
            "timeout": timeout,
            "required": required,
            "idempotent": idempotent,
            "policy": policy,
        }
        if function is None:
            return functools.partial(self.tool, name=name, **options)
        parameters = Parameters(function, "Toolbox.tool(function)")
        return self._add(function, parameters, _name_of(function, name), **options)

    @overload
    def command(
        self, function: Callable[P, Sequence[str]], /
    ) -> Callable[P, Coroutine[Any, Any, CommandResult]]: ...
    @overload
    def command(
        self,
        /,
        *,
        name: str | None = ...,
        timeout: Seconds | None = ...,
        required: bool | None = ...,
        idempotent: bool | None = ...,
        policy: Policy | BridgePolicy | None = ...,
        cwd: str | os.PathLike[str] | None = ...,
        env: Mapping[str, str] | None = ...,
        max_output: int = ...,
    ) -> Callable[
        [Callable[P, Sequence[str]]], Callable[P, Coroutine[Any, Any, CommandResult]]
    ]: ...
    def command(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        timeout: Seconds | None = None,
        required: bool | None = None,
        idempotent: bool | None = None,
        policy: Policy | BridgePolicy | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> Any:
        """Add a command: `function` returns the words to run, without a shell.

        The returned async function runs them. It returns a CommandResult, or raises
        CalledProcessError for an exit code other than 0. The command's stdin is empty. When the
        command ends, however it does, every process of its session is ended: SIGTERM, a second
        later SIGKILL.

        `cwd` and `env` are those of `subprocess.Popen`; `max_output` bytes of each stream are kept,
        from both ends. The other options are those of `tool`.
        """
        options: dict[str, Any] = {
            "timeout": timeout,
            "required": required,
            "idempotent": idempotent,
            "policy": policy,
        }
        if function is None:
            more: dict[str, Any] = {"cwd": cwd, "env": env, "max_output": max_output}
            return functools.partial(self.command, name=name, **options, **more)
        name = _name_of(function, name)
        path = f"Toolbox.command({name})"
        if form_of(function) != "sync":
            raise config_error(
                path, "a plain function that returns the words to run", "another kind of function"
            )
        if not is_count(max_output):
            raise config_error(f"{path}.max_output", "bytes, at least 1", max_output)
        env = None if env is None else dict(env)

        @functools.wraps(function)
        async def run(*args: Any, **kwargs: Any) -> CommandResult:
            words = words_of(function(*args, **kwargs), name)
            return await run_command(words, cwd=cwd, env=env, max_output=max_output)

        _answers(run, CommandResult, function)
        parameters = Parameters(function, path)
        return self._add(run, parameters, name, grace=END_SECONDS, directory=cwd, **options)

    def _add(
        self,
        function: Any,
        parameters: Parameters,
        name: str,
        *,
        timeout: Seconds | None,
        required: bool | None,
        idempotent: bool | None,
        policy: Policy | BridgePolicy | None,
        grace: float = GRACE,
        directory: str | os.PathLike[str] | None = None,
    ) -> Any:
        form = form_of(function)
        if form not in ("async", "sync"):
            wanted = "a function that returns its answer: one that yields has many"
            raise config_error(f"Toolbox.tool({name})", wanted, "a generator function")
        if name in self._entries:
            raise config_error("Toolbox.tool.name", "a name that no other tool has", name)
        required = name not in self._optional if required is None else required
        idempotent = name in self._idempotent if idempotent is None else idempotent
        for option, value in (("required", required), ("idempotent", idempotent)):
            check_flag(f"Toolbox.tool.{option}", value)
        own = None if timeout is None else as_limit("Toolbox.tool.timeout", timeout)
        layers, limit = self._limits.of(name, timeout=own, policy=policy)
        effects = None if idempotent else self._effects
        protect = functools.partial(
            bind, layers, idempotent=idempotent, name=name, reading=ANSWERS, effects=effects
        )
        if effects is not None:
            function = inside(function, effects, form)
        in_thread = None
        if form == "async":
            protected = protect(bound_async(function, limit=limit, name=name, grace=grace))
        else:
            protected = protect(bound_sync(function, limit=limit, name=name))
            states = protected.__binding__.states  # one circuit, however it is called
            in_thread = protect(bound_in_thread(function, limit=limit, name=name), states=states)
        tool = Tool(
            name=name, timeout=max(limit.timeout.seconds), required=required, idempotent=idempotent
        )
        self._entries[name] = ToolEntry(
            tool=tool,
            function=protected,
            in_thread=in_thread,
            parameters=parameters,
            directory=directory,
            description=inspect.getdoc(function) or "",
        )
        return protected

    # ---- calling ----------------------------------------------------------------------------------------------

    @taught
    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str,
        /,
        *,
        idempotency_key: str | None = None,
        timeout: Seconds | None = None,  # noqa: ASYNC109 -- it ends the call with an outcome
        again: bool = False,
    ) -> Outcome[Any]:
        """Call a tool by name, with a mapping or with JSON text from a model; return its Outcome.

        A failure is never raised. An unknown name (TOOL_NOT_FOUND) and wrong arguments
        (TOOL_ARGUMENTS_INVALID) are failures without a call. `idempotency_key` is that of all
        attempts. A failure is emitted as ToolFailed and has suggestions.

        `timeout` (seconds) ends this call with TOOL_TIMEOUT, all attempts and waits together: a
        time that the caller has, such as `timeout_ms` of a request. It never lengthens the tool's
        own limit, which is of each attempt.

        Where the toolbox has `effects`, a call in doubt is known by its `idempotency_key`, if it has
        one, else by its arguments; `again=True` makes a call though an identical one is in doubt.

        Raises ConfigError for arguments that are neither a mapping nor text, and CancelledError if
        the caller is cancelled; a cancellation inside the tool is a failure
        (TOOL_EXECUTION_FAILED).
        """
        seconds = check_call(name, arguments, idempotency_key, timeout)
        entry = self._entries.get(name)
        if entry is None:
            return refuse_name(name, self._entries)
        if again is not False:
            check_flag("Toolbox.call(again)", again)
        if not self.remembers(entry.tool):
            return await call_tool(entry, arguments, idempotency_key, seconds)
        with call_options(idempotency_key, again=again):
            return await call_tool(entry, arguments, idempotency_key, seconds)

    def remembers(self, tool: Tool) -> bool:
        """Return whether calls of a tool in doubt are remembered; an internal method."""
        return self._effects is not None and not tool.idempotent

    async def settle(self, name: str, arguments: Mapping[str, Any] | str, key: str) -> Outcome[Any]:
        """Find out what became of a call that may have run; an internal method.

        Its answer is that of the call, whether that ran or is made now; a failure says that it is
        not known.
        """
        with call_options(key, again=False, is_in_doubt=True):
            return await call_tool(self._entries[name], arguments, key, None)


def _name_of(function: Any, name: object) -> str:
    return read_name(
        "Toolbox.tool.name", getattr(function, "__name__", None) if name is None else name
    )


def _answers(run: Any, answer: type, function: Any) -> None:
    """Set the return annotation of a command to CommandResult; its function returns words."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception:  # noqa: BLE001 -- a name that is not defined, or for type checkers only
        signature = inspect.signature(function)
    run.__signature__ = signature.replace(return_annotation=answer)
    run.__annotations__ = {**getattr(function, "__annotations__", {}), "return": answer}
