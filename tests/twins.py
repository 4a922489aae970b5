"""The twin of the call engine: the same for threads, made of the one for tasks by replacement.

    python -m tests.twins           # makes it anew; then `ruff format`

Rule: the twin is never written by hand. tests/calls/test_twins.py compares.
"""

from __future__ import annotations

from pathlib import Path


CALLS = Path(__file__).parents[1] / "resilient_bridge/calls"

HEAD = (
    '"""The call engine for sync functions: `engine` without its awaits, made by tests/twins.py."""'
)

#: a text of the engine and what stands in its place in the twin, in this order; each has to be there
REPLACED = {
    "protect_async": "protect_sync",
    "Callable[..., Awaitable[Any]]": "Callable[..., Any]",
    "from collections.abc import Awaitable, Callable": "from collections.abc import Callable",
    "async def ": "def ",
    "async with lock.of_loop()": "with lock.of_threads",
    "await answer if isawaitable(answer) else answer": "answer",
    "return await result if isawaitable(result) else result": "return settled(function, result)",
    "await _called(before, (), {})": "refresh(before)",
    "refreshed(": "refreshed_sync(",
    "await ": "",
    ".suspend()": ".block()",
    ".asleep(": ".sleep(",
    # what only a task needs
    """                if plan.wraps is not None:
                    if operation.inner is not None:
                        target = protect_sync(target, operation.inner)
                    target = plan.wraps(operation, target, discarded)
""": "",
    """                            if running_or_none() is None:
                                running_loop("Retry")
""": "",
    "from inspect import isawaitable\n": "",
    "from ..transports.event_loop import running_loop, running_or_none\n": "",
    """    # aiohttp's responses are closed by a sync `close`, the streams of SDKs by an async one
    close: Any = getattr(answer, "aclose", None) or getattr(answer, "close", None)
    if callable(close):
        closing: Any = close()
        if isawaitable(closing):
            closing
""": """    close = getattr(answer, "close", None)
    if callable(close):
        close()
""",
    """                try:  # noqa: SIM105 -- `suppress` costs as much as all of this
                    reset_frame(token)
                except ValueError:  # of an abandoned coroutine, closed by the garbage collector
                    pass
""": """                reset_frame(token)
""",
    # what only a thread needs: it can be left behind, and its function may end an iterator
    """                target, budget = outer.world.injected(function, binding), operation.budget
""": """                target, budget = outer.world.injected(function, binding), operation.budget
                if plan.thread_timeout is not None:
                    target = run_in_thread(target, plan.thread_timeout, operation.name)
""",
    """                                result = (
                                    function(*args, **kwargs) if kwargs else function(*args)
                                )
""": """                                result = function(*args, **kwargs) if kwargs else function(*args)
                                if type(result) not in PLAIN:
                                    settled(function, result)
                            except StopIteration as raised:
                                let_go(operation, first, first)
                                stopped = raised
                                break
""",
    """                                result = target(*args, **kwargs)
""": """                                result = target(*args, **kwargs)
                                if type(result) not in PLAIN:
                                    settled(function, result)
                            except StopIteration as raised:
                                let_go(operation, first, frame)
                                stopped = raised
                                break
""",
    """            ending: BaseException | None
            first""": """            ending: BaseException | None
            stopped: StopIteration | None = None
            first""",
    """                if ending is not None:
                    ending = exit_around""": """                if stopped is not None:
                    raise stopped
                if ending is not None:
                    ending = exit_around""",
    "error = ending = again = wait = None": "error = ending = stopped = again = wait = None",
    "    finished_with,\n": "    finished_with,\n    let_go,\n",
    "from .retry.coordination import PAUSED, pause_wait, refresh_lock\n": """from .retry.coordination import PAUSED, pause_wait, refresh, refresh_lock
""",
    "from .conditions import": "from .binding import settled\nfrom .conditions import",
    "from .timeout.guard import check_block\n": "from .timeout.guard import check_block, run_in_thread\n",
    "from ..failure.what import matches_ended\n": """from ..failure.failure import PLAIN
from ..failure.what import matches_ended
""",
}


def twin() -> str:
    """The text of engine_sync.py."""
    text = (CALLS / "engine.py").read_text()
    text = HEAD + text[text.index('"""\n\n# A checker') + 3 :]
    for old, new in REPLACED.items():
        if old not in text:
            message = f"text of engine.py expected, got none like {old!r}"
            raise ValueError(message)
        text = text.replace(old, new)
    return text


if __name__ == "__main__":
    (CALLS / "engine_sync.py").write_text(twin())
