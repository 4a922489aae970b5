"""The base class of the policy values that a Policy is composed of, a user's own among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..failure.teaching import TeachesNames
from ..values.fields import Value


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self


class Layer(TeachesNames, Value):
    """One layer of a Policy, such as a Retry; subclass it to write one of your own.

        class Announced(rb.Layer):
            def enter(self, attempt):               # before each attempt; raise to refuse it
                print("attempt", attempt.number)
            def leave(self, attempt, error):        # after it; no error if it succeeded
                print("failed" if error else "worked")
        rb.Policy(Announced()).call(len, "abc")

    It stands where it is written: inside of the Retry it is entered with each attempt, outside of
    it once per call. One object serves all functions of its policies, in threads and tasks, so what
    it keeps needs a lock.
    """

    __slots__ = ()

    conditions_in: ClassVar[tuple[str, ...]] = ()
    """The fields that may hold conditions about a failure."""
    usual_position: ClassVar[int | None] = 5
    """Its position in the recommended order, outermost first, where `Policy.replace` adds it; None
    for a Policy, which is flattened.
    """
    outside_retry: ClassVar[str] = ""
    """What is wrong with it outside of a Retry; empty if nothing is."""
    inside_retry: ClassVar[str] = ""
    """What is wrong with it inside of a Retry; empty if nothing is."""
    never_inside_retry: ClassVar[str] = ""
    """What is wanted instead, if a Policy with it inside of a Retry is refused; else empty."""
    never_outside_retry: ClassVar[str] = ""
    """What is wanted instead, if a Policy with it outside of a Retry is refused; else empty."""
    is_keyed: ClassVar[bool] = False
    """Whether its `key` names its state, or is a function of the call's arguments that selects it."""
    only_inside_fallback: ClassVar[str] = ""
    """What is wanted instead, if a Policy with it outside of a Fallback is refused; else empty."""
    needs_permission: ClassVar[bool] = False
    """Whether the function has to be one that may run twice: `idempotent=True`."""
    only_innermost: ClassVar[bool] = False
    """Whether a Policy with a layer inside of it is refused: it belongs to the function alone."""
    has_local_state: ClassVar[bool] = False
    """Whether it has state that no store shares between processes."""

    def enter(self, attempt: Any) -> Any:  # noqa: ARG002 -- of those who write one
        """Let an attempt in: return None, or the seconds to wait before it (2, "2s").

        `attempt` is a `rb.calls.Attempt`. Raise to refuse: the function is not called, and the
        error is repeated if the Retry around it says so, also without permission. The wait is the
        call's own: it is bounded by a Deadline around, and no thread or loop is blocked by it.
        """
        return None

    def leave(self, attempt: Any, error: BaseException | None) -> Any:  # noqa: ARG002 -- as above
        """Take leave of an attempt that was let in, however it ended.

        `error` is None if it succeeded. Return None, or another exception to be raised in the place
        of `error`. A success and a cancellation stay what they are.
        """
        return None

    @property
    def worst_wait(self) -> float:
        """The most seconds that an attempt may wait in it, inf without a limit: for `explain()`."""
        return 0.0

    @property
    def key_function(self) -> Callable[..., Any] | None:
        """The function of the call's arguments that selects its state; None if its key is none."""
        key: Any = getattr(self, "key", None) if self.is_keyed else None
        return key if callable(key) else None

    @property
    def shared_state(self) -> str:
        """The layer's state that `Policy.state` shares between processes; empty if it has none."""
        return ""

    def summary(self) -> str:
        """Return a one-line description of what it does."""
        return "a layer of yours"

    def with_key(self, key: str) -> Self:
        """Return the layer with this key for its state, if it has state and no key yet."""
        return self.evolve(key=key) if getattr(self, "key", key) is None else self
