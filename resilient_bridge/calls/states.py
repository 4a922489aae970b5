"""The state of one owner's layers: a decorated function, or a Policy for `call` and `attempts`.

Rule: state has a key, never a value. A layer with a key uses what the registry holds under it. A
layer without one has a state here, which outlives the policy: if another policy replaces it, the
circuit keeps its state. State that is shared with other processes needs a name on which they all
agree: the key, or the function's name.
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
    """The state of one owner, made when a layer first needs it; `name` is the display name.

    `shared_as` is the owner's name in all processes; None: it has none that they would agree on.
    `shares_pause`: all owners of this name wait for one pause.
    """

    __slots__ = (
        "__weakref__", "_keys", "_own", "_pause", "compiled_for", "current", "logged", "name", "shared_as",
    )  # fmt: skip

    def __init__(
        self, name: str, shared_as: str | None = None, *, shares_pause: bool = False
    ) -> None:
        self.name = name
        self._pause: Pause | None = shared_pause(name) if shares_pause else None
        self.shared_as = shared_as
        self.logged: set[str] = (
            set()
        )  # the classes of which the log has said why they are not repeated
        # The circuit in use, its own or shared: what `circuit(x)` shows.
        self.current: CircuitAsked | None = None
        self._keys: tuple[str, ...] = ()  # of the shared states that this owner has used
        # By their sort; a state shared between processes is here while it is in use.
        self._own: dict[str, Any] = {}
        # The layers whose numbers apply to the `call` and `attempts` of a policy; see `run.direct_calls`.
        self.compiled_for: tuple[Layer, ...] | None = None

    def state(self, names: Names[S, V], settings: V, store: SharedState | None = None) -> S:
        """Return the state for these settings, and apply the settings to it."""
        key: str | None = cast("Any", settings).key
        if store is not None and names.shared is not None:
            key = self._shared_key(names.sort, settings, key)
            found = self._own[f"shared {names.sort}"] = names.shared(
                store, key, settings, self._is_new(key)
            )
            return found
        if key is not None:
            return names.get(key, settings, warn=self._is_new(key))
        own = self._own.get(names.sort)
        if own is None:
            own = self._own[names.sort] = names.own(self.name, settings)
        else:
            own.configure(settings)
        return cast("S", own)

    @property
    def pause(self) -> Pause:
        """The pause of this owner's calls, whatever key its layers share with other owners."""
        if self._pause is None:
            self._pause = Pause(self.name)
        return self._pause

    def _is_new(self, key: str) -> bool:
        """Return whether this owner uses a shared state for the first time.

        Later it may change the numbers without a warning.
        """
        is_new = key not in self._keys
        if is_new:
            self._keys = (*self._keys, key)
        return is_new

    def _shared_key(self, sort: str, settings: object, key: str | None) -> str:
        """Return the name under which other processes share it."""
        found = key or self.shared_as
        if found is None or "<lambda>" in found:
            path = f"{type(settings).__name__}.key"
            refuse(path, f"a key: a shared {sort} needs a name that all processes agree on", key)
        return found
