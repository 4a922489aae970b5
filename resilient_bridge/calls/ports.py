"""The port of this room: what other rooms may use of calls beside its public names.

Adapters, the agent, exporters and `testing` import the public names of `resilient_bridge.calls` and
the names of this table, and nothing else (an import contract says so). It promises:

- *Protect a function for an owner.* `bind` puts a policy around a function. Its owner has the
  `States` of its layers, which outlive the policy; a `Reading` says how results are read.
- *Ask the call in progress, and tell it:* the functions of `current`. How much time is left, that a
  request was sent, that no attempt may follow, that work is not part of the call.
- *Parts of a strategy that work alone:* the state of a circuit or of a rate limit for an owner that
  asks it, the limits of a stream, a deadline; the budgets, the calls that wait for a limit and the
  tracer for exporters.
- *Keep an effect in doubt from happening again:* the ledger, and what is asked of it.

Each name loads when it is first used: who needs one of them does not load the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .adaptive.status import calls_waiting as calls_waiting
    from .binding import Binding as Binding
    from .binding import settled as settled
    from .breaker.state import CircuitState as CircuitState
    from .decision import calls_for as calls_for
    from .effects import Effect as Effect
    from .effects import EffectLedger as EffectLedger
    from .effects import asked_for as asked_for
    from .effects import call_options as call_options
    from .effects import inside as inside
    from .effects import resolved as resolved
    from .evidence import disprove as disprove
    from .evidence import failure_in_call as failure_in_call
    from .evidence import never_again as never_again
    from .forms import form_of as form_of
    from .frame import CallFrame as CallFrame
    from .frame import caller as caller
    from .frame import current_frame as current_frame
    from .frame import enter_world as enter_world
    from .frame import forbid_hedge as forbid_hedge
    from .frame import frame_with_key as frame_with_key
    from .frame import hear_quota as hear_quota
    from .frame import is_retried_around as is_retried_around
    from .frame import keep_arguments as keep_arguments
    from .frame import keep_permit as keep_permit
    from .frame import leave_call as leave_call
    from .frame import leave_world as leave_world
    from .frame import make_last as make_last
    from .frame import outside as outside
    from .frame import remaining as remaining
    from .frame import repeat_within as repeat_within
    from .frame import request_sent as request_sent
    from .hedge.value import Hedge as Hedge
    from .limits.state import RateState as RateState
    from .outcome import captured as captured
    from .policy import EnvironmentSource as EnvironmentSource
    from .policy import SettingsSource as SettingsSource
    from .protect import bind as bind
    from .protect import protected_for as protected_for
    from .recommended import of_one_request as of_one_request
    from .registry import States as States
    from .retry.coordination import BUDGETS as BUDGETS
    from .retry.unrepeated import tell_cut as tell_cut
    from .stream_calls import stream_broke as stream_broke
    from .stream_items import NO_LIMITS as NO_LIMITS
    from .stream_items import StreamLimits as StreamLimits
    from .stream_items import limits_of_call as limits_of_call
    from .timeout.guard import DeadlineGuard as DeadlineGuard
    from .timeout.guard import deadline_passed as deadline_passed
    from .tracing import start_tracing as start_tracing
    from .tracing import stop_tracing as stop_tracing

_NAMES = {
    ".adaptive.status": "calls_waiting",
    ".binding": "Binding settled",
    ".breaker.state": "CircuitState",
    ".decision": "calls_for",
    ".effects": "Effect EffectLedger asked_for call_options inside resolved",
    ".evidence": "disprove failure_in_call never_again",
    ".forms": "form_of",
    ".frame": "CallFrame caller current_frame enter_world forbid_hedge frame_with_key hear_quota"
    " is_retried_around keep_arguments keep_permit leave_call leave_world make_last outside remaining"
    " repeat_within request_sent",
    ".hedge.value": "Hedge",
    ".limits.state": "RateState",
    ".outcome": "captured",
    ".policy": "EnvironmentSource SettingsSource",
    ".protect": "bind protected_for",
    ".recommended": "of_one_request",
    ".registry": "States",
    ".retry.coordination": "BUDGETS",
    ".retry.unrepeated": "tell_cut",
    ".stream_calls": "stream_broke",
    ".stream_items": "NO_LIMITS StreamLimits limits_of_call",
    ".timeout.guard": "DeadlineGuard deadline_passed",
    ".tracing": "start_tracing stop_tracing",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
