"""One adaptive limit: how many calls run at once, how fast they start, who is next. Numbers only; pure.

Two numbers are learnt. `at_once` is how many calls may run: halved by a refusal, at most once per
round trip (only calls that began after the last cut count), and grown by one per round trip of
successes, or after two seconds without a refusal while somebody waits, because calls of minutes
would never grow it. It returns at once to as many as ran beside the last refused call and were not
refused, and where that is what ran beside the one before, too, it goes past them at half the pace:
there is the server's limit, and each attempt to find a higher one costs a refusal.

`spacing` is the seconds between two starts: a server that takes one call a second refuses the
second of two that start together, however few run. It is tried where halving cannot help any more,
or where the number cannot be the cause, kept if it brings more calls through, and off otherwise.

Waiting calls are in one queue, in the order in which they came. A refused call keeps its number, so
it is at the front again, and while it waits for its Retry-After or for a growing pause the door is
shut for all: nobody overtakes.

Rule: times and randomness are arguments; nothing here waits, locks or wakes. `step` says which
calls may go or have to give up, and `next_at` when it is worth asking again.
"""

from __future__ import annotations

from bisect import insort
from itertools import count
from math import inf, isnan, nan
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias


if TYPE_CHECKING:
    import random
    from collections.abc import Sequence


# ---- constants, in seconds unless they say otherwise; chosen by bench/quota.py -------------------

FORGOTTEN_AFTER: Final = 600.0
"""Without a refusal, then there is no limit any more."""
EXHAUSTED_AFTER: Final = 30.0
"""Of refusals without a success, then one call tries and the others fail at once."""
PAUSE: Final = 0.5
"""After a refusal that says no time; half to full of it is drawn, and it doubles while all fail."""
LONGEST_PAUSE: Final = 10.0
LONGEST_SHARED_PAUSE: Final = 1.0
"""While another limit of the same credential has successes: the server lives, and its room is shared."""
_HINT_SPREAD: Final = 0.1  # of a Retry-After: calls of other processes got the same
LONGEST_HINT: Final = 60.0
"""Of a header of a success that shuts the door: one that says more is not believed."""
_GROWS_EVERY: Final = 2.0  # without a refusal, while somebody waits
_PROBING: Final = 0.5  # times the pace of growth, past a number at which refusals came twice
_FIRST_STEPS: Final = 0.8  # times the spacing, per success, until the first refusal
_STEPS: Final = 0.995  # times the spacing, per success
_LONG_STEPS: Final = 0.98  # the same, once nothing was refused for `_CALM`
_CALM: Final = 20.0
_BACK: Final = 1.1  # times the spacing, per refusal
_FAR_BACK: Final = 1.5  # the same, for a refusal after a refusal
_FEW: Final = 2  # calls at once from which halving cannot help
_TRIAL: Final = 12  # successes by which the spacing is judged
_KNOWN: Final = 3  # successes that have to be known before it is tried
_WORTH: Final = 1.3  # times the successes without it
_WORTH_ALONE: Final = 1.1  # the same, where a call was refused that ran alone
_HARDER: Final = 4  # times as many refusals before the next trial, after one that failed
_STARVED: Final = range(3, 6)  # cuts since the last success for which the others make room
_OF_A_STREAM: Final = 0.25  # of the patience: for so long an open stream keeps its permit
_TINY: Final = 16  # a spacing below this part of a call's duration is none
_ROUNDING: Final = 1e-9

Ended: TypeAlias = Literal["", "admitted", "exhausted", "impatient", "throttled"]


class Ticket:
    """A call at the door of a limit, from its first attempt to its last."""

    __slots__ = (
        "after", "arrived", "began", "beside", "ended", "has_permit", "idle", "number", "refusals",
        "wake",
    )  # fmt: skip

    _numbers = count()

    def __init__(self, arrived: float) -> None:
        self.arrived = arrived
        self.number = next(self._numbers)
        self.began: float | None = None  # when its attempt started; None: it was never sent
        self.beside = 0  # how many ran when it started, itself included
        self.after = inf  # how long after the start before it
        self.has_permit = False
        self.refusals = 0
        self.ended: Ended = ""  # what became of its wait
        self.idle = 0.0  # how long nothing had moved when its wait began
        self.wake: Any = None  # of the driver

    def __lt__(self, other: Ticket) -> bool:
        return (self.arrived, self.number) < (other.arrived, other.number)


class Machine:
    """One limit. `at_once` is what it begins with; `now` is the time by which it is asked, too."""

    __slots__ = (
        "_acks",
        "_cut_at",
        "_duration",
        "_grew_at",
        "_grows_from",
        "_hits",
        "_idle_from",
        "_idle_sum",
        "_idle_then",
        "_is_fresh",
        "_known",
        "_known_before",
        "_needs",
        "_starts_at",
        "_streams",
        "_strikes",
        "_trial",
        "_worst",
        "at_once",
        "earlier",
        "is_exhausted",
        "least",
        "most",
        "opens_at",
        "patience",
        "queue",
        "refused",
        "refused_at",
        "running",
        "spacing",
        "succeeded_at",
    )  # fmt: skip

    def __init__(
        self, at_once: float, now: float, *, least: int, most: int | None, patience: float
    ) -> None:
        self.configure(least=least, most=most, patience=patience)
        self.at_once = min(max(float(at_once), self.least), self.most)
        self.queue: list[Ticket] = []  # by arrival
        self.running = 0  # places that are taken
        self.earlier = 0  # calls in flight that began before the limit, so they have no places
        self.is_exhausted = (
            False  # the server has refused everybody for so long that waiting is no help
        )
        self.refused = 0  # refusals so far
        self._streams: list[
            tuple[float, Ticket]
        ] = []  # open ones, and when they lose their permits
        self.opens_at = -inf  # until then nobody starts
        self.refused_at = self.succeeded_at = now
        self.spacing = 0.0
        self._starts_at = -inf  # when the spacing allows the next start
        self._cut_at = self._grew_at = now
        self._strikes = 0  # cuts since the last success
        self._grows_from = -inf  # it makes room for another limit until then
        self._known = 0  # as many ran beside a call that was refused, and were not
        self._known_before = 0  # the same, of the last cut but one
        self._duration = 0.0  # of a call that succeeds, smoothed
        self._acks: list[float] = []  # when the last ones succeeded
        self._hits = 0  # refusals that halving could not help
        self._needs = 1  # so many are needed until a spacing is tried
        self._trial: _Trial | None = None
        self._worst = inf  # the longest spacing that can be of use
        self._is_fresh = False  # a spacing that no refusal has corrected yet
        # How long nothing has moved, in all: until `_idle_from`, and since then (None: a call runs).
        self._idle_sum = self._idle_then = 0.0
        self._idle_from: float | None = now

    def configure(self, *, least: int, most: int | None, patience: float) -> None:
        """Apply other numbers."""
        self.least, self.most, self.patience = least, inf if most is None else most, patience
        if hasattr(self, "at_once"):
            self.at_once = min(max(self.at_once, self.least), self.most)

    # ---- what happens ---------------------------------------------------------------------------

    def join(self, ticket: Ticket, now: float) -> None:
        """Put a call into the queue: behind all that came before it, so a refused one in front."""
        ticket.ended = ""
        if not ticket.refusals:
            ticket.idle = self._idle(now)
        insort(self.queue, ticket)

    def leave(self, ticket: Ticket, now: float) -> None:
        """Take a call out of the queue; a place that it got in the same instant is given back."""
        if ticket in self.queue:
            self.queue.remove(ticket)
        self.released(ticket, now)

    def released(self, ticket: Ticket, now: float) -> None:
        """Give back a place, after an end that says nothing about the limit."""
        if ticket.has_permit:
            ticket.has_permit = False
            self.running -= 1
            self._rest(now)

    def began_with_calls(self, number: int) -> None:
        """Note that so many calls are in flight that began before there was a limit."""
        self.earlier += number
        self._idle_from = None

    def earlier_ended(self, now: float) -> None:
        """Count the end of a call that began before there was a limit."""
        if self.earlier:
            self.earlier -= 1
            self._rest(now)

    @property
    def _in_flight(self) -> int:
        return self.running + self.earlier

    def _rest(self, now: float) -> None:
        if self.is_idle:
            self._idle_from = now

    def succeeded(self, ticket: Ticket, now: float, *, is_stream: bool = False) -> None:
        """Count a call that the server took: the number grows if it was what held others back.

        `is_stream`: it has only begun, so it keeps its permit until it ends, for at most a quarter of
        the patience.
        """
        self.succeeded_at, self._strikes, self.is_exhausted = now, 0, False
        self._idle_then = self._idle(now)
        if not ticket.has_permit or ticket.began is None:
            return
        holds_back = self._in_flight + 1 > self.at_once
        is_full = bool(self.queue) or holds_back
        if is_stream:
            self._streams.append((now + self.patience * _OF_A_STREAM, ticket))
        else:
            self.released(ticket, now)
        duration = now - ticket.began
        self._duration += (duration - self._duration) * (0.2 if self._duration else 1.0)
        self._acks = [*self._acks[1 - _TRIAL :], now]
        if is_full:
            to_known = min(1.0, self._known - self.at_once)
            by = max(to_known, self._pace() / self.at_once)
            # a spacing on trial is to limit: with too few at once it could not show its worth
            self._grow(1.0 if self._trial is not None and holds_back else by, now)
        if self.spacing:
            self._space_less(now)

    def refuse(
        self,
        ticket: Ticket,
        now: float,
        retry_after: float | None,
        rng: random.Random,
        is_shared: bool = False,
    ) -> None:
        """Count a refusal: cut the numbers once per round trip, and shut the door for a while.

        `is_shared`: another limit of the same credential has had successes or refusals just now,
        so the room is shared with it.
        """
        self.released(ticket, now)
        ticket.refusals += 1
        self.refused += 1
        self.refused_at = now
        if self.at_once == inf:  # it was forgotten while this call ran
            self.at_once = max(self.running + 1.0, self.least)
        if ticket.began is not None and ticket.began > self._cut_at:
            self._cut(ticket, now, is_shared=is_shared)
        else:  # of the same round trip: what is left in flight is what the server took
            self._known = min(self._known, self._in_flight)
        if retry_after is not None and retry_after > 0:
            pause = retry_after * (1 + _HINT_SPREAD * rng.random())
        else:
            most = LONGEST_SHARED_PAUSE if is_shared else LONGEST_PAUSE
            pause = min(most, PAUSE * 2 ** min(16, max(0, self._strikes - 1)))
            pause *= 0.5 + 0.5 * rng.random()
        self.opens_at = max(self.opens_at, now + pause)
        if not is_shared and self.is_idle and now - self.succeeded_at >= EXHAUSTED_AFTER:
            self.is_exhausted = True

    @property
    def is_idle(self) -> bool:
        """Whether no call of this limit is in flight."""
        return self.running == self.earlier == 0

    @property
    def is_starved(self) -> bool:
        """Whether it was refused several times in a row; only for some, so that one that is dead for
        good does not hold back the others for ever.
        """
        return self._strikes in _STARVED

    def make_room(self, now: float) -> None:
        """Run fewer at once for a while, because another limit of the same credential is starved."""
        self.at_once = max(min(self.at_once, self.running + 1) / 2, self.least)
        self._cut_at = now
        self._known = self._known_before = 0
        self._grows_from = now + max(_GROWS_EVERY, 2 * self._duration)

    def heard(self, wait: float, now: float) -> None:
        """Shut the door for `wait` seconds, because a header says that nothing is left until then."""
        if 0 < wait <= LONGEST_HINT:
            self.opens_at = max(self.opens_at, now + wait)

    # ---- what follows ---------------------------------------------------------------------------

    def step(self, now: float) -> list[Ticket]:
        """Return the calls whose wait is over: `ended` of each says how."""
        over: list[Ticket] = []
        while self._streams and self._streams[0][0] <= now:
            self.released(self._streams.pop(0)[1], now)
        if now >= self.refused_at + FORGOTTEN_AFTER:
            self.at_once, self.spacing, self.opens_at = inf, 0.0, -inf
            self.is_exhausted = False
        while self.queue and self._may_start(now):
            self._admit(self.queue.pop(0), now, over)
        if self.queue and self.is_exhausted:
            keep = 1 if self.is_idle else 0
            over += self._ended(self.queue[keep:], "exhausted")
            del self.queue[keep:]
        if self.queue and self.is_idle:
            tired = [each for each in self.queue if self.remaining_patience(each, now) <= _ROUNDING]
            over += self._ended(tired, "impatient")
            self.queue = [each for each in self.queue if not each.ended]
        return over

    def next_at(self, now: float) -> float:
        """Return when `step` may say something new although nothing happens; inf for never."""
        if not self.queue:
            return inf
        at = max(self.opens_at, self._starts_at)
        if not self._has_room():
            room_at = min([self._grows_at(), *(ends for ends, _ in self._streams[:1])])
            at = max(at, room_at)
        if self.is_idle:
            at = min(at, now + min(self.remaining_patience(each, now) for each in self.queue[:1]))
        return max(at, now)

    def remaining_patience(self, ticket: Ticket, now: float) -> float:
        """Return for how many seconds more nothing may move until this call gives up."""
        return self.patience - (self._idle(now) - max(ticket.idle, self._idle_then))

    def remaining_wait(self, now: float) -> float:
        """Return the seconds for which the door is shut, 0 if it is open."""
        return max(0.0, self.opens_at - now)

    def is_unused(self, now: float) -> bool:
        """Return whether nothing would be lost with it: nobody waits, and it is forgotten."""
        return not self.queue and now >= self.refused_at + FORGOTTEN_AFTER

    def _idle(self, now: float) -> float:
        """Return how long nothing of this limit was under way, in all."""
        return self._idle_sum + (0.0 if self._idle_from is None else now - self._idle_from)

    def _has_room(self) -> bool:
        return self._in_flight + 1 <= self.at_once + _ROUNDING

    def _grows_at(self) -> float:
        # while the door is shut, no refusal means nothing
        return max(self.refused_at, self._grew_at, self.opens_at) + _GROWS_EVERY / self._pace()

    def _may_start(self, now: float) -> bool:
        now += _ROUNDING
        if now < self.opens_at or (self.is_exhausted and not self.is_idle):
            return False
        if not self._has_room() and now >= self._grows_at():
            self._grow(1.0, now)
        return self._has_room() and now >= self._starts_at

    def _admit(self, ticket: Ticket, now: float, over: list[Ticket]) -> None:
        self._idle_sum, self._idle_from = self._idle(now), None
        self.running += 1
        ticket.has_permit, ticket.began, ticket.beside = True, now, self.running
        ticket.after = now - (self._starts_at - self.spacing)
        self._starts_at = now + self.spacing
        over += self._ended([ticket], "admitted")

    @staticmethod
    def _ended(tickets: list[Ticket], how: Ended) -> list[Ticket]:
        for ticket in tickets:
            ticket.ended = how
        return tickets

    # ---- shared between processes ---------------------------------------------------------------

    def numbers(self, ahead: float = 0.0) -> tuple[float, ...]:
        """Return what was learnt, for another process: all but its calls, and the settings.

        Times are those of a clock that is so many seconds `ahead`.
        """
        trial = self._trial
        return (
            *[float(getattr(self, name)) + ahead * (name in _TIMES) for name in _LEARNT],
            nan if self._idle_from is None else self._idle_from + ahead,
            *((nan, 0, 0, 0) if trial is None else trial.numbers(ahead)),
            *[ack + ahead for ack in self._acks],
        )

    def take(self, numbers: Sequence[float], ahead: float = 0.0) -> None:
        """Replace what was learnt by the `numbers` of another process, whose clock is `ahead`.

        Raises ValueError or OverflowError if they are not what `numbers` returns.
        """
        if len(numbers) < len(_LEARNT) + _OTHERS:
            raise ValueError(f"{len(numbers)} numbers are no limit")
        learnt = [
            kind(number - ahead * (name in _TIMES))
            for (name, kind), number in zip(_LEARNT.items(), numbers, strict=False)
        ]
        if any(map(isnan, learnt)):
            raise ValueError("a number is missing")
        for name, value in zip(_LEARNT, learnt, strict=True):
            setattr(self, name, value)
        self.at_once = min(max(self.at_once, self.least), self.most)
        idle_from, *trial = numbers[len(_LEARNT) : len(_LEARNT) + _OTHERS]
        self._idle_from = None if isnan(idle_from) else idle_from - ahead
        self._trial = None
        if not isnan(trial[0]):
            self._trial = _Trial(trial[0] - ahead, trial[2], trial[3])
            self._trial.calls = int(trial[1])
        self._acks = [ack - ahead for ack in numbers[len(_LEARNT) + _OTHERS :]]

    def recount(self, running: int, earlier: int, now: float) -> None:
        """Take these for the calls in flight of all processes."""
        self.running, self.earlier = running, earlier
        if self.is_idle and self._idle_from is None:
            self._idle_from = now
        elif not self.is_idle and self._idle_from is not None:
            self._idle_sum, self._idle_from = self._idle(now), None

    # ---- the two numbers ------------------------------------------------------------------------

    def _grow(self, by: float, now: float) -> None:
        if now >= self._grows_from:
            self.at_once = min(self.at_once + by, self.most)
        self._grew_at = now

    def _pace(self) -> float:
        """Return how fast the number grows: 1, or less where it is about to pass the server's limit.

        With one call at once a slower pace would only delay the trial of a spacing.
        """
        is_limit = self._known > 1 and abs(self._known - self._known_before) <= 1
        return _PROBING if is_limit and self._known <= self.at_once < self._known + 1 else 1.0

    def _cut(self, ticket: Ticket, now: float, *, is_shared: bool) -> None:
        """Lower one of the numbers: the spacing while there is one, else how many run at once."""
        self._judge(now)
        if self.spacing:
            # the first refusal returns it to the last one that was not refused
            back = 1 / _FIRST_STEPS if self._is_fresh else _BACK
            factor = _FAR_BACK if self._strikes else back
            self.spacing = min(self._worst, self.spacing * factor)
            if self._is_fresh and self._trial is not None:  # only now it is what it will be
                self._trial = _Trial(now, self._trial.rate, self._trial.worth)
            self._is_fresh = False
        else:
            if self.at_once > _FEW + 1:
                self._acks = []
            self._known_before = self._known
            self._known = 0 if is_shared else self._in_flight
            self.at_once = max(self.at_once / 2, self.least)
            if not is_shared:
                self._try_spacing(ticket, now)
        self._cut_at = now
        self._strikes += 1

    def _try_spacing(self, ticket: Ticket, now: float) -> None:
        """Begin to space the starts, where fewer at once than one is what halving would need.

        Or where the number cannot be the cause: the call started soon after another one, and was
        refused beside fewer than ran beside the one refused before.
        """
        is_few = ticket.beside <= _FEW and len(self._acks) >= _KNOWN
        usual = self._duration / max(1, self._known)  # between two starts
        is_soon = 0 < self._known < self._known_before and ticket.after < usual / 2
        if not self._duration or not (is_few or is_soon):
            return
        self._hits += 1
        if self._hits < self._needs:
            return
        rate, worth = 1 / usual, _WORTH
        if is_few:
            usual, rate = self._duration, 1 / self._duration
        if is_few and ticket.beside == 1:
            worth = _WORTH_ALONE
            rate = (len(self._acks) - 1) / max(_ROUNDING, self._acks[-1] - self._acks[0])
        self.spacing, self._is_fresh = usual, True
        self._worst = 2 * max(1 / rate, self._duration)
        self._trial = _Trial(now, rate, worth)

    def _space_less(self, now: float) -> None:
        is_calm = now - self.refused_at > _CALM
        self.spacing *= _FIRST_STEPS if self._is_fresh else _LONG_STEPS if is_calm else _STEPS
        if self.spacing < self._duration / _TINY:
            self.spacing, self._trial = 0.0, None
        elif self._trial is not None and not self._is_fresh:
            self._trial.calls += 1
            self._judge(now)

    def _judge(self, now: float) -> None:
        """Give the spacing up if it brings no more calls through than there were without it."""
        trial = self._trial
        if trial is None or self._is_fresh:
            return
        if (now - trial.began) * trial.rate * trial.worth > _TRIAL:
            self.spacing, self._trial, self._hits = 0.0, None, 0
            self._needs *= _HARDER
            self._acks = []
            self.at_once = max(min(self.at_once, self.running + 1), self.least)
        elif (
            trial.calls >= _TRIAL
        ):  # and from now on, so that it is given up when the server changes
            self._needs = 1
            self._trial = _Trial(now, trial.rate, trial.worth)


class _Trial:
    """The judgement of a spacing: `rate` are the successes per second without it."""

    __slots__ = ("began", "calls", "rate", "worth")

    def __init__(self, began: float, rate: float, worth: float) -> None:
        self.began = began
        self.rate = rate
        self.worth = worth
        self.calls = 0

    def numbers(self, ahead: float) -> tuple[float, ...]:
        """Return it for another process, by a clock that is so many seconds `ahead`."""
        return self.began + ahead, self.calls, self.rate, self.worth


_TIMES: Final = (
    *("opens_at", "refused_at", "succeeded_at"),
    *("_starts_at", "_cut_at", "_grew_at", "_grows_from"),
)
_OTHERS: Final = 5  # numbers after those of `_LEARNT`: since when nothing moves, and the trial
_LEARNT: Final[dict[str, type[float | int]]] = {
    **dict.fromkeys(("at_once", "spacing", *_TIMES), float),
    **dict.fromkeys(("_duration", "_worst", "_idle_sum", "_idle_then"), float),
    **dict.fromkeys(("refused", "_strikes", "_known", "_known_before", "_hits", "_needs"), int),
    **dict.fromkeys(("is_exhausted", "_is_fresh"), bool),
}
"""What a limit has learnt, in the order in which other processes read it.

Another order is another format, of the file (`_MAGIC`) and of Redis (`FORMAT`).
"""
