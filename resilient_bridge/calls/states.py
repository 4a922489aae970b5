"""The state of one owner's layers: a decorated function, or a Policy for its `call` and `attempts`.

Rule: state has a key, never a value. A layer with a key shares what the registry holds under it; one without has its own
here, which outlives the policy: put another policy in its place, and the circuit stays as open as it was. What is shared with
other processes needs a name that they all come to by themselves: the key, or that of the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..values.fields import refuse
from .retry.pause import Pause, shared_pause


if TYPE_CHECKING:
    from .guards import CircuitAsked
    from .layer import Layer
    from .names import Names
    from .shared.ports import SharedState


S = TypeVar("S")
V = TypeVar("V")


class States:
    """What belongs to one owner, made when a layer first asks for it; `name` is what people see.

    `shared_as` is the owner's name in all processes; None: it has none that they would agree on. `shares_pause`: all owners of this name
    wait for one pause.
    """

    __slots__ = ("__weakref__", "_keys", "_own", "_pause", "current", "name", "shared_as")

    def __init__(self, name: str, shared_as: str | None = None, *, shares_pause: bool = False) -> None:
        self.name = name
        self._pause: Pause | None = shared_pause(name) if shares_pause else None
        self.shared_as = shared_as
        # The circuit in use, its own or shared: what `circuit(x)` shows.
        self.current: CircuitAsked | None = None
        self._keys: frozenset[str] = frozenset()  # shared states that this owner has used
        # By their sort; what is shared between processes is here as long as it is in use.
        self._own: dict[str, Any] = {}

    def state(self, names: Names[S, V], settings: V, store: SharedState | None = None) -> S:
        """Return the state that these settings are for; they are in force from now on."""
        key: str | None = cast("Any", settings).key
        if store is not None and names.shared is not None:
            key = self._shared_key(names.sort, settings, key)
            found = self._own[f"shared {names.sort}"] = names.shared(store, key, settings, self._is_new(key))
            return found
        if key is not None:
            return names.get(key, settings, warn=self._is_new(key))
        own = self._own.get(names.sort)
        if own is None:
            own = self._own[names.sort] = names.own(self.name, settings)
        else:
            own.configure(settings)
        return cast("S", own)

    def pause(self, layers: tuple[Layer, ...]) -> Pause:
        """Return what the calls of this owner wait for: shared by the first key among the layers, else its own."""
        for layer in layers:
            key: str | None = getattr(layer, "key", None) or getattr(
                getattr(layer, "budget", None), "key", None
            )
            if key is not None:
                return shared_pause(key)
        if self._pause is None:
            self._pause = Pause(self.name)
        return self._pause

    def _is_new(self, key: str) -> bool:
        """Return whether this owner comes to a shared state for the first time: later it may change the numbers as it likes."""
        is_new = key not in self._keys
        self._keys |= {key}
        return is_new

    def _shared_key(self, sort: str, settings: object, key: str | None) -> str:
        """Return the name by which other processes know it, too."""
        found = key or self.shared_as
        if found is None or "<lambda>" in found:
            path = f"{type(settings).__name__}.key"
            refuse(path, f"a key: a shared {sort} needs a name that all processes agree on", key)
        return found
