"""A circuit for tests, which pass the times and read the transitions that it reported."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from resilient_bridge.calls import Breaker
from resilient_bridge.failure import CircuitOpenError
from tests.internals.calls import CircuitState


class Circuit(CircuitState):
    """A circuit that records its transitions and runs calls for a test."""

    __slots__ = ("transitions",)

    def __init__(self, breaker: Breaker, seed: int = 0) -> None:
        self.transitions: list[tuple[str, str, str, float]] = []
        super().__init__(
            "github",
            breaker,
            random.Random(seed),
            lambda _, *transition: self.transitions.append(transition),
        )

    def fail(self, times: int = 1, now: float = 0.0, **how) -> None:
        for _ in range(times):
            self.failed(self.admit(now), now, 0.0, **how)

    def succeed(self, times: int = 1, now: float = 0.0) -> None:
        for _ in range(times):
            self.succeeded(self.admit(now), now, 0.0)

    @property
    def reasons(self) -> list[str]:
        return [reason for _, _, reason, _ in self.transitions]


def opened(breaker: Breaker | None = None, times: int = 3) -> Circuit:
    """A circuit that three consecutive failures opened at 0, for 10 s."""
    circuit = Circuit(breaker or Breaker.consecutive(3, open_for=10))
    circuit.fail(times)
    assert circuit.state == "open"
    return circuit


def rejection(circuit: CircuitState, now: float) -> CircuitOpenError:
    with pytest.raises(CircuitOpenError) as caught:
        circuit.admit(now)
    return caught.value


def in_threads(call: Callable[[], None], count: int) -> None:
    """Run `call` in `count` threads at once; an error in one of them is raised here."""
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
