"""What a sentence or a name says that nobody has listed: a thing, and what became of it.

Rule: a sentence counts only if it has both, near each other: what is counted (a prompt, a context,
credits, a quota, calls per second, a model) and what happened to it (too long, exceeded, used up,
not found). One of them alone is ordinary language. Every gap is bounded, so that reading is linear.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, Literal


SHORT_WAIT: Final = 3_600.0
"""Seconds. A quota that comes back within them is a rate."""
_READ: Final = 4_096  # characters
_NEAR: Final = r"(?:[^\w\n]{1,4}\w{1,40}){0,"  # up to so many words between: f"{_NEAR}4}}?"


def _any(*parts: str) -> str:
    return "(?:" + "|".join(parts) + ")"


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
_ZH_QUOTA: Final = (
    "(?:余额|额度|配额|限额|点数|积分|套餐|用量|流量包|资源包|次数包|免费(?:次数|额度))"
)
_NO_THING: Final = r"(?! ?(?:page|endpoint|service|api\b|table|server|name|id\b|field|project|metric|check|file|cards?\b))"


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
_ADD: Final = re.compile(
    r"\b(?:add|buy|purchase)(?: \w{1,12}){0,3} (?:credits?|funds)\b|\btop[- ]?up\b|\brecharge\b"
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
_OF_A_MODEL: Final = re.compile(
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
    if not _OF_A_MODEL.search(words):
        return False
    if _SHORTEN.search(words) or (_MAYBE_CONTEXT.search(words) and not _LETTERS.search(words)):
        return True
    counted = _TOKENS.search(words) and _LIMIT.search(words)
    return bool(counted and _TWO_NUMBERS.search(words))


# ---- models --------------------------------------------------------------------------------------------------------

_WHICH: Final = r"(?:[\s:`\"'(\[]{1,3}(?!param|config|output|input|response|support|type|does|can)[^\s,;]{1,100})?[\"'`)\]]{0,2}"
_MODEL: Final = re.compile(
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
    return bool(_MODEL.search(words)) and not _NOT_NOW.search(words)


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
