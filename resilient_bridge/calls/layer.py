"""The base class of the policy values that a Policy is composed of, and their descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..failure.teaching import TeachesNames
from ..values.fields import Value


if TYPE_CHECKING:
    from typing import Self


class Layer(TeachesNames, Value):
    """One layer of a Policy, such as a Retry, or a Policy itself."""

    __slots__ = ()

    conditions_in: ClassVar[tuple[str, ...]] = ()
    """The fields that may hold conditions about a failure."""
    usual_position: ClassVar[int | None] = None
    """Its position in the recommended order, outermost first; None for a Policy, which is
    flattened.
    """
    outside_retry: ClassVar[str] = ""
    """What is wrong with it outside of a Retry; empty if nothing is."""
    inside_retry: ClassVar[str] = ""
    """What is wrong with it inside of a Retry; empty if nothing is."""
    never_inside_retry: ClassVar[str] = ""
    """What is wanted instead, if a Policy with it inside of a Retry is refused; else empty."""
    has_local_state: ClassVar[bool] = False
    """Whether it has state that no store shares between processes."""

    @property
    def shared_state(self) -> str:
        """The layer's state that `Policy.state` shares between processes; empty if it has none."""
        return ""

    def summary(self) -> str:
        """Return a one-line description of what it does."""
        return "a layer"

    def with_key(self, key: str) -> Self:
        """Return the layer with this key for its state, if it has state and no key yet."""
        return self.evolve(key=key) if getattr(self, "key", key) is None else self
