"""The calls that must not run twice, and whose end is not known: in one SQLite file, or in memory.

A row is on the disk before its call is made, and its end after it: two flushes a call. That a
caller has got the end is noted with the next write, so after a kill an end may be handed out that
its caller had already, and never a second effect. Rule: a row in doubt is never dropped silently. A
file that is full, damaged, of another program or in use by another process holds every call.
"""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ..calls.effects import (
    Admission,
    Asked,
    Effect,
    EffectLedger,
    EffectRule,
    call_options,
    resolved,
)
from ..config.documents import joined
from ..failure import Failure, StoreError, config_error
from ..failure.teaching import taught
from ..files.owner import Owner
from ..files.private_files import path_of
from ..locks import new_lock
from ..telemetry import emit
from ..telemetry.events import StateSetAside
from ..values.fields import check_flag, read_seconds
from ..values.identical import digest_of
from ..world import current_world
from .sqlite.database import insert, summed
from .sqlite.opening import finished, open_owned, set_aside_whole
from .sqlite.versions import Kind, Layout


if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Self

    from ..calls.effects import DoubtfulCall
    from ..telemetry.work_events import Resolution
    from ..values.fields import Seconds
    from .sqlite.database import Op
    from .sqlite.owned import OwnedDatabase, Renewal
    from .sqlite.versions import Rows


_COLUMNS: Final = ("seq", "name", "digest", "keyed", "began", "ended", "state", "answer")
FILE: Final = Kind(
    0x72_62_65_31,  # "rbe1"
    {1: Layout({"effects": _COLUMNS, "marks": ("seq", "wall")}, {})},
    "effects",
    mends=False,
    forgets=False,
)
"""The file of the effects: a damaged one is left alone, because nothing tells what it held."""
_PUT: Final = insert("effects", or_what="REPLACE", kind=FILE)
_REMOVE: Final = "DELETE FROM effects WHERE seq = ?"

_MOST: Final = 10_000  # rows in a file
_MOST_IN_MEMORY: Final = 1_000
_MOST_BYTES: Final = 64 << 20  # of the answers that are kept
_LARGEST: Final = 1 << 20  # bytes of one answer that is kept
_LOG_LIMIT: Final = 1 << 20  # bytes of the file's log, above which it is begun anew
_LOOK_EVERY: Final = 256  # writes between two looks at its size


class _Book:
    """The rows, and the file that has them. Every method is called with its lock held."""

    def __init__(self, path: Path | None, hold: float, *, keeps_results: bool) -> None:
        self.path = path
        self.hold = hold
        self.most = _MOST_IN_MEMORY if path is None else _MOST
        self.keeps_results = keeps_results
        self.lock = new_lock()
        self.rows: dict[str, Effect] = {}
        self.answers: dict[int, str] = {}  # the texts that are kept, by the number of their row
        self.size = 0  # bytes of these
        self.numbers = 0
        self.later: dict[int, Op] = {}  # changes that are written with the next row
        self.executor: Any = None
        self._database: OwnedDatabase | None = None
        self._owner: Owner | None = None
        self._process = 0
        self._writes = 0
        self._clear_at = 0.0

    # ---- the file

    def open(self) -> None:
        """Open the file, if it is not open. Raises StoreError, ConfigError."""
        if self.path is None:
            return
        if self._database is not None:
            if self._process != os.getpid():
                text = (
                    f"{self.path.name} is in use by the process that opened it, and this is a fork"
                )
                raise StoreError(Failure.of("SYS_STORE_IN_USE", text))
            return
        owner = Owner(self.path).take()
        database, _ = open_owned(owner, self.path, is_machine=True, kind=FILE)
        self._owner, self._database, self._process = owner, database, os.getpid()
        self._load(database.rows("effects"))
        database.in_memory = self._in_memory
        database.on_renewal = partial(_tell_renewal, self.path)

    def _load(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows.clear()
        self.answers.clear()
        self.later.clear()
        self.size = self.numbers = 0
        for number, name, digest, keyed, began, ended, state, answer in rows:
            effect = Effect(number, name, digest, began)
            effect.is_keyed, effect.ended, effect.state = bool(keyed), ended, state
            self.numbers = number
            self.rows[digest] = effect
            if answer is not None:
                self._keep(effect, answer)
                effect.has_answer, effect.answer = True, json.loads(answer)

    def _in_memory(self) -> Rows:
        return {"effects": [self._row(effect) for effect in self.rows.values()]}

    def _row(self, effect: Effect) -> tuple[Any, ...]:
        return (
            effect.number,
            effect.name,
            effect.digest,
            "key" if effect.is_keyed else "",
            float(effect.began),
            float(effect.ended),
            effect.state,
            self.answers.get(effect.number),
        )

    def write(self, *ops: Op) -> None:
        """Write these and what was put off, in one transaction. Raises StoreError."""
        if self._database is None:
            self.later.clear()
            return
        later = dict(self.later)
        self._database.run([*later.values(), *ops])
        for number, op in later.items():
            if self.later.get(number) is op:
                del self.later[number]
        self._writes += 1
        if self._writes % _LOOK_EVERY == 0 and self._database.log_size() > _LOG_LIMIT:
            self._database.begin_log_anew()

    def close(self) -> None:
        """Write what was put off, and release the file. StoreError: not all was written."""
        with self.lock:
            database, owner, executor = self._database, self._owner, self.executor
            if database is None or owner is None or self._process != os.getpid():
                return
            try:
                try:
                    if self.later:
                        self.write()
                finally:
                    self._database = self._owner = self.executor = None
                    database.close()
            finally:
                owner.release()
                if executor is not None:
                    executor.shutdown(wait=False)

    # ---- rows

    def has(self, effect: Effect) -> bool:
        """Return whether this is still the row of its call."""
        return self.rows.get(effect.digest) is effect

    def put(self, effect: Effect, *, replaces: Effect | None) -> None:
        """Write a new row. Raises StoreError: then nothing has changed."""
        ops: list[Op] = [] if replaces is None else [(_REMOVE, (replaces.number,))]
        self.write(*ops, self.changed(effect))
        if replaces is not None:
            self.forget(replaces)
        self.rows[effect.digest] = effect

    def changed(self, effect: Effect) -> Op:
        """Return the operation that writes a row anew."""
        return _PUT, summed(self._row(effect))

    def forget(self, effect: Effect) -> Op:
        """Remove a row from memory; return the operation that removes it from the file."""
        if self.has(effect):
            del self.rows[effect.digest]
        self.size -= len(self.answers.pop(effect.number, ""))
        return _REMOVE, (effect.number,)

    def _keep(self, effect: Effect, text: str) -> None:
        self.answers[effect.number] = text
        self.size += len(text)

    def keep_answer(self, effect: Effect, answer: Any) -> None:
        """Keep the answer as JSON, if answers are kept and it fits."""
        if not self.keeps_results:
            return
        with suppress(TypeError, ValueError, RecursionError):
            text = json.dumps(answer, allow_nan=False)
            if len(text) <= _LARGEST and json.loads(text) == answer:
                self._keep(effect, text)

    def make_room(self, mono: float, wall: float) -> list[Effect]:
        """Remove ended rows whose time is over; if it is full, also those in doubt: return these.

        Raises StoreError if there is no room.
        """
        is_full = len(self.rows) >= self.most or self.size >= _MOST_BYTES
        if not is_full and self._clear_at - self.hold < wall < self._clear_at:
            return []
        self._clear_at = wall + self.hold / 4
        over = [
            effect
            for effect in self.rows.values()
            if not effect.is_running and effect.age(mono, wall) >= self.hold
        ]
        if not is_full:
            over = [effect for effect in over if effect.state != "open"]
        for effect in over:
            self.later[effect.number] = self.forget(effect)
        if len(self.rows) >= self.most or self.size >= _MOST_BYTES:
            raise StoreError(self._full())
        return [effect for effect in over if effect.state == "open"]

    def _full(self) -> Failure:
        where = "the memory for effects" if self.path is None else self.path.name
        return Failure.of(
            "SYS_STORE_UNAVAILABLE",
            f"{where} is full: {len(self.rows):,} calls are in doubt or have an end that nobody got",
            retryable=False,
            suggestions=(
                f"the first of them leaves after {self.hold:.0f} s",
                "a verify function resolves them when they are called again",
            ),
        )


class Effects(EffectLedger):
    """Remembers calls that must not run twice, so that one in doubt is not made again by itself.

        effects = rb.stores.Effects("effects.db", ignore={"pay": ["trace_id"]})

        @rb.resilient(idempotent=False, effects=effects)
        async def pay(order: str, amount: int, trace_id: str = "") -> str: ...

    A call that is identical to one whose outcome is not known raises EffectHeldError, over restarts
    too, for `hold` seconds. `verify` is a function of a DoubtfulCall that returns `Ran(answer)`,
    NOT_RUN, or None if it cannot say. Identical are calls of one name and of equal arguments
    without those in `ignore`; or of one `key`, a function of the arguments by name. Each of the
    three is one for all names, or a mapping of names. `results` keeps answers in the file, as JSON.

    Without a path it is in memory. One process uses a file; its directory is created 0700, the file
    0600. `scope` separates users of one file. ConfigError names a wrong argument.
    """

    @taught
    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        scope: str = "",
        hold: Seconds = 600,
        results: bool = False,
        key: Callable[[Mapping[str, Any]], str] | Mapping[str, Any] | None = None,
        ignore: Collection[str] | Mapping[str, Any] = (),
        verify: Callable[[DoubtfulCall], Any] | Mapping[str, Any] | None = None,
    ) -> None:
        """Check the arguments; the file is opened with the first call."""
        self._path = None if path is None else path_of(path, "Effects.path")
        if not isinstance(cast("object", scope), str):
            raise config_error("Effects.scope", "a text", scope)
        check_flag("Effects.results", results)
        self.hold = read_seconds("Effects.hold", hold)
        self._scope = scope
        self._key = _by_name("Effects.key", key, "a function of the arguments", callable)
        self._verify = _by_name("Effects.verify", verify, "a function of a DoubtfulCall", callable)
        self._ignore = _by_name("Effects.ignore", ignore or None, "names of arguments", _are_names)
        self._book = _Book(self._path, self.hold, keeps_results=results)
        self._close = weakref.finalize(self, _close_quietly, self._book)

    def __repr__(self) -> str:
        """Return the name of the file, and how many calls it has."""
        where = "in memory" if self._path is None else self._path.name
        return f"<Effects {where}, {len(self._book.rows)} calls>"

    # ---- for its user ---------------------------------------------------------------------------

    def calling(
        self, *, key: str | None = None, again: bool = False
    ) -> AbstractContextManager[None]:
        """Say something of the calls inside the `with` block.

        `key`: they are identical to others with this key, whatever their arguments, and a call of a
        key that has ended is not made again within `hold`. `again=True`: they are made though an
        identical one is in doubt.
        """
        if key is not None and (not isinstance(cast("object", key), str) or not key):
            raise config_error("Effects.calling(key)", "a text that is not empty, or None", key)
        check_flag("Effects.calling(again)", again)
        return call_options(key, again=again)

    def set_aside(self) -> Path:
        """Rename a damaged file; the next call starts a new one. Returns its new path.

        What was in doubt then is not known any more: look at it first. Raises StoreError if the
        file is in use, and ConfigError without one.
        """
        if self._path is None or not self._path.exists():
            raise config_error("Effects.set_aside", "a file that exists", str(self._path))
        self.close()
        with self._book.lock:
            owner = Owner(self._path).take()
            try:
                aside = set_aside_whole(self._path)
            finally:
                owner.release()
        failure = Failure.of("SYS_STATE_DAMAGED", f"{self._path.name} was set aside by its user")
        emit(
            StateSetAside(
                path=str(self._path),
                set_aside=str(aside),
                source="a new file",
                lost="which calls were in doubt",
                failure=failure,
            )
        )
        return aside

    def close(self) -> None:
        """Release the file; the next call opens it again. May be called again."""
        self._book.close()

    def __enter__(self) -> Self:
        """Return it; it is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the file."""
        self.close()

    # ---- for the gate ---------------------------------------------------------------------------

    @property
    def rows(self) -> Mapping[str, Effect]:
        """The rows, always in the same mapping; an internal property."""
        return self._book.rows

    def rule(self, name: str) -> EffectRule:
        """Return what applies to the calls of this name; an internal method."""
        return EffectRule(
            key=_of_name(self._key, name),
            ignore=frozenset(_of_name(self._ignore, name) or ()),
            verify=_of_name(self._verify, name),
        )

    def begin(self, asked: Asked, mono: float, wall: float, *, replaces: int = 0) -> Admission:
        """Write a row before its call, or return that of an identical one; an internal method."""
        book = self._book
        digest = digest_of(self._scope, asked.digest) if self._scope else asked.digest
        with book.lock:
            book.open()
            found = book.rows.get(digest)
            how: Resolution = "hold"
            if found is not None:
                if asked.is_again:
                    how = "again"
                elif found.number == replaces and found.state == "open":
                    how = "not_run"
                elif found.is_running or found.age(mono, wall) < self.hold:
                    return Admission(found, is_new=False)
            over = book.make_room(mono, wall) if found is None else []
            book.numbers += 1
            effect = Effect(book.numbers, asked.name, digest, wall, mono)
            effect.is_keyed = asked.key is not None
            book.put(effect, replaces=found)
        for each in over:
            resolved(each, "hold")
        is_resolved = found is not None and found.state == "open"
        return Admission(effect, is_new=True, replaced=found if is_resolved else None, how=how)

    def end(self, effect: Effect, wall: float, *answer: Any) -> None:
        """Write that a call ran; an internal method."""
        book = self._book
        with book.lock:
            if not book.has(effect):
                return
            effect.state, effect.ended, effect.late = "ran", wall, ()
            if answer:
                effect.has_answer, (effect.answer,) = True, answer
                book.keep_answer(effect, effect.answer)
            self._written(effect, book.changed(effect))

    def drop(self, effect: Effect) -> None:
        """Remove the row of a call that did not run; an internal method."""
        book = self._book
        with book.lock:
            if book.has(effect):
                self._written(effect, book.forget(effect))

    def _written(self, effect: Effect, op: Op) -> None:
        book = self._book
        book.later[effect.number] = op
        with suppress(StoreError):  # it stays put off: the row says more doubt than there is
            book.write()

    def leave(self, effect: Effect, wall: float) -> None:
        """Note that the caller has gone without the end; an internal method."""
        book = self._book
        with book.lock:
            effect.is_abandoned = True
            late = effect.late
            if effect.digest not in book.rows:  # another call has taken its place, and has ended
                with suppress(StoreError):
                    book.put(effect, replaces=None)
        if late:
            self.end(effect, wall, *late)

    def took(self, effect: Effect, *answer: Any) -> bool:
        """Give the end to the caller who asks; an internal method."""
        book = self._book
        with book.lock:
            if not book.has(effect):
                return False
            if effect.is_keyed:
                if effect.state != "given":
                    effect.state = "given"
                    effect.ended = effect.ended or current_world().wall()
                    if effect.number not in book.answers:
                        if answer:
                            book.keep_answer(effect, *answer)
                        effect.has_answer = effect.number in book.answers
                        effect.answer = answer[0] if effect.has_answer else None
                    book.later[effect.number] = book.changed(effect)
            else:
                book.later[effect.number] = book.forget(effect)
            return True

    def enter(self, effect: Effect) -> None:
        """Note that a function of the call runs; an internal method."""
        with self._book.lock:
            effect.inside += 1

    def exit(self, effect: Effect, wall: float, *answer: Any) -> None:
        """Note that a function of the call has ended; an internal method."""
        with self._book.lock:
            effect.inside -= 1
            effect.late = answer
            is_late = effect.is_abandoned and bool(answer)
        if is_late:
            self.end(effect, wall, *answer)

    async def in_thread(self, work: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Do this without blocking the loop; an internal method."""
        if self._path is None:
            return work(*args, **named)
        book = self._book
        if book.executor is None:
            book.executor = current_world().new_executor("effects")
        loop = asyncio.get_running_loop()
        return await finished(loop.run_in_executor(book.executor, partial(work, *args, **named)))


def _tell_renewal(path: Path, renewal: Renewal) -> None:
    emit(
        StateSetAside(
            path=str(path),
            set_aside=renewal.set_aside,
            source="what the open file and this process have, written anew",
            lost=renewal.lost or "nothing",
            failure=Failure.of("SYS_STATE_DAMAGED", f"{path.name} {renewal.what}"),
        )
    )


def _close_quietly(book: _Book) -> None:
    with suppress(StoreError):
        book.close()


def _are_names(value: object) -> bool:
    return (
        not isinstance(value, str | Mapping)
        and isinstance(value, Collection)
        and all(isinstance(name, str) for name in cast("Collection[object]", value))
    )


def _by_name(
    path: str, value: Any, wanted: str, fits: Callable[[Any], bool]
) -> Mapping[str, Any] | None:
    """Return a mapping of names; one for all names has the name "". Raises ConfigError."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        if not fits(value):
            raise config_error(path, f"{wanted}, or a mapping of names to them", value)
        return {"": value}
    by_name = cast("Mapping[object, object]", value)
    for name, each in by_name.items():
        if not isinstance(name, str) or not name:
            raise config_error(path, "names that are not empty", name)
        if not fits(each):
            raise config_error(joined(path, name), wanted, each)
    return cast("dict[str, Any]", dict(by_name))


def _of_name(values: Mapping[str, Any] | None, name: str) -> Any:
    """Return what is for a name: as it is, or without the module and the class before it."""
    if not values:
        return None
    for each in (name, name.rpartition(".")[2], ""):
        if each in values:
            return values[each]
    return None
