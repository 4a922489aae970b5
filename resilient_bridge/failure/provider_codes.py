"""What the names and the words in error bodies mean: one table, whoever sends them and however they arrive.

Rule: a name or a sentence that says why beats the status it came with, because 429 is also the
status of an empty account. Names are compared without case, punctuation and the ending "error" or
"exception": `throttlingException` is ThrottlingException, and RATE_LIMITED is `ratelimited`.

What nobody has listed is read by what it is made of: a thing, and what became of it. A sentence counts
only if it has both, near each other: what is counted (a prompt, a context, credits, a quota, calls per
second, a model) and what happened to it (too long, exceeded, used up, not found). One of them alone is
ordinary language, and so is what is denied: words are read as `affirmed` returns them. Every gap is
bounded, so that reading is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Literal

from .contents import name_key
from .failure import Finding, short_of


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
OVERLOADED: Final = PASSING.evolve(details={"reason": "overloaded"})
"""It lives, and has no room: an adaptive limit takes it for a refusal, without a status as well."""
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
            OVERLOADED,
            "overloaded overloaded_error engine_overloaded_error server_is_overloaded capacity_exceeded"
            " service_tier_capacity_exceeded engine_max_pending_tokens",
        )
    ),
    **dict(
        _named(
            PASSING,
            "server_error api_error"
            " internal internal_error internal_server_error InternalFailure InternalServerException"
            " service_unavailable unavailable unavailable_error ServiceUnavailableException"
            " 1305"
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


# ---- what a sentence or a name says that nobody has listed ------------------------------------------------


SHORT_WAIT: Final = 3_600.0
"""Seconds. A quota that comes back within them is a rate."""
_READ: Final = 4_096  # characters
_ELSEWHERE: Final = r"(?:while|when|during|because|before|after|could|cannot|failed|failing|error|reading|loading)\b"
_NEAR: Final = (  # up to so many words between: f"{_NEAR}4}}?"
    rf"(?:[^\w\n]{{1,4}}(?!{_ELSEWHERE})\w{{1,40}}){{0,"
)
_DENIED: Final = re.compile(
    r"(?:(?:\b(?:not|never)|n['\u2019]t)(?: (?:yet|been|be|have|has|being|currently)){0,3}"
    r"|\b(?:whether|if|once|until|unless) (?:\w{1,20} ){1,8}?(?:is|are|was|were|has|have|had)(?: been)?)"
    r" (?:exceed(?:s|ed|ing)?|exhausted|used up|depleted|consumed|reach(?:ed)?|hit|spent|gone|overdrawn|overdue)\b"
)
"""That it did not become of it, or that nobody knows."""
_DENYING: Final = (
    "not ",
    "'t ",
    "\u2019t ",
    "never ",
    "whether ",
    "if ",
    "once ",
    "until ",
    "unless ",
)


def _any(*parts: str) -> str:
    return "(?:" + "|".join(parts) + ")"


def affirmed(words: str) -> str:
    """Return words in lower case without what they deny: "your limit is not exceeded"."""
    if any(word in words for word in _DENYING):
        return _DENIED.sub("", words)
    return words


# ---- rates ---------------------------------------------------------------------------------------------------------

_UNIT: Final = _any(
    r"\b(?:per|each|every|a|an|one|for|this)[- ](?:second|sec|minute|min|hour|hr)\b",
    r"per(?:second|minute|hour)",
    r"[0-9a-z] ?/ ?(?:s|sec|second|min|minute|hour|hr)\b",
    r"\b(?:rpm|tpm|rps|qps|tps|rph|ipm)\b",
    "每秒|每分钟|每分|每小时|频率|频次",
)
_RATE: Final = re.compile(
    _any(
        r"rate[- _]?limit|too many (?:\w+ ){0,2}(?:requests|calls|queries|connections|attempts)|too many tokens\b|throttl",
        r"abuse detection|abuse rate|\bslow(?:ing)? down|concurren(?:t|cy)|请求过于|频繁|限流|限频|并发|请求(?:数|次数|量)?(?:过多|太多|超)",
        _UNIT,
    )
)
_MORE: Final = r"(?:exceed\w{0,3}|reached|hit|over|max\w{0,4}|limit\w{0,3}|too (?:many|fast|quickly)|reduce|超)"
_CALLS: Final = r"(?:requests?|calls?|quer(?:y|ies)|api|qps|rpm|tpm|rps|operations?|messages?)"
_RATE_HIT: Final = re.compile(
    _any(
        r"(?:rate|call|request|query|frequency)[- _]?(?:rate[- ])?limit\w{0,3}(?: \w{1,20}){0,6} (?:exceeded|reached|hit)\b",
        r"(?:exceed\w{0,3}|reached|hit|over|surpassed)(?: \S{1,30}){0,6} (?:rate|call|request|query|frequency)[- ]?(?:rate[- ])?limit",
        rf"\b{_CALLS} limit (?:\w{{1,12}} ){{0,2}}(?:reached|exceeded|hit)\b|\brate[- ]limited\b|\bthrottled\b",
        r"\btoo many (?:\w+ ){0,2}(?:requests|calls|queries)\b|requests? (?:\w+ ){0,3}too (?:fast|quickly|often|frequently)",
        rf"\b{_MORE}[^\n]{{0,60}}?{_UNIT}",
        rf"{_UNIT}[^\n]{{0,60}}?{_MORE}",
        r"(?:max\w{0,4}|too many|exceed\w{0,3}|limit)[^\n.]{0,40}?concurren|concurren[^\n.]{0,40}?(?:limit|exceed|reached|maximum)",
        r"abuse detection|doing that too (?:much|often)|please slow down|slow down (?:your|the|and)|reduce (?:your )?(?:request )?rates?\b",
        r"\brate (?:has been |was |is )?exceeded\b|too frequent(?:ly)?\b",
        r"频率[^\n]{0,6}(?:受限|过高|限制|超)|访问[^\n]{0,6}(?:受限|频繁)|请求过于|过于频繁|太频繁|限流|限频|并发(?:数|量|请求)?[^\n]{0,6}(?:过高|超|限|上限)|请求(?:数|次数|量)?(?:过多|太多|超)",
    )
)


def mentions_rate(words: str) -> bool:
    """Return whether words in lower case speak of a rate at all."""
    return bool(_RATE.search(words[:_READ]))


def says_rate(words: str) -> bool:
    """Return whether words in lower case say that a rate was exceeded."""
    return bool(_RATE_HIT.search(words[:_READ]))


# ---- money and quotas ----------------------------------------------------------------------------------------------

_OTHERS: Final = "(?<!retry )(?<!error )(?<!time )(?<!disk )(?<!latency )(?<!memory )(?<!load )"
_CREDIT: Final = rf"{_OTHERS}\b(?:credits?|credit limit|spend(?:ing)? (?:limit|cap)|billing (?:\w+ )?limit|prepaid \w{{1,12}})\b"
_MONEY: Final = rf"(?:{_CREDIT}|{_OTHERS}\b(?:(?<!load )balance|funds|budget|spend)\b)"
_QUOTA: Final = (
    rf"{_OTHERS}\b(?:quotas?|usage (?:limits?|caps?|allowance)|allowance|allotment|free (?:tier|trial|usage)"
    r"|(?:plan|subscription|tier|account|package|trial)(?:'s)? (?:\w+ ){0,2}(?:limits?|quota|allowance|cap))\b"
)
_GONE: Final = (
    r"\b(?:exceeded|exceeds|exhausted|used up|(?:all|fully|already) used|insufficient|depleted|too low|overdue|consumed"
    r"|(?:has |have )?r[au]n out|(?:not|isn't|aren't) (?:enough|sufficient)|reached|(?:is|are|at|of) (?:0|zero|negative))\b"
)
_TAKES: Final = (
    r"(?:\b(?:exceed(?:s|ed|ing)?|exhausted|used (?:up|all)|insufficient|depleted|consumed|r[au]n out of|running out of"
    r"|overdrawn|overdue|negative|maxed out|lacks?|spent all)|(?:\bnot|n't)(?: have)? (?:enough|sufficient))\b"
)
_REACHED: Final = r"\b(?:reached|hit|at|out of|over)\b"
_NO_THING: Final = r"(?! ?(?:pages?|reports?|lookup|jobs?|alerts?|endpoint|service|api\b|table|server|name|id\b|field|project|metric|check|file|cards?\b))"
_OF_THIS_DAY: Final = r"\blimit for (?:the|this) (?:current )?(?:day|week|month|billing)\b"
_OF_A_DAY: Final = (
    rf"(?:\b(?:daily|weekly|monthly) (?:\w{{1,20}} ){{0,2}}(?:limits?|quota|allocation|allowance|cap)\b{_NO_THING}"
    rf"|{_OF_THIS_DAY})"
)
_A_DAY: Final = rf"(?:\bper[- ](?:day|week|month)\b|/ ?(?:day|week|month)\b|\b[tr]pd\b){_NO_THING}"
_USED: Final = (
    r"\b(?:exceed(?:s|ed|ing)?|exhausted|used (?:up|all|[0-9]{1,12}%?)|depleted|consumed|maxed out|r[au]n out of|out of"
    r"|spent|reach(?:ed|ing)?|hit|surpassed|too many|(?:^|is|are|was|went|already) ?over|remain(?:ing|s)?|left)"
)
_WHOSE: Final = (  # words that stand between what was used up and its day
    r"(?:[ ,'\u2019\"`()]{1,3}(?:[0-9][\w,.]{0,20}|your|the|this|its|our|my|their|an?|s|of|for|in|all|max|maximum|api|free|current|limit"
    r"|number|account|organization|project|user|team|workspace|input|output|requests?|calls?|tokens?|messages?|quer(?:y|ies)|e?mails?))"
)
_UNTIL: Final = rf"(?:[ '\u2019\"`()]{{1,3}}(?!{_ELSEWHERE}|but\b|and\b)[\w,.-]{{1,40}})"
_AGAIN: Final = (
    r"\b(?:exceeded|exhausted|(?:used|maxed) (?:up|out)|(?:fully|all|already) used|depleted|consumed|r[au]n out|spent|gone"
    r"|reached|hit|surpassed|overdrawn|(?:been|is) used|(?:is|at) (?:over|0|zero)|(?:0|zero) (?:left|remaining))\b"
    r"(?! (?:the|its|an?|time|by an?|[0-9]{1,6} ?m?s)\b)"  # it exceeded something of its own
)
_SAME: Final = r"(?:[^\n.;!?]|\.(?=\S))"  # a character of the same sentence
_CAP: Final = r"\b(?:limit|quota|cap|allowance)\b"
_DAY: Final = re.compile(
    _any(
        rf"{_USED}{_WHOSE}{{0,9}} ?(?:{_OF_A_DAY}|(?:[\w-]{{0,20}}[- ])?{_A_DAY})",
        rf"{_USED}{_UNTIL}{{0,5}}? {_OF_THIS_DAY}",
        rf"{_OF_A_DAY}{_UNTIL}{{0,8}}?[ :'\u2019\"`()]{{1,3}}{_AGAIN}",
        rf"{_A_DAY}\)?(?: rate)?(?: {_CAP})?(?: (?:is|are|was|has|have|been|already|now)){{0,3}} {_AGAIN}",
        rf"{_CAP}(?: \w{{1,20}}){{0,4}}? (?:exceeded|reached|hit|exhausted)\b{_SAME}{{0,200}}?{_A_DAY}",
        rf"{_USED}{_UNTIL}{{0,6}}? (?:limit|quota|cap|allowance)\b{_SAME}{{0,120}}?{_A_DAY}",
        r"\b(?:usage|product) cap exceeded\b",
    )
)
_NAMED: Final = ("day", "dai", "week", "month", "tpd", "rpd", "billing", "cap exceeded")
_LIMITED_TO: Final = re.compile(
    rf"\b(?:key|plan|tier|account|subscription)\b{_SAME}{{0,20}}?\bis limited to{_SAME}{{0,40}}?{_A_DAY}"
)
_SHORT_UNIT: Final = re.compile(_UNIT)
_ZH_QUOTA: Final = (
    "(?:余额|额度|配额|限额|点数|积分|套餐|用量|流量包|资源包|次数包|免费(?:次数|额度))"
)


def _spent(noun: str) -> str:
    return _any(
        rf"{noun}{_NO_THING}{_NEAR}4}}?[^\w\n]{{1,4}}{_GONE}",
        rf"{_TAKES}{_NEAR}5}}?[^\w\n]{{1,4}}{noun}{_NO_THING}",
        rf"\b(?:no|zero|0)(?: \w{{1,12}}){{0,2}} {noun}(?: \w{{1,12}}){{0,3}} (?:left|remain\w{{0,3}}|available)\b",
        rf"\b(?:do|does)(?: not|n't) have(?: \w{{1,12}}){{0,2}} {noun}",
    )


_WEAK_QUOTA: Final = re.compile(
    _any(
        _spent(_QUOTA),
        rf"{_REACHED}{_NEAR}4}}?[^\w\n]{{1,4}}{_QUOTA}",
        r"\b[0-9]{1,3}[- ]hour (?:\w+ )?limit (?:\w+ )?reached\b|\b(?:day|month|week) limit[^\n]{0,60}(?:reached|exceeded)",
        rf"{_QUOTA}(?: \w{{1,12}}){{0,3}} (?:will (?:be )?(?:reset|renew|refresh|replenish)\w{{0,3}}|(?:resets|renews|refreshes) (?:at|on|in|after))",
        rf"{_ZH_QUOTA}[^。\n]{{0,20}}?(?:不足|用尽|用完|耗尽|超出|超过|超限|已达|达到|失败|到期|不够|为 ?0)",
        rf"(?:超出|超过|用尽|用完|耗尽|没有|不足)[^。\n]{{0,15}}?{_ZH_QUOTA}",
    )
)
_BARE_MONEY: Final = re.compile(
    _any(
        _spent(_CREDIT),
        rf"{_REACHED}{_NEAR}4}}?[^\w\n]{{1,4}}(?:credit|spend(?:ing)?|billing) (?:limit|cap)",
    )
)
_BODY_MONEY: Final = re.compile(
    _any(
        _spent(_MONEY),
        rf"{_MONEY}[^.\n]{{0,40}}(?:while|but)[^.\n]{{0,40}}(?:required|needed|costs?)",
        r"\b(?:account|organization|workspace|project|subscription|bill|invoice) (?:\w+ ){0,3}(?:past due|overdue|delinquent|in arrears)",
        r"\b(?:subscription|plan|trial)(?: period)? (?:is |has |have |was )?(?:already )?(?:expired|ended|lapsed|inactive|cancell?ed)\b",
        r"\bused (?:up )?all (?:\w+ ){0,3}(?:monthly|daily|weekly)\b|\bno active (?:subscription|plan)\b|\bpayment (?:is )?(?:required|overdue)\b|\bout of (?:credits?|funds|budget|quota)\b",
        r"欠费|余额不足|请[^。\n]{0,4}充值|账户[^。\n]{0,6}余额",
    )
)
_ADD: Final = re.compile(  # what is asked for, not what failed: "the top-up could not be created"
    r"(?<!could not )(?<!cannot )(?<!failed to )(?<!unable to )(?<!the )(?<!a )(?<!your )(?<!this )"
    r"\b(?:(?:add|buy|purchase)(?: \w{1,12}){0,3} (?:credits?|funds)\b|top[- ]?up\b|recharge\b)(?! (?:could|can|was|has|is|failed))"
)
_PASSES: Final = re.compile(
    r"try again (?:later|soon|shortly|in a)|retry (?:later|shortly|in a)|temporar|slow down|稍后|googleapis\.com"
    r"|check quota|wait before"
)
_TAG: Final = re.compile(r"</?[a-z][^<>]{0,200}>")


def says_money(words: str, *, bare: bool = False) -> bool:
    """Return whether words in lower case say that money is gone: `bare` without a status or an envelope."""
    words = words[:_READ]
    if (_BARE_MONEY if bare else _BODY_MONEY).search(words):
        return True
    return not bare and bool(_ADD.search(words)) and not mentions_rate(words)


def says_quota(words: str) -> bool:
    """Return whether words in lower case say that a quota is used up, be it for a moment."""
    words = _TAG.sub("", words[:_READ]) if "<" in words else words[:_READ]
    return bool(_WEAK_QUOTA.search(words))


def says_day(words: str, *, refused: bool = True) -> bool:
    """Return whether words in lower case say that a day, a week or a month is used up.

    `refused`: the status does not say more than that; then the bounds of a key are why. A limit per minute in
    the same breath is the one that passes: "exceeded: 10 per minute, 1000 per day".
    """
    words = words[:_READ]
    if not any(name in words for name in _NAMED):  # nearly every text
        return False
    found = _DAY.search(words) or (_LIMITED_TO.search(words) if refused else None)
    return found is not None and not _SHORT_UNIT.search(found.group())


def passes(words: str) -> bool:
    """Return whether words in lower case say that it passes by itself."""
    return mentions_rate(words) or bool(_PASSES.search(words[:_READ]))


# ---- contexts ------------------------------------------------------------------------------------------------------

_HELD: Final = _any(
    r"\bprompts?\b(?:[ _]tokens?\b| (?:length|size|limit))?(?: count)?",
    r"\bcontext[ -](?:length|window|size|limit|budget|tokens?)\b|\bcontext is\b",
    r"\b(?:input|inputs|message|messages|request|sequence|conversation|total|context)[ _]tokens?\b(?: (?:count|length|limit))?",
    r"\btokens? (?:count|limit|length|window)\b|\bnumber of (?:\w+ )?tokens\b|\bmaximum (?:number of )?(?:input |allowed )?tokens\b",
    r"\bmax_(?:seq|model|context|input|prompt)_(?:len|length|tokens?)\b|\bn_ctx\b|\b(?:model|context|prompt)(?:'s)? (?:\w+ )?length\b",
)
_MAYBE_HELD: Final = _any(
    r"\b(?:input|inputs|sequence|conversation|chat|history|messages?|request|document|text)(?:'s)?(?: is| are| has| contains)?\b",
    r"\blength of (?:the |your |all )?(?:\w+ )?(?:messages?|input|inputs|conversation|chat|request|history)\b|\bcurrent length\b",
)
_OVER: Final = _any(
    r"\bexceed\w{0,3}\b|\b(?:longer|larger|greater|bigger|more|higher) than (?!(?:or equal to )?[01]\b)|\btoo (?:long|large|big|many)\b",
    r"\boverflow\w{0,4}\b|\bover (?:the |its )?(?:\w+ )?(?:limit|maximum)|\bbeyond\b|\bsurpass\w{0,3}\b|\babove (?:the )?(?:max|limit)",
    r"\b(?:must|should|has to|have to) (?:be|have|contain|not exceed)(?: (?:strictly|at most|less|fewer|smaller|shorter|lower|under|below|no more|≤|<=))",
    r"\b(?:doesn't|does not|don't|do not|cannot|can't|won't) fit\b|\bnot fit (?:in|into)\b|> ?[0-9]{3}|<= ?[0-9]{3}",
)
_CONTEXT: Final = re.compile(
    _any(rf"{_HELD}[^\n]{{0,80}}?{_OVER}", rf"{_OVER}[^\n]{{0,60}}?{_HELD}", r"\bcontext overflow")
)
_MAYBE_CONTEXT: Final = re.compile(
    _any(rf"{_MAYBE_HELD}[^\n]{{0,60}}?{_OVER}", rf"{_OVER}[^\n]{{0,60}}?{_MAYBE_HELD}")
)
_NUMBER: Final = r"[0-9][0-9,_]{2,12}k?\b|\b[0-9]{1,4}k\b"
_TWO_NUMBERS: Final = re.compile(rf"(?:{_NUMBER})[^\n]{{0,200}}?(?:{_NUMBER})")
_LIMIT: Final = re.compile(
    r"\b(?:max\w{0,4}|limit\w{0,3}|at most|only|supports|allowed|up to|capacity|exceed\w{0,3})\b"
)
_TOKENS: Final = re.compile(
    rf"(?:{_NUMBER}) ?(?:\w+ )?tokens?\b|\btokens?\b[^\n]{{0,30}}?(?:{_NUMBER})"
)
_SHORTEN: Final = re.compile(
    r"\b(?:reduce|shorten|decrease|trim|truncate|shorter|fewer)(?: \w{1,15}){0,6} (?:prompt|messages?|inputs?|context|conversation|history|tokens?)\b"
)
_OF_NO_MODEL: Final = re.compile(
    r"\btokens?\b|_tokens\b|\bprompts?\b|\bcontext (?:length|window|size)|\bmodel\b|\bcompletion\b"
)
_LETTERS: Final = re.compile(
    r"\bcharacters?\b|\bchars\b|\bbytes?\b|\b[km]i?b\b|字符|字节|\bcolumn\b|\bvarchar\b"
)
_OUTPUT: Final = re.compile(
    r"\bmax_(?:new_|completion_|output_)?tokens\b|\b(?:completion|output|generated|maximum|max) tokens\b|\bmaxoutputtokens\b"
)
_INPUT: Final = re.compile(
    r"\bprompts?\b|(?<!\w)inputs?\b(?! should)|\bcontext\b|\bmessages?\b|\bconversation\b|\bhistory\b"
)
_NO_CONTEXT: Final = re.compile(
    r"per[- _]?(?:day|month|week|hour)|\bdaily\b|\bmonthly\b|quota|credit|balance|wait before|try again later|expired"
    r"|unexpected token|deadline|call stack|额度|配额|余额|密码"
)
_ZH_CONTEXT: Final = re.compile(
    r"(?:上下文|提示词|输入|对话|prompt|tokens?)[^。\n]{0,30}?(?:超过|超出|超长|过长|太长|大于|超限|上限)"
    r"|(?:超过|超出|大于)[^。\n]{0,25}?(?:上下文|tokens?|最大(?:输入|序列)?长度|输入长度|模型[^。\n]{0,6}长度)"
)


def says_context(words: str) -> bool:
    """Return whether words in lower case say that a prompt is longer than the model takes."""
    words = words[:_READ]
    if _TWO_NUMBERS.search(words):  # how many there are, and how many may be: no rate
        words = words.replace("too many tokens", "tokens exceed")
    if mentions_rate(words) or _NO_CONTEXT.search(words):
        return False
    if _OUTPUT.search(words) and not _INPUT.search(words):
        return False  # the answer that was asked for is too long: the parameter is wrong
    if _CONTEXT.search(words) or _ZH_CONTEXT.search(words):
        return True
    if not _OF_NO_MODEL.search(words):
        return False
    if _SHORTEN.search(words) or (_MAYBE_CONTEXT.search(words) and not _LETTERS.search(words)):
        return True
    counted = _TOKENS.search(words) and _LIMIT.search(words)
    return bool(counted and _TWO_NUMBERS.search(words))


# ---- models --------------------------------------------------------------------------------------------------------

_WHICH: Final = r"(?:[\s:`\"'(\[]{1,3}(?!param|config|output|input|response|support|type|does|can)[^\s,;]{1,100})?[\"'`)\]]{0,2}"
_NO_MODEL: Final = re.compile(
    _any(
        rf"\b(?:model|engine|inference endpoint|model endpoint|model deployment)\b{_WHICH}[\s,:-]{{1,3}}(?:(?:is|was|are|has been) )?(?:currently )?"
        r"(?:not (?:found|exist|supported|available|recognized|enabled|deployed|accessible|valid|installed|allowed|served)|unknown|unsupported"
        r"|unavailable (?:to|for|in)|unrecognized|invalid|deprecated|retired|discontinued|decommissioned|removed|no longer (?:available|supported))\b",
        r"\b(?:unknown|unsupported|invalid|unrecognized|no such|non-?existent|(?:cannot|can't|could not|couldn't|not) find)"
        r"(?: the| a| this| any)?(?: requested| specified| matching)? (?:model|engine|model deployment|inference endpoint)s?\b(?! (?:param|config|output|input|response|type|option|field))",
        r"\btargeted an endpoint that does not exist|\bengine\b[^.\n]{0,60}(?:does not|doesn't) exist",
        r"\bmodel\b[^.\n]{0,100}(?:doesn't exist|isn't (?:supported|available)|cannot be found|is not recognized)",
        r"\bno (?:\w+ )?(?:model|deployment|provider|endpoint|channel)s? (?:\w+ )?(?:found|available|supports?) (?:for|named|with) (?:the )?(?:model|name)",
        r"模型[^。\n]{0,60}?(?:不存在|未找到|不支持|无效|已下线|未开通|没有权限|无权)|(?:不存在|未找到|不支持|无效)的?(?:该|此)?模型",
    )
)
_NOT_NOW: Final = re.compile(
    r"try again (?:later|soon|shortly|in)|temporar|loading|overloaded|busy|稍后"
)


def says_model(words: str) -> bool:
    """Return whether words in lower case say that there is no such model, at least for this key."""
    words = words[:_READ]
    return bool(_NO_MODEL.search(words)) and not _NOT_NOW.search(words)


# ---- names ---------------------------------------------------------------------------------------------------------

_PARTS: Final = re.compile(r"[A-Z]{2,40}(?![a-z])|[A-Z]?[a-z]{1,40}|[A-Z]")
_JOINED: Final = {
    "ratelimit": "rate limit",
    "toomanyrequests": "too many requests",
    "quotaexceeded": "quota exceeded",
}
_PAID: Final = frozenset(
    [
        "quota",
        "credit",
        "balance",
        "fund",
        "billing",
        "budget",
        "spend",
        "spending",
        "plan",
        "subscription",
        "usage",
        "allowance",
        "trial",
    ]
)
_PAID_GONE: Final = frozenset(
    [
        "exceed",
        "exceeded",
        "exhausted",
        "insufficient",
        "depleted",
        "reached",
        "limit",
        "limited",
        "overdue",
        "enough",
        "out",
        "over",
        "used",
        "expired",
        "required",
        "cap",
        "unpaid",
        "violation",
    ]
)
_DAYS: Final = frozenset(["daily", "monthly", "weekly", "day", "month"])
_OF_RATE: Final = frozenset(
    [
        "rate",
        "throttle",
        "throttled",
        "throttling",
        "throttl",
        "concurrent",
        "concurrency",
        "minute",
        "second",
        "hour",
        "min",
        "sec",
        "qps",
        "rpm",
        "tpm",
        "tps",
        "rps",
        "frequency",
        "request",
    ]
)
_TEXTS: Final = frozenset(["prompt", "context", "input", "token", "sequence", "conversation"])
_READS: Final = frozenset(("prompt", "context", "input", "total", "message"))
_TEXTS_OVER: Final = frozenset(
    ["exceed", "exceeded", "exceeds", "long", "overflow", "large", "over"]
)
_MODELS: Final = frozenset(["model", "engine", "endpoint", "deployment"])
_NONE: Final = frozenset(
    [
        "found",
        "unknown",
        "unsupported",
        "supported",
        "exist",
        "exists",
        "available",
        "invalid",
        "decommissioned",
        "deprecated",
        "retired",
    ]
)
_LIMIT_HIT: Final = frozenset(
    ["exceeded", "exceed", "reached", "limit", "limited", "limits", "limiting", "over", "quota"]
)
_Reason = Literal["quota", "context", "model", "rate", ""]


def parts_of(name: str) -> frozenset[str]:
    """Return the words of a name, in lower case and singular: quotaExceeded, QUOTA_EXCEEDED, quota-exceeded."""
    found: set[str] = set()
    for match in islice(_PARTS.finditer(name[:200]), 12):
        lowered = match.group().lower()
        for word in _JOINED.get(lowered, lowered).split():
            found.add(word if word.endswith("ss") or len(word) < 4 else word.removesuffix("s"))
    return frozenset(found)


def name_says(name: str) -> _Reason:
    """Return what a name that is not listed says, by the words it is made of."""
    parts = parts_of(name)
    of_rate = bool(parts & _OF_RATE) or (
        "limit" in parts and bool(parts & {"request", "query", "flow", "call"})
    )
    if parts & _DAYS and parts & {"limit", "quota", "cap"} and parts & _PAID_GONE:
        return "quota"
    if {"too", "many"} <= parts and parts & {
        "request",
        "call",
        "querie",
        "concurrent",
        "connection",
    }:
        return "rate"
    if {"throttled", "throttling", "throttle", "throttl"} & parts or {"slow", "down"} <= parts:
        return "rate"
    if of_rate and parts & _LIMIT_HIT and not parts & {"size", "time", "invalid"}:
        return "rate"
    if parts & {"overdue", "arrear", "arrearage"} or (
        "no" in parts and parts & {"credit", "quota", "balance"}
    ):
        return "quota"
    if parts & _PAID and parts & _PAID_GONE and not of_rate:
        return "quota"
    if parts & _TEXTS and parts & _TEXTS_OVER and not of_rate:
        of_answer = parts & {"output", "completion", "new"} or (
            {"max", "token"} <= parts and not parts & _READS
        )
        return "" if of_answer or "expired" in parts else "context"
    if {"token", "limit"} <= parts and not of_rate:
        return "context"
    if (
        parts & _MODELS
        and (parts & _NONE or ("not" in parts and parts & {"open", "enabled", "allowed"}))
        and not parts & {"param", "parameter", "temporarily"}
    ):
        unmistakable = "model" in parts or "engine" in parts or "invalid" in parts
        return "model" if unmistakable and not parts & {"file", "url", "output"} else ""
    return ""
