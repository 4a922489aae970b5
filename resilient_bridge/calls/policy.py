"""Policies for calls: layers composed once, in order, and put around functions of every kind.

Rule: a Policy is a value. It can be compared, pickled, printed and shared. Its state (circuits,
tokens) has a key of its own and is kept in a registry. There is no global switch.
"""

from __future__ import annotations

import sys
import warnings
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

import attrs

from ..failure.teaching import RefusedUse, argument_error, refuse_arguments, refuse_use, taught
from ..lazy_names import public
from ..values.fields import check_flag, refuse, wants
from .fallback.value import Fallback
from .layer import Layer
from .retry.value import Retry
from .shared import shares_circuits, shares_limits


if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Self, TypeAlias

    from .blocks import Attempts
    from .effects import EffectLedger
    from .explanation import Explanation
    from .plan import Plan
    from .registry import States
    from .shared import Store

    SettingsSource: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | None"
    """A file (.toml, .json, .yaml), a dict, or None for the environment alone."""
    EnvironmentSource: TypeAlias = "bool | Mapping[str, str]"
    """Whether the variables `RESILIENT_BRIDGE_…` are read as well; a mapping takes the place of
    `os.environ`.
    """


# What kind of function a code object is: inspect's CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE and CO_ASYNC_GENERATOR.
_KINDS: Final = 0x20 | 0x80 | 0x100 | 0x200

_MOST_PLANS: Final = 16  # by kind of function and `idempotent` there are fewer

P = ParamSpec("P")
T = TypeVar("T")
Function = TypeVar("Function", bound="Callable[..., Any]")
F_co = TypeVar("F_co", bound="Callable[..., Any]", covariant=True)


class _TakesSelf(Protocol):
    def __call__(_me, /, self: Any, *args: Any, **kwargs: Any) -> Any: ...  # noqa: N805 -- `self` is the method's


class _TakesCls(Protocol):
    def __call__(_me, /, cls: Any, *args: Any, **kwargs: Any) -> Any: ...  # noqa: N805 -- as above


Method = TypeVar("Method", bound=_TakesSelf | _TakesCls)


def _as_layers(layers: tuple[Any, ...]) -> tuple[Layer, ...]:
    """Flatten the policies among the layers."""
    flat: list[Any] = []
    for layer in layers:
        flat.extend(layer.layers if isinstance(layer, Policy) else (layer,))
    return tuple(flat)


def _check_layers(_: object, __: attrs.Attribute[Any], layers: tuple[object, ...]) -> None:
    if not layers:
        refuse("Policy.layers", "at least one layer, such as Retry()", layers)
    kinds: list[type] = []
    for index, layer in enumerate(layers):
        path, kind = f"Policy.layers[{index}]", type(layer)
        if not isinstance(layer, Layer) or kind is Layer or layer.usual_position is None:
            from . import strategies  # it loads them all, which only a wrong layer needs

            names = ", ".join(each.__name__ for each in strategies())
            refuse(path, f"{names} or a Policy", layer)
        if kind in kinds:
            refuse(
                path,
                f"one {kind.__name__} at most (put a second policy around the function)",
                layer,
            )
        if layer.never_inside_retry and Retry in kinds:
            refuse(path, layer.never_inside_retry, layer)
        earlier = cast("tuple[Layer, ...]", layers[:index])  # checked before
        for at, other in enumerate(earlier):
            if kind is Fallback and other.only_inside_fallback:
                refuse(path, other.only_inside_fallback, layer)
            if kind is Retry and other.never_outside_retry:
                refuse(f"Policy.layers[{at}]", other.never_outside_retry, other)
        if layer.only_innermost and index < len(layers) - 1:
            from ..failure.mistakes import code

            ordered = ", ".join(
                code(each) for each in (*layers[:index], *layers[index + 1 :], layer)
            )
            wanted = f"{kind.__name__} as the last layer: inside of all others"
            refuse(path, wanted, layer, write=f"rb.Policy({ordered})")
        kinds.append(kind)


@wants("a name")
def _check_name(_: object, __: attrs.Attribute[Any], name: object) -> None:
    if name is not None and (not isinstance(name, str) or not name):
        refuse("Policy.name", "a name, or None", name)


@wants("a redis:// URL, the path of a file (as ~/limits), or env:NAME of one")
def _check_state(_: object, __: attrs.Attribute[Any], state: object) -> None:
    if state is None or (
        not isinstance(state, type) and (shares_circuits(state) or shares_limits(state))
    ):
        return
    wanted = "a RedisState, a MachineState, or None for the state of this process"
    refuse("Policy.state", wanted, state)


def _state_of(layers: tuple[Any, ...]) -> Store | None:
    """Return the one `state` of the policies among the layers."""
    found: list[Store] = []
    for layer in layers:
        if isinstance(layer, Policy) and layer.state is not None and layer.state not in found:
            found.append(layer.state)
    if len(found) > 1:
        refuse("Policy.state", "one state for all layers: say which", found)
    return found[0] if found else None


class Protected(Generic[F_co]):
    """The type of a decorated function: it is called as the function and has attributes.

        def patience(function: rb.calls.Protected[Callable[..., Any]]) -> float:
            return function.explain().max_seconds

    For annotations alone. What runs is a function, and no instance of this class. A method keeps
    its own type (a checker binds only functions), and so does a function that takes any arguments:
    their `policy` is there when it runs, and unknown to the checker. It knows methods by a first
    parameter named `self` or `cls`.
    """

    policy: Policy
    """The policy in force; assign another at run time, and the state is kept."""
    explain: Callable[[], Explanation]
    """What the policy means around this function, and which repeats are allowed."""
    __call__: F_co
    __wrapped__: F_co
    __name__: str
    __qualname__: str


def _as_decorator(
    self: Policy,
    function: Any = None,
    /,
    *,
    idempotent: bool | None = None,
    name: str | None = None,
    effects: EffectLedger | None = None,
) -> None:
    """The arguments that a policy takes as a decorator."""


@attrs.frozen(init=False, repr=False, eq=False)
class Policy(Layer):
    """Layers around a call, outermost first; decorate with it, or use `call` and `attempts`.

        policy = rb.Policy(rb.Deadline(60), rb.Retry(attempts=4), rb.Breaker(), rb.Timeout(10))

        @policy(idempotent=True)      # running it twice does no harm
        async def fetch(url: str) -> str: ...

        print(policy.explain().max_calls)      # 4

    `@policy` protects functions, methods, generator functions and their async kin, and keeps the
    signature. A call that may have run is repeated only with `@policy(idempotent=True)`, and a
    policy with a Retry needs `idempotent` to be True or False. Each decorated function has its own
    circuit and budget unless a layer has a `key`; `call` and `attempts` use those of this object.
    `name` stands in events instead of the function's name. `state=RedisState(url)` shares circuits,
    retry budgets and adaptive limits between processes, and `state=MachineState(path)` adaptive
    limits alone: under their `key`, else under the function's qualified name (for `call` and
    `attempts`: the policy's). ConfigError names a bad layer; an order that does harm warns
    (UserWarning).
    """

    usual_position: ClassVar[int | None] = None

    layers: tuple[Layer, ...] = attrs.field(validator=_check_layers)
    name: str | None = attrs.field(default=None, validator=_check_name)
    state: Store | None = attrs.field(default=None, validator=_check_state)
    _states: States | None = attrs.field(default=None, eq=False, init=False)
    _compiled: dict[Any, Any] | None = attrs.field(default=None, eq=False, init=False)
    _plans: tuple[Plan, ...] = attrs.field(default=(), eq=False, init=False)

    if TYPE_CHECKING:

        def __attrs_init__(self, layers: object, name: object, state: object) -> None: ...

    def __init__(self, *layers: Layer, name: str | None = None, state: Store | None = None) -> None:
        """Compose the layers, and flatten policies; their `state` is used if none is given."""
        self.__attrs_init__(_as_layers(layers), name, _state_of(layers) if state is None else state)
        from .layer_order import harmful

        for warning in harmful(self.layers):
            warnings.warn(f"{self!r}: {warning}", UserWarning, stacklevel=3)

    # A method's own type comes first and is kept: both checkers would not bind, override and narrow
    # a class of ours as a function.
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]
        self,
        function: Method,
        /,
        *,
        idempotent: bool | None = ...,
        name: str | None = ...,
        effects: EffectLedger | None = ...,
    ) -> Method: ...
    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self,
        function: Function,
        /,
        *,
        idempotent: bool | None = ...,
        name: str | None = ...,
        effects: EffectLedger | None = ...,
    ) -> Protected[Function]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        idempotent: bool | None = ...,
        name: str | None = ...,
        effects: EffectLedger | None = ...,
    ) -> PolicyDecorator: ...
    def __call__(
        self,
        function: Any = None,
        /,
        *,
        idempotent: bool | None = None,
        name: str | None = None,
        effects: EffectLedger | None = None,
        **wrong: Any,
    ) -> Any:
        """Protect a function.

        `@policy(idempotent=True)` if running it twice is harmless, `@policy(idempotent=False)` if
        not.

        A policy with a Retry needs one of the two; without a Retry `@policy` is enough. The result
        has the same signature and kind; its attribute `policy` reads this policy and sets another
        at run time, state kept, and `explain()` says what may be repeated. With `effects` (a
        `rb.stores.Effects`) a call that is identical to one in doubt is not made: it raises
        EffectHeldError. ConfigError for what cannot be protected: a class, a Timeout on a sync
        function, a Retry without `idempotent`.
        """
        if wrong:
            refuse_arguments(self, "Policy.__call__", _as_decorator, wrong)
        if idempotent is not None and type(idempotent) is not bool:
            check_flag("Policy(idempotent=)", idempotent)
        if effects is None:
            decorator = PolicyDecorator(self, idempotent, name)
        else:
            decorator = _EffectDecorator(self, idempotent, name, effects)
        return decorator if function is None else decorator(function)

    if not TYPE_CHECKING:
        __iter__ = refuse_use(
            "Policy",
            "its attempts",
            "the policy itself",
            "for attempt in policy.attempts(idempotent=True): ...",
        )
        __aiter__ = refuse_use(
            "Policy",
            "its attempts",
            "the policy itself",
            "async for attempt in policy.attempts(idempotent=True): ...",
        )
        __enter__ = __exit__ = __aenter__ = __aexit__ = RefusedUse(
            "Policy", "an attempt of it", "the policy itself",
            "for attempt in policy.attempts(idempotent=True):  # and in the loop: with attempt: ...",
        )  # fmt: skip

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` once, protected, and return what it returns.

        A value, or the awaitable or iterator of its kind.

        The circuit and the budget are those of this Policy object, whatever the function. A policy
        with a Retry needs `idempotent`: `policy(idempotent=True).call(f, …)`; ConfigError without
        it.
        """
        return PolicyDecorator(self).call(function, *args, **kwargs)

    def attempts(self, *, idempotent: bool | None = None) -> Attempts:
        """Return the attempts as a loop.

        `async for attempt in policy.attempts(idempotent=True): with attempt: …`, or `for`.

        A block may be repeated when it failed and the policy says so; the last failure is raised.
        Every layer is entered again for each attempt. ConfigError for a policy with a Fallback,
        which cannot replace a block, and for a Retry without `idempotent`.
        """
        return _loop(self, idempotent, sys._getframe(1))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- a loop is known by its line

    @taught
    def replace(self, *layers: Layer) -> Self:
        """Return this policy with layers replaced by class, or added where they usually belong.

        A layer without a `key` takes over the one it replaces; `call` and `attempts` of both use
        the same state.
        """
        new, others = list(self.layers), _as_layers(layers)
        for number, layer in enumerate(others):
            if not isinstance(layer, Layer):  # pyright: ignore[reportUnnecessaryIsInstance]
                refuse(f"Policy.layers[{number}]", "a layer, such as Timeout(10)", layer)
        for layer in others:
            index = next((n for n, old in enumerate(new) if type(old) is type(layer)), None)
            if index is None:
                new.insert(_usual_index(new, layer), layer)
            else:
                key = getattr(new[index], "key", None)
                keep = key is not None and getattr(layer, "key", key) is None
                new[index] = attrs.evolve(layer, key=key) if keep else layer  # type: ignore[misc]
        replaced = type(self)(*new, name=self.name, state=self.state)
        replaced._use(self.own_states())  # noqa: SLF001 -- of its own class
        return replaced

    def evolve(self, **fields: Any) -> Self:
        """Return a copy with other `layers`, `name` or `state`; see also `replace`.

        The copy has circuits and budgets of its own.
        """
        known = {"layers": self.layers, "name": self.name, "state": self.state}
        for name, value in fields.items():
            if name not in known:
                from ..failure.mistakes import wrong_field

                raise argument_error(wrong_field(self, name, value, list(known)))
        layers: Any = fields.get("layers", self.layers)
        return type(self)(
            *layers, **{name: fields.get(name, known[name]) for name in ("name", "state")}
        )

    def explain(self) -> Explanation:
        """Return what the policy means; it prints as text.

        It contains the order, the worst case in calls and seconds, and warnings.
        """
        from .explanation import Explanation

        return Explanation.of(self.layers, self.state)

    def __circuit__(self) -> object | None:
        """Return the circuit that `call` and `attempts` use, None if no layer has one.

        `circuit(policy)` is its handle.
        """
        from .layers import circuit_of

        return circuit_of(self, self.own_states())

    def detached(self) -> Policy:
        """Return an equal policy without state, to be held by the state of this one; an internal method."""
        return _rebuild(self.layers, self.name, self.state)

    @property
    def compiled(self) -> dict[Any, Any]:
        """What `call` and `attempts` have compiled, see `protect`; an internal property."""
        found = self._compiled
        if found is None:
            found = {}
            object.__setattr__(self, "_compiled", found)
        return found

    @property
    def plans(self) -> tuple[Plan, ...]:
        """What was compiled of it, by what it says of the functions; an internal property."""
        return self._plans

    def keep_plan(self, plan: Plan) -> None:
        """Keep what was compiled, for further functions; an internal method."""
        object.__setattr__(self, "_plans", (plan, *self._plans[: _MOST_PLANS - 1]))

    def own_states(self) -> States:
        """Return the state that `call` and `attempts` use; an internal method."""
        found = self._states
        if found is None:
            from .registry import States

            found = States(self.name or "Policy", self.name)
            self._use(found)
        return found

    def _use(self, states: States) -> None:
        object.__setattr__(self, "_states", states)

    def take_states(self, other: Policy) -> None:
        """Use the state of another policy for `call` and `attempts`; an internal method.

        Settings that are read again use it.
        """
        if other is not self:
            self._use(other.own_states())
            self.compiled.clear()

    @classmethod
    def from_config(
        cls,
        source: SettingsSource,
        name: str,
        /,
        *,
        names: Mapping[str, Any] | None = None,
        env: EnvironmentSource = False,
    ) -> Policy:
        """Return the policy `[policies.NAME]` of a file, a dict or the environment.

        The same as `load(source).policies[name]`. Raises ConfigError with all errors of the source,
        or if it has no such policy.
        """
        made: Policy = public("load")(source, names=names, env=env).policy(name)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        # State stays in its process, and so does the object that owns it.
        return _rebuild, (self.layers, self.name, self.state)

    def __repr__(self) -> str:
        """Return the constructor's call."""
        parts = [repr(layer) for layer in self.layers]
        if self.name is not None:
            parts.append(f"name={self.name!r}")
        if self.state is not None:
            parts.append(f"state={self.state!r}")
        return f"Policy({', '.join(parts)})"


@attrs.define(
    unsafe_hash=True
)  # not frozen: one is made for each `policy(idempotent=True).call(f)`
class PolicyDecorator:
    """What `policy(idempotent=…)` returns.

    `@policy(idempotent=True)`, and `policy(idempotent=True).call(f, …)`.

    `idempotent=True`: running the function twice is harmless, so it is repeated although it may
    have run. False: it is repeated only if it provably did not run.
    """

    policy: Policy
    idempotent: bool | None = None
    name: str | None = None

    @overload
    def __call__(self, function: Method, /) -> Method: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __call__(self, function: Function, /) -> Protected[Function]: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
    def __call__(self, function: Any, /) -> Any:
        """Protect a function; see `Policy`."""
        from .protect import bind

        return bind(
            self.policy,
            function,
            name=self.name or self.policy.name,
            shared_as=self.name,
            idempotent=self.idempotent,
            must_say=True,
        )

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` once, protected, and return what it returns.

        A value, or the awaitable or iterator of its kind.

        The circuit and the budget are those of the Policy object, whatever the function.
        """
        policy, kind = self.policy, None
        states = policy.own_states()
        if (
            type(function) is FunctionType and not function.__dict__
        ):  # else it may be marked as another kind
            flags = function.__code__.co_flags & _KINDS
            kind = flags, function.__module__, function.__qualname__, self.idempotent, self.name
            runner = policy.compiled.get(kind)
            if runner is not None and states.compiled_for is policy.layers:
                return runner(function, args, kwargs)  # type: ignore[no-any-return]
        from .protect import keep, runner_for

        name = self.name or policy.name
        runner = runner_for(policy, states, function, name=name, idempotent=self.idempotent)
        if kind is not None:
            keep(policy, kind, runner)
        return runner(function, args, kwargs)  # type: ignore[no-any-return]

    def attempts(self) -> Attempts:
        """Return the attempts as a loop; see `Policy.attempts`."""
        return _loop(self.policy, self.idempotent, sys._getframe(1))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- as above


@attrs.define(unsafe_hash=True)
class _EffectDecorator(PolicyDecorator):
    """What `policy(idempotent=False, effects=…)` returns: every call passes the gate of a ledger."""

    effects: Any = None

    def __attrs_post_init__(self) -> None:
        from .effects import EffectLedger

        if not isinstance(self.effects, EffectLedger):
            wanted = "an Effects, such as rb.stores.Effects(path), or None"
            refuse("Policy(effects=)", wanted, self.effects)
        if self.idempotent is not False:
            wanted = "idempotent=False: what may run twice needs no effects="
            refuse("Policy(effects=)", wanted, f"idempotent={self.idempotent}")

    def __call__(self, function: Any, /) -> Any:
        from .protect import bind

        return bind(
            self.policy,
            function,
            name=self.name or self.policy.name,
            shared_as=self.name,
            idempotent=False,
            must_say=True,
            effects=self.effects,
        )

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        from .protect import bind

        name, states = self.name or self.policy.name, self.policy.own_states()
        made = bind(
            self.policy, function, name=name, states=states, idempotent=False, effects=self.effects
        )
        return made(*args, **kwargs)

    def attempts(self) -> Attempts:
        refuse("Policy.attempts(effects=)", "a function: a block has no arguments", self.effects)


def _loop(policy: Policy, idempotent: bool | None, caller: FrameType) -> Attempts:
    """Return the loop that starts where `caller` is."""
    from .blocks import Attempts

    if idempotent is not None:
        check_flag("Policy.attempts.idempotent", idempotent)
    if idempotent is None and any(isinstance(layer, Retry) for layer in policy.layers):
        from .binding import undecided

        raise undecided(policy.name or "Policy.attempts", "policy.attempts(idempotent=True)")
    return Attempts(
        policy, policy.own_states(), (caller.f_code, caller.f_lineno), idempotent=idempotent
    )


def _rebuild(layers: tuple[Layer, ...], name: str | None, state: Store | None = None) -> Policy:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user was warned when it was made
        return Policy(*layers, name=name, state=state)


def _usual_index(layers: list[Layer], layer: Layer) -> int:
    """Return the usual index for a layer of a class that is missing here.

    It is before the first layer that belongs inside of it.
    """
    own = layer.usual_position
    if own is None:
        refuse("Policy.replace", "layers", layer)
    inner = (
        n for n, other in enumerate(layers) if other.usual_position and other.usual_position > own
    )
    return next(inner, len(layers))
