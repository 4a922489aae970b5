"""Which of our messages a server does not know, and what a stalled handshake is waiting for.

Rule: a refusal "as unknown" is a statement about the server and not about this moment, so the
client continues without the message, reports that once, and does not send it again. Any other
refusal (busy, rate limited, internal) is about this moment only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ..failure import Failure
from ..telemetry.events import BridgeState, FeatureRefused
from .asking import Asking, Extent


if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from .clock import Now
    from .policies.dialect import Dialect


_UNKNOWN_TYPE: Final = re.compile(
    r"\b(?:unknown|unsupported|unrecogni[sz]ed|unhandled|invalid|unexpected)\s+(?:message|event|frame|command)?[\s_]*type\b"
    r"|\bno (?:handler|such message)\b|\bnot (?:implemented|supported)\b",
    re.IGNORECASE,
)
_READ: Final = 500  # characters of a server's text


class Features:
    """The messages usable with this server: the dialect's, without those the server has refused as
    unknown.

    That is remembered in this process, for one identity of the server; for another server it has to
    be found out again.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.asking = Asking()
        self._epoch: str | None = None
        # if the server reads a message and never answers it, the answer is waited for once, not at
        # each join
        self.ignored: set[str] = set()
        self._refused: set[str] = set()
        # joins in a row that ended because the replay was refused for another reason
        self.replay_refusals = 0

    def meet(self, epoch: str | None) -> None:
        """The server has stated its identity (None: it has none)."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._refused.clear()
            self.ignored.clear()

    def refuse(self, field: str, failure: Failure, now: Now) -> FeatureRefused | None:
        """The server does not know this message of ours.

        Returns the event that reports it, the first time.
        """
        if field in self._refused:
            return None
        self._refused |= {field, "auth_ack"} if field == "auth" else {field}
        name: str = getattr(self._dialect, field) or ""
        return FeatureRefused(at=now.at, feature=field, type=name, failure=failure)

    @property
    def wants_new_session(self) -> bool:
        """Return whether the server pushes into this session, without a request, a replay that does
        not fit.
        """
        return self.name("join") is not None and self.asking.extent is Extent.NEW_SESSION

    def name(self, field: str) -> str | None:
        """Return the dialect's name of this message; None where there is none, or this server does
        not know it or never answers it.
        """
        name: str | None = getattr(self._dialect, field)
        return None if field in self._refused or field in self.ignored else name

    @property
    def awaits_joined(self) -> bool:
        return self.name("join") is not None and self._dialect.joined is not None

    def missing(self, phase: BridgeState, seconds: float, *, greeted: bool, pings: bool) -> Failure:
        """Return the failure of a stalled handshake: which answers are missing, and which field
        switches each off.

        `greeted`: was `auth` sent? `pings`: is a ping unanswered?
        """
        if phase is BridgeState.AUTHENTICATING:
            waiting = ["auth_ack", "auth"] if greeted else ["auth_ack"]
            wanted = [self._dialect.auth_ack]
        else:
            waiting = ["joined"] * self.awaits_joined + ["ping"] * pings
            wanted = [self._dialect.joined] * self.awaits_joined + [self._dialect.pong] * pings
        asked = [getattr(self._dialect, _ASKED[field]) for field in waiting if field in _ASKED]
        answer = " or ".join(f"`{name}`" for name in wanted)
        behind = " as the answer to " + " and ".join(f"`{name}`" for name in asked) if asked else ""
        return Failure.of(
            "CONN_TIMEOUT",
            f"connected, but no {answer} came{behind} within {seconds:.3g} s while {phase}",
            suggestions=(
                *(f"if this server sends none: Dialect({_SWITCHES[field]}" for field in waiting),
                "a server that speaks none of it: Dialect.envelopes(), or rb.reconnecting around your own websocket",
            ),
            details={"phase": phase.value, "missing": tuple(wanted)},
        )

    def without_auth(self, failure: Failure) -> Failure:
        """The failure of a login with a token on a server that does not know `auth`."""
        return Failure.of(
            "SYS_CONFIG_INVALID",
            f"the server does not know our message `{self._dialect.auth}`: {failure.message}",
            suggestions=(
                f"if this server takes the token from a header: Dialect({_SWITCHES['auth']}",
            ),
            details={"received": self._dialect.auth},
        )


_ASKED: Final = {"auth": "auth", "joined": "join", "ping": "ping"}
_SWITCHES: Final = {
    "auth_ack": "auth_ack=None) does not wait for it",
    "auth": "auth=None, auth_ack=None) sends the token as a header instead",
    "joined": "join=None) joins no session",
    "ping": "ping=None) sends no heartbeat",
}


def is_unknown_type(failure: Failure) -> bool:
    """Return whether a refusal says that the server does not know the message type (not that this
    message is wrong).
    """
    if failure.code == "PROTO_UNKNOWN_TYPE":
        return True
    if failure.code == "PROTO_INVALID_MESSAGE":
        violations: Any = failure.details.get("violations")
        if not isinstance(violations, (list, tuple)) or not violations:
            return True
        return any(isinstance(v, dict) and _names_type(v) for v in violations)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return failure.code == "SYS_UPSTREAM_REJECTED" and _says_unknown(failure.message)


def _names_type(violation: Mapping[str, Any]) -> bool:
    return str(violation.get("field", "")).removeprefix("$.") == "type"


def _says_unknown(text: str) -> bool:
    return _UNKNOWN_TYPE.search(text[:_READ]) is not None


def refers_to(
    name: str | None, ids: Container[str], body: Mapping[str, Any], payload: Mapping[str, Any]
) -> bool:
    """Return whether an error frame is about our message of the type `name`, sent under one of
    `ids`.

    It is matched by the frame's id, by `request_id`, by `request_type`, or, if it has none of them,
    by a text that names the type.
    """
    if name is None:
        return False
    for named in (body.get("id"), payload.get("request_id")):
        if isinstance(named, str) and named in ids:
            return True
    about = payload.get("request_type")
    if about is not None:
        return bool(about == name)
    text = payload.get("message")
    if not isinstance(text, str) or not _says_unknown(text):
        return False
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text[:_READ]) is not None
