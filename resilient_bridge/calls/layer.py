"""The base of the policy values that a Policy is composed of, and what each says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..values.fields import Value


if TYPE_CHECKING:
    from typing import Self


class Layer(Value):
    """One layer of a Policy, such as a Retry, or a Policy itself."""

    __slots__ = ()

    conditions_in: ClassVar[tuple[str, ...]] = ()
    """The fields that may hold conditions about a failure."""
    usual_position: ClassVar[int | None] = None
    """Where it stands in the order that makes sense, outermost first; None for what is taken apart, a Policy."""
    outside_retry: ClassVar[str] = ""
    """What is wrong with it outside of a Retry; empty for nothing."""
    inside_retry: ClassVar[str] = ""
    """What is wrong with it inside of a Retry; empty for nothing."""
    has_local_state: ClassVar[bool] = False
    """Whether it has state that no store shares between processes."""

    @property
    def shared_state(self) -> str:
        """What of it `Policy.state` shares between processes; empty for nothing."""
        return ""

    def summary(self) -> str:
        """Return in one line what it does."""
        return "a layer"

    def with_key(self, key: str) -> Self:
        """Return it with this key for its state, if it has state and names no key itself."""
        return self.evolve(key=key) if getattr(self, "key", key) is None else self
