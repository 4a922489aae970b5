"""The findings of `doctor` from its entries, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from ..failure import Failure
from ..protocol.facts import Acked, Challenge, Hello, Pong, Received, Refused, Replayed, Reply
from ..protocol.policies import Dialect
from .doctor_events import after_of, before_of, from_start_of, retained_of
from .doctor_journal import Connection, Dedupes, JoinAnswered, Probe
from .doctor_values import Findings, Loss, Ping, Repetition


def conclude(
    connections: Sequence[Connection],
    dialect: Dialect,
    *,
    has_failed: bool = False,
    began: float = 0.0,
) -> Findings:
    """Return the findings of these connections.

    `has_failed`: the client has given up; `began`: our wall clock at the start, in seconds since
    1970.
    """
    accepted = [each for each in connections if each.accepted is not None]
    cut = next((each for each in connections if each.cut is not None), None)
    first = cut or (
        accepted[0]
        if accepted
        else connections[0]
        if connections
        else Connection(number=0, dialled=0.0)
    )
    later = [each for each in accepted if cut is not None and each.number > cut.number]
    back = next((each for each in later if each.resumed is not None), later[0] if later else None)
    earlier = [each for each in connections if each.number <= first.number]
    hellos: list[Hello] = first.of(Hello)
    everything: list[Connection] = [*earlier, *later]
    return Findings(
        connected=None if first.opened is None else first.opened - first.dialled,
        accepted=None if first.accepted is None else first.accepted - first.dialled,
        greeting=_greeting(first, dialect),
        was_challenged=bool(first.of(Challenge)),
        names_session=any(hello.session is not None for hello in hellos),
        names_log=any(hello.epoch is not None for hello in hellos)
        or any(stated.epoch is not None for stated in first.of(Replayed)),
        join=_join(first, dialect),
        ping=_ping(everything, dialect),
        before=before_of(earlier),
        was_cut=cut is not None,
        after=None
        if back is None or cut is None or back.accepted is None
        else after_of(cut, earlier, back, dialect),
        from_start=from_start_of(everything, dialect),
        retained=retained_of(everything, dialect, began),
        losses=tuple(
            _loss(each.loss) for each in connections if each.loss is not None and each.cut is None
        ),
        refusals=tuple(
            dict.fromkeys(_refusal(each) for one in connections for each in one.of(Refused))
        ),
        gone_without=tuple(name for each in connections for name in each.refused_features),
        unreadable=sum(each.unreadable for each in connections),
        states_dedupes=next((each.holds for one in accepted for each in one.of(Dedupes)), None),
        repetition=_repetition(connections),
        has_failed=has_failed,
    )


# ---- the handshake --------------------------------------------------------------------------------------------------


def _greeting(first: Connection, dialect: Dialect) -> Literal["answer", "greeting", "none"]:
    if dialect.encode is None:
        return "answer" if first.of(Hello) else "none"
    return "greeting" if dialect.waits_for_hello else "none"


def _join(first: Connection, dialect: Dialect) -> Literal["answered", "not answered"] | None:
    if not any(name == "Join" for _, name in first.meant) or dialect.joined is None:
        return None
    return "answered" if first.of(JoinAnswered) else "not answered"


def _ping(connections: Iterable[Connection], dialect: Dialect) -> Ping | None:
    """Return the ping that was answered fastest, else one without an answer.

    Of a dialect's own pings only the first of each connection counts, of WebSocket pings each.
    """
    found: list[Ping] = []
    by: Literal["message", "websocket"] = (
        "message" if dialect.ping is not None or dialect.pings else "websocket"
    )
    for each in connections:
        if by == "websocket":
            found += [Ping(by=by, was_sent=True, seconds=seconds) for seconds in each.pongs]
            continue
        asked = next((at for at, name in each.meant if name == "Ping"), None)
        answered = None if asked is None else each.first(Pong, asked)
        if asked is not None:
            found.append(
                Ping(by=by, was_sent=True, seconds=None if answered is None else answered - asked)
            )
    answers = [each for each in found if each.seconds is not None]
    if answers:
        return min(answers, key=lambda each: each.seconds or 0.0)
    return found[0] if found else Ping(by=by, was_sent=False)


def _loss(failure: Failure) -> Loss:
    details = failure.details
    close, status, server = (
        details.get(name) for name in ("close_code", "http_status", "server_code")
    )
    by_peer = details.get("close_by") == "peer"
    return Loss(
        text=failure.message,
        code=failure.code,
        close_code=close if isinstance(close, int) and by_peer else None,
        http_status=status if isinstance(status, int) else None,
        server_code=server if isinstance(server, str) and server else None,
    )


def _refusal(fact: Refused) -> str:
    return (
        f"{fact.code}: {fact.text}"
        if fact.code and fact.text
        else fact.code or fact.text or "an error"
    )


# ---- the probe ------------------------------------------------------------------------------------------------------


def _repetition(connections: Iterable[Connection]) -> Repetition:
    """Return how the server answered the probe, a message that was sent to it twice."""
    for each in connections:
        for at, probe in each.probes:
            answers = [
                seen.sign for seen in each.seen if seen.at >= at and _is_about(seen.sign, probe)
            ]
            if any(isinstance(answer, Reply) and answer.duplicate for answer in answers):
                return "noticed"
            if any(isinstance(answer, Refused) for answer in answers):
                return "refused"
            return (
                "no answer" if not answers else "one answer" if len(answers) == 1 else "two answers"
            )
    return "not tried"


def _is_about(sign: object, probe: Probe) -> bool:
    names = {probe.id, probe.key, probe.number}
    match sign:
        case Reply():
            return sign.to in names
        case Acked():
            return bool(names & {*sign.ids}) or (
                sign.through is not None and sign.through >= probe.number
            )
        case Refused():
            return sign.to in names or (sign.to is None and sign.type == probe.type)
        case Received():
            return sign.id == probe.id or sign.payload.get("request_id") == probe.id
        case _:
            return False
