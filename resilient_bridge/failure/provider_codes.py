"""What the names and the words in error bodies mean: one table, whoever sends them and however they arrive.

Rule: a name or a sentence that says why beats the status it came with, because 429 is also the
status of an empty account. Names are compared without case, punctuation and the ending "error" or
"exception": `throttlingException` is ThrottlingException, and RATE_LIMITED is `ratelimited`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from .contents import name_key
from .finding import Finding, short_of
from .sentences import (
    SHORT_WAIT,
    affirmed,
    mentions_rate,
    name_says,
    passes,
    says_context,
    says_day,
    says_model,
    says_money,
    says_quota,
    says_rate,
)


def _lasting(reason: str, message: str, *suggestions: str) -> Finding:
    return Finding(
        code="SYS_UPSTREAM_REJECTED",
        message=message,
        retryable=False,
        suggestions=suggestions,
        details={"reason": reason},
    )


QUOTA: Final = _lasting(
    "quota_exhausted",
    "quota exhausted",
    "raise the limit or add credit at the provider",
    "use another key or provider",
)
CONTEXT: Final = _lasting(
    "context_length_exceeded",
    "context too long",
    "compact the history, or offer fewer tools",
    "start a new session",
)
LARGE: Final = _lasting(
    "request_too_large",
    "request too large",
    "send less at once: the limit is smaller than this one request",
    "raise the limit at the provider",
)
_CONTENT: Final = _lasting(
    "content_policy_violation",
    "content refused by the provider's policy",
    "have a person review the request",
)
_MODEL: Final = _lasting(
    "model_not_found", "model not found", "check the model's name, and that the key may use it"
)
_CARD: Final = _lasting("card_declined", "card declined", "ask the customer for another card")
_BAD_KEY: Final = Finding(
    code="AUTH_INVALID_TOKEN",
    message="api key not accepted",
    suggestions=("fix the api key: it is wrong, revoked or of another account",),
    details={"reason": "invalid_api_key"},
)
_LOGIN: Final = Finding(code="AUTH_INVALID_TOKEN")
_BAD_AWS_KEY: Final = _LOGIN.evolve(suggestions=("fix the access key, or its secret",))
_CLOCK: Final = _BAD_AWS_KEY.evolve(
    message="request signed at another time",
    suggestions=("set this machine's clock: signatures are valid for minutes",),
)
EXPIRED: Final = Finding(code="AUTH_TOKEN_EXPIRED", suggestions=("refresh the credentials",))
_FORBIDDEN: Final = Finding(code="AUTH_FORBIDDEN")
RATE: Final = Finding(code="SYS_RATE_LIMITED")
PASSING: Final = Finding(code="SYS_UNAVAILABLE")
_ABORTED: Final = PASSING.evolve(message="aborted by the server")
_TIMEOUT: Final = Finding(code="SYS_TIMEOUT")
REJECTED: Final = Finding(code="SYS_UPSTREAM_REJECTED")
MEMORY: Final = Finding(
    code="SYS_UNAVAILABLE",
    message="out of memory",
    suggestions=("ask for less at once, or use a smaller model",),
    details={"max_retries": 1},
)


def _named(finding: Finding, names: str) -> Iterator[tuple[str, Finding]]:
    for name in names.split():
        yield name_key(name), finding


_FINAL: Final[Mapping[str, Finding]] = {  # whatever the status
    **dict(
        _named(
            QUOTA,
            "insufficient_quota billing_hard_limit_reached billing_error credit_balance_exhausted"
            " organization_spend_limit_exceeded project_spend_limit_exceeded usage_limit_reached"
            " linked_organization_billing_unavailable exceeded_current_quota_error budget_exceeded"
            " insufficient_balance insufficient_credits quota_exhausted payment_required UsageCapExceeded Arrearage PrepaidBillOverdue"
            " PostpaidBillOverdue AllocationQuota.FreeTierOnly BudgetLimitExceeded 1113 1308 1310",
        )
    ),
    **dict(
        _named(
            CONTEXT,
            "context_length_exceeded context_window_exceeded model_context_window_exceeded"
            " exceed_context_size_error 1261",
        )
    ),
    **dict(
        _named(
            _CONTENT,
            "content_policy_violation content_filter DataInspectionFailed ResponsibleAIPolicyViolation",
        )
    ),
    **dict(
        _named(
            _MODEL,
            "model_not_found model_not_available model_decommissioned invalid_model unknown_model model_not_supported unsupported_model"
            " DeploymentNotFound ModelNotFoundError 1211",
        )
    ),
    **dict(_named(LARGE, "request_too_large BadRequest.TooLarge")),
    **dict(_named(_CARD, "card_error card_declined")),
}
_SPENT: Final = ("spendlimitreached", "spendlimitexceeded")
_TOO_LONG: Final = ("contextlength", "contextwindow", "exceedcontext")
_KEYS: Final = frozenset(
    map(
        name_key,
        [
            "invalid_api_key",
            "incorrect_api_key",
            "api_key_invalid",
            "missing_api_key",
            "authentication_error",
            "invalid_authentication_error",
        ],
    )
)

_USUAL: Final[
    Mapping[str, Finding]
] = {  # where no status says it, or where the status is 400 for nearly all
    **dict(
        _named(
            RATE,
            "rate_limit rate_limit_error rate_limit_exceeded rate_limited rate_limit_reached_error"
            " too_many_requests over_request_rate_limit userRateLimitExceeded LimitRequests 1302 1303"
            # botocore's own list of throttling codes
            " Throttling ThrottlingException ThrottledException RequestThrottledException RequestThrottled"
            " TooManyRequestsException RequestLimitExceeded BandwidthLimitExceeded LimitExceededException"
            " ProvisionedThroughputExceededException PriorRequestNotComplete EC2ThrottledException SlowDown"
            " Throttling.RateQuota Throttling.AllocationQuota RESOURCE_EXHAUSTED",
        )
    ),
    **dict(
        _named(
            PASSING,
            "overloaded overloaded_error engine_overloaded_error server_is_overloaded server_error api_error"
            " internal internal_error internal_server_error InternalFailure InternalServerException"
            " service_unavailable unavailable unavailable_error ServiceUnavailableException"
            " capacity_exceeded service_tier_capacity_exceeded engine_max_pending_tokens 1305"
            " ModelNotReadyException modelStreamErrorException provider_unavailable upstream_error"
            " TransactionInProgressException IDPCommunicationError fatal_error",
        )
    ),
    "aborted": _ABORTED,
    **dict(
        _named(
            _TIMEOUT,
            "timeout timeout_error RequestTimeout RequestTimeoutException ModelTimeoutException",
        )
    ),
    "deadlineexceeded": _TIMEOUT.evolve(message="the provider's time was up"),
    **dict(
        _named(
            EXPIRED,
            "ExpiredToken ExpiredTokenException RequestExpired token_expired PGRST301 PGRST303",
        )
    ),
    **dict(
        _named(
            _BAD_AWS_KEY,
            "UnrecognizedClientException InvalidClientTokenId AuthFailure SignatureDoesNotMatch"
            " InvalidSignatureException InvalidAccessKeyId IncompleteSignature MissingAuthenticationToken",
        )
    ),
    "requesttimetooskewed": _CLOCK,
    **dict(
        _named(_LOGIN, "unauthenticated invalid_auth not_authed token_revoked account_inactive")
    ),
    **dict(
        _named(
            _FORBIDDEN,
            "permission_error permission_denied forbidden AccessDenied AccessDeniedException"
            " UnauthorizedOperation missing_scope",
        )
    ),
    **dict(
        _named(
            REJECTED,
            "invalid_request invalid_request_error bad_request ValidationException invalid_value invalid_prompt"
            " invalid_argument failed_precondition out_of_range not_found not_found_error already_exists"
            " unimplemented unprocessable_entity tool_use_failed ResourceNotFoundException",
        )
    ),
}
_CAPACITY: Final = frozenset({"capacityexceeded", "servicetiercapacityexceeded"})

_WORDS: Final[tuple[tuple[Finding, re.Pattern[str]], ...]] = tuple(
    (finding, re.compile(pattern))
    for finding, pattern in (
        (
            LARGE,
            (
                r"request too large for|exceeds the maximum allowed number of bytes"
                r"|(?:request|payload|body) (?:\w+ )?size (?:\w+ ){0,2}exceeds? (?:\w+ ){0,3}(?:limit|maximum)"
            ),
        ),
        (
            CONTEXT,
            (
                r"prompt is too long|maximum context length(?: is| of|:)? (?:\w+ )?[0-9]|[0-9] maximum context length|context length is only"
                r"|exceed\w{0,3} (?:\w+ ){0,3}maximum context length|exceed\w{0,3} (?:\w+ ){0,3}model context window"
                r"|exceeds? (?:\w+ ){0,3}context (?:limit|length|window|size)|context overflows|context the overflows"
                r"|context (?:window|length|size) (?:has been |was )?exceeded|larger than the max context size"
                r"|(?:longer|greater) than the (?:model's |maximum )?(?:context|model) length"
                r"|(?:prompt|input) (?:has|is|contains) .{0,20}[0-9] tokens.{0,40}(?:maximum|exceed)"
                r"|input is too long|input token count.{0,40}exceeds|exceeded model token limit"
                r"|tokens in the prompt cannot exceed|`inputs` tokens \+ `max_new_tokens` must be"
                r"|`inputs` must have less than|range of input length should be|prompt exceeds max length|prompt 超长"
            ),
        ),
        (
            QUOTA,
            (
                r"\binsufficient_quota\b|\bbilling_hard_limit_reached\b|insufficient (?:account )?(?:balance|credits?|quota)|balance is (?:insufficient|too low|exhausted)"
                r"|not enough (?:credit|balance)|n't have enough (?:credit|balance)|not have enough (?:credit|balance)"
                r"|(?:out of|used all available|requires more) credits"
                r"|(?:credits?|balance|(?<!retry )(?<!error )(?<!time )(?<!latency )budget) (?:(?:is|are|has been|have been) )?(?:exhausted|exceeded|depleted|used up|expired)"
                r"|exceeds? your (?:plan's )?(?:set )?(?:quota|usage limit)|hit your (?:\w+ )?limit"
                r"|reached (?:its|your) (?:monthly )?spending limit|spend(?:ing)? limit (?:has been )?(?:reached|exceeded)"
                r"|billing hard limit (?:\w+ ){0,3}(?:reached|exceeded|hit)|budget has been exceeded|exceeded budget|over budget|crossed budget"
                r"|reached your specified api usage limits|usage limit (?:has been )?reached"
                r"|extra usage is required|exceeded your monthly|exceeded your current quota"
                r"|please (?:recharge|top up)|bill is overdue|(?:make sure|ensure|check) (?:that )?(?:your|the) account is in good standing"
                r"|(?:has|have|had) (?:\w+ ){0,2}unpaid (?:balance|invoices?)|unpaid (?:balance|invoices?) (?:must|needs?|has to|have to)"
                r"|failure to pay|free tier of the model has been exhausted|no resource package|欠费|余额不足"
            ),
        ),
        (
            _CONTENT,
            (
                r"(?:rejected|blocked|refused|flagged|filtered|not allowed)\b[^.\n]{0,80}(?:our safety system|content management policy|inappropriate content)"
                r"|(?:violat\w{1,5}|trigger\w{0,3})\b[^.\n]{0,60}(?:our safety system|content management policy|responsible ai practices)"
                r"|(?:contains?|is|was) inappropriate content|inappropriate content (?:was |has been )?(?:detected|found)"
            ),
        ),
        (
            _MODEL,
            (
                r"\bmodels?\b(?:[^.\n]|\.\d){0,100}?(?:does not exist|do not exist|not found|not exist|can not be found)"
                r"|has been decommissioned|(?:invalid|unknown) model\b(?! (?:param|config|field|option|output|input|type))|no such model|not a valid model"
                r"|no endpoints found|unable to access model|model identifier is invalid|no models loaded"
                r"|requested model is not (?:supported|available)"
                r"|\bmodels/\S{1,100} is not found|the api deployment for this resource does not exist"
            ),
        ),
    )
)
_WHOLE: Final = "limit exceeded"  # the whole text of a used-up plan of API Gateway
_DAILY_QUOTA: Final = re.compile(r"quotaid\W{1,8}\w{0,80}perday")
_NOTHING_FREE: Final = re.compile(r"quota exceeded[^\n]{0,200}limit: 0\b")
_OF_A_MODEL: Final = re.compile(r"model: \S+")
_KEY_WORDS: Final = re.compile(
    r"(?:invalid|incorrect) (?:api[- ]?(?:key|token)|x-api-key|subscription key|authentication\b)"
    r"|api[- ]?key not valid|authentication fails|security token included in the request is invalid"
)
_EXPIRED_WORDS: Final = re.compile(r"(?:token|jwt|credentials?)\b[^.]{0,60}\bexpired")
_RATE_WORDS: Final = re.compile(r"rate[- ]?limit|too many (?:requests|tokens)|throttl")
_MEMORY_WORDS: Final = re.compile(r"requires more system memory|out of memory")


def final_finding(
    names: Iterable[str],
    words: str,
    *,
    wait: float | None = None,
    asked: float | None = None,
    status: int | None = None,
    decided: bool = False,
) -> Finding | None:
    """Return the verdict if a name or the words say that a repeat cannot help, else None.

    `words` are in lower case. A used-up day is final unless the peer says when it lets this through
    (`wait`, or `asked` in a header); any other quota is, unless that is within the hour. Under a status of 5xx only
    unmistakable words say that there is no such model. `decided`: a name says more than "quota".
    """
    listed = list(names)
    keys = [name_key(name) for name in listed]
    for key in keys:
        if key in _FINAL:
            return _FINAL[key]
        if key.endswith(_SPENT):
            return QUOTA
        if key.startswith(_TOO_LONG):
            return CONTEXT
    if "notfound" in keys and _OF_A_MODEL.fullmatch(words):
        return _MODEL
    words = affirmed(words)
    found = _words_finding(
        words, waits=wait is not None, of_google="resourceexhausted" in keys, status=status
    )
    if asked is not None and words.strip() == _WHOLE:
        found = None  # it says when it lets this through
    shortest = min(
        (seconds for seconds in (wait, asked) if seconds is not None), default=SHORT_WAIT + 1
    )
    return found or _made_of(listed, keys, words, status, soon=decided or shortest <= SHORT_WAIT)


def _made_of(
    names: list[str], keys: list[str], words: str, status: int | None, *, soon: bool
) -> Finding | None:
    """Return the verdict of names and sentences that are in no list, by what they are made of."""
    reasons = {name_says(name) for name, key in zip(names, keys, strict=True) if key not in _USUAL}
    limited = "rate" in reasons or any(_USUAL.get(key) is RATE for key in keys)
    rated = mentions_rate(words)
    if "context" in reasons and not rated:
        return CONTEXT
    if says_money(words):
        return QUOTA
    may_last = not soon and not limited and not rated
    if may_last and ("quota" in reasons or (says_quota(words) and not passes(words))):
        return QUOTA
    # A rate is no context, but for "too many tokens", which may be either.
    may_be_context = not limited and (not rated or "too many tokens" in words)
    if may_be_context and says_context(words):
        return CONTEXT
    is_model = "model" in reasons or says_model(words)
    return _MODEL if is_model and (status is None or status < 500) else None


def _words_finding(
    words: str, *, waits: bool, of_google: bool, status: int | None = None
) -> Finding | None:
    """Return the final verdict of words alone, in lower case; None for others."""
    for finding, pattern in _WORDS:
        match = pattern.search(words)
        # Google's words for a limit per minute, too: only what it counts tells the day from the minute.
        if match is not None and not (match.group() == "exceeded your current quota" and of_google):
            return finding
    if (
        not waits and says_day(words, refused=status is None or status == 429)
    ) or _NOTHING_FREE.search(words):
        return QUOTA
    if of_google and _DAILY_QUOTA.search(words):
        return QUOTA
    return QUOTA if words.strip() == _WHOLE else None


def bare_words_finding(words: str, wait: float | None) -> Finding | None:
    """Return the verdict of a text that has neither a status nor an envelope, in lower case."""
    of_google = (
        "resource_exhausted" in words
        or "resourceexhausted" in words
        or "quota exceeded for metric" in words
    )
    words = affirmed(words)
    found = _words_finding(words, waits=wait is not None, of_google=of_google)
    if found is not None:
        return found
    if says_money(words, bare=True):
        return QUOTA
    if says_quota(words):
        if wait is not None and wait <= SHORT_WAIT:
            return RATE
        if not of_google and not passes(words):
            return QUOTA
    if says_context(words):
        return CONTEXT
    return RATE if says_rate(words) else None


def usual_finding(names: Iterable[str]) -> Finding | None:
    """Return the verdict of the first name that is known, where no status decides."""
    listed = list(names)
    known = next((_USUAL[key] for key in map(name_key, listed) if key in _USUAL), None)
    return known or (RATE if any(name_says(name) == "rate" for name in listed) else None)


def login_finding(names: Iterable[str], words: str) -> Finding | None:
    """Distinguish a wrong key from an expired token, which a refresh replaces; None for neither."""
    keys = [name_key(name) for name in names]
    if _EXPIRED_WORDS.search(words):
        return EXPIRED
    if "expired" in words and "key expired" not in words:
        return None
    if any(key in _KEYS for key in keys) or _KEY_WORDS.search(words):
        return _BAD_KEY
    return next(
        (
            found
            for key in keys
            if (found := _USUAL.get(key)) is not None and found.code in {_LOGIN.code, EXPIRED.code}
        ),
        None,
    )


def says_limited(
    names: Iterable[str], words: str, wait: float | None = None, *, strictly: bool = False
) -> bool:
    """Return whether a name, or the words, call it a limit of the rate or of the capacity.

    A quota that comes back within the hour (`wait`) is one. `strictly`: the words have to say that
    the limit was hit, not only speak of it.
    """
    for name in names:
        if (
            _USUAL.get(name_key(name)) is RATE
            or name_key(name) in _CAPACITY
            or name_says(name) == "rate"
        ):
            return True
    if wait is not None and wait <= SHORT_WAIT and says_quota(words):
        return True
    return says_rate(words) or (not strictly and bool(words and _RATE_WORDS.search(words)))


def is_out_of_memory(words: str) -> bool:
    """Return whether the words say that the server lacks memory."""
    return bool(_MEMORY_WORDS.search(words))


def known_final(name: str) -> Finding:
    """Return the verdict of a name that the table has."""
    return _FINAL[name_key(name)]


def with_message(finding: Finding, message: str) -> Finding:
    """Return the finding with the provider's text after our own."""
    if not message:
        return finding
    return finding.evolve(message=finding.summary + short_of(message))
