"""Secrets without a name beside them: given to a command, a server, a call, a person; and tokens known by their beginning.

Rule: as for all shapes: linear, and looked for only where one of their clues stands. A prefix that
ordinary words share needs a capital or a digit after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from .secret_fields import UNMASKED
from .secret_values import MASK, has_mix, is_secret, is_sensitive, words


Replace: TypeAlias = "str | Callable[[re.Match[str]], str]"


class Shape(NamedTuple):
    """One kind of secret: where one of the clues stands (in lower case), the pattern is replaced."""

    clues: frozenset[str]
    pattern: re.Pattern[str]
    mask: Replace


def unless_word(found: re.Match[str]) -> str:
    """Mask what follows the first group, unless it is a placeholder or a word of a sentence."""
    value = found.group()[len(found[1]) :]
    return f"{found[1]}{MASK}" if is_secret(value, is_bare=True) else found.group()


def _unless_plain(found: re.Match[str]) -> str:
    """Mask what follows the first group where it mixes letters and digits, as hardly a word does."""
    value = found.group()[len(found[1]) :]
    return (
        f"{found[1]}{MASK}" if has_mix(value) and is_secret(value, is_bare=True) else found.group()
    )


def row(
    clues: tuple[str, ...], pattern: str, mask: Replace = rf"\1{MASK}", flags: int = re.IGNORECASE
) -> Shape:
    return Shape(frozenset(clues), re.compile(pattern, flags), mask)


SETTINGS: Final = (
    r"authorization|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|secret|passw(?:or)?d|passphrase|passcode|pwd|token|credentials?"
    r"|cookie|signature|jwt|otp|[_-](?:auth|pass)"
)


# ---- tokens -----------------------------------------------------------------------------------------


_PLAIN: Final = (  # the prefix and the letters that may follow: distinctive enough alone
    r"sk-[\w-]{3,}", r"eyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?", r"eyJ[\w-]{20,}", r"gh[pousr]_\w{6,}", r"github_pat_\w{6,}", r"gsk_\w{6,}",
    r"xai-[\w-]{6,}", r"xox[a-z](?:\.xox[a-z])?-[\w-]{6,}", r"xapp-\d-[\w-]{6,}", r"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[0-9A-Z]{12,}",
    r"ABSK[\w+/=]{20,}", r"AIza[\w-]{6,}", r"GOCSPX-[\w-]{6,}", r"ya29\.[\w-]{4,}(?:\.[\w-]+)*", r"1//0[\w-]{10,}", r"[srp]k_(?:live|test|prod)_\w{4,}",
    r"whsec_[\w+/=]{4,}", r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|soat|imt|agent|oas|ffct)-[\w.-]{4,}", r"GR1348941[\w-]{6,}", r"SG\.[\w-]{4,}(?:\.[\w-]+)?",
    r"do[opr]_v1_\w{4,}", r"shp(?:at|ca|pa|ss|tka|ua)_\w{4,}", r"sq0[a-z]{3}-[\w-]{4,}", r"EAAA[\w-]{20,}", r"EAA[A-Z]\w{30,}", r"lin_(?:api|oauth)_\w{4,}",
    r"nvapi-[\w-]{4,}", r"pplx-\w{4,}", r"tgp_v\d_[\w-]{4,}", r"AGE-SECRET-KEY-1\w{6,}", r"AT(?:ATT|CTT|BB|STT)3?[\w=-]{16,}", r"NR(?:AK|II|AA|JS|RA)-[\w-]{6,}",
    r"PMAK-[\w-]{6,}", r"ph[cx]_\w{16,}", r"sntry[su]_[\w+/=-]{6,}", r"dapi[0-9a-f]{16,}(?:-\d)?", r"rubygems_\w{6,}", r"dckr_[po]at_[\w-]{4,}",
    r"hv[sbr]\.[\w-]{6,}", r"\w{14}\.atlasv1\.[\w-]{6,}", r"gl(?:sa|c)_[\w+/=]{10,}", r"figd_[\w-]{6,}", r"ntn_\w{10,}", r"pat\w{14}\.[0-9a-f]{32,}",
    r"x(?:key|smtp)sib-[\w-]{6,}", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}", r"\d{6,12}:AA[\w-]{20,}", r"pscale_(?:tkn|pw|oauth)_[\w.-]{4,}",
    r"sbp_\w{16,}", r"sb_secret_[\w-]{4,}", r"FLWSECK[\w-]{6,}", r"LTAI\w{12,}", r"pul-[0-9a-f]{16,}", r"tskey-[\w-]{6,}", r"tvly-[\w-]{6,}", r"jina_\w{10,}",
    r"CCIP(?:AT|RT)_[\w-]{6,}", r"bkua_\w{6,}", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{6,}", r"nfp_\w{16,}", r"sgp_[\w-]{16,}", r"dt0[a-z]\d\d\.[\w.]{10,}",
    r"lsv2_(?:pt|sk)_\w{6,}", r"pcsk_\w{6,}", r"EZ[AT]K[\w]{20,}", r"shippo_(?:live|test)_\w{6,}", r"duffel_(?:live|test)_[\w-]{6,}", r"FlyV1\s\S{6,}",
    r"fo1_[\w-]{10,}", r"eyJrIjoi[\w+/=]{6,}", r"K00[0-9][\w/+]{27,}", r"ops_eyJ[\w+/=-]{6,}", r"p8e-\w{16,}", r"shp_\w{16,}", r"AKC[a-zA-Z0-9]{20,}", r"md5[0-9a-f]{32}(?![0-9a-f])", r"e2b_\w{16,}",
)  # fmt: skip
_WEAK: Final = (  # ordinary words begin like these
    r"hf_[A-Za-z0-9]{8,}", r"api_org_[A-Za-z0-9]{8,}", r"npm_[A-Za-z0-9]{8,}", r"r8_[A-Za-z0-9]{8,}", r"fw_[A-Za-z0-9]{8,}", r"pypi-[\w-]{8,}",
    r"key-[0-9A-Za-z]{12,}", r"secret_[A-Za-z0-9]{16,}", r"SK[0-9a-f]{32}", r"oy2[a-z0-9]{30,}", r"fc-[0-9a-f]{16,}", r"tgp_[\w-]{8,}", r"tok_[A-Za-z0-9]{10,}",
    r"ghs?_[A-Za-z0-9]{16,}", r"sk_[A-Za-z0-9]{12,}", r"pk_[A-Za-z0-9]{20,}", r"rk_[A-Za-z0-9]{12,}", r"s\.[A-Za-z0-9]{24}",
)  # fmt: skip


@cache
def tokens() -> re.Pattern[str]:
    """Return one pattern for all tokens; it is case-sensitive."""
    heads: dict[str, list[str]] = {}
    odd: list[str] = []
    for fragment in (*_PLAIN, *(_asking(weak) for weak in _WEAK)):
        if fragment[0].isalpha():
            heads.setdefault(fragment[0], []).append(fragment[1:])
        else:
            odd.append(fragment)
    grouped = (f"{head}(?:{'|'.join(tails)})" for head, tails in heads.items())
    return re.compile(f"(?<![A-Za-z0-9])(?:{'|'.join((*grouped, *odd))})", re.ASCII)


def _asking(fragment: str) -> str:
    prefix = re.match(r"[\w.-]*?[_.-](?=\[)|SK|oy2|s\\\.", fragment)
    cut = prefix.end() if prefix is not None else 1
    return f"{fragment[:cut]}(?=[a-z_-]{{0,64}}[A-Z0-9]){fragment[cut:]}"


# ---- commands and calls -----------------------------------------------------------------------------


_PROGRAMS: Final = (
    r"(?:mysql(?:dump|admin|import|show|check)?|mariadb(?:-dump|-admin)?|sshpass|mongo(?:sh|dump|restore)?|(?:docker|podman|helm|nerdctl"
    r"|skopeo|buildah|oras|crane|az|oc|registry)\s[^\n]{0,80}?login|smbclient|ldap(?:search|add|modify|passwd|whoami)|redis-cli|sqlcmd|isql"
    r"|bcp|plink|pscp|ipa-\w{2,10}(?:-\w{2,10})?|mosquitto_(?:pub|sub|rr)|unzip|zip|7za?|htpasswd|lftp|sqlplus|ipmitool|ssh-keygen|(?:un)?rar)"
)


def _unless_name(found: re.Match[str]) -> str:
    value = found.group()[len(found[1]) :]
    is_name = value.isalpha() and found[1].lower().startswith("token(")  # of a lexer
    is_name = is_name or (is_sensitive(value) and not any(letter.isdigit() for letter in value))
    return found.group() if is_name or not is_secret(value) else f"{found[1]}{MASK}"


_ARGUMENT: Final = (
    r"(?:b?(?:'[^'\n]{0,300}'|\"[^\"\n]{0,300}\")(?!\s?[:=])|[\w.@]{1,60}(?!\s?[:=]))"
)
_TEXT: Final = re.compile(r"'([^'\n]*+)'|\"([^\"\n]*+)\"|[(\[,]")
_CALL: Final = re.compile(
    r"(?:(?P<second>(?:log_?in|log_?on|sign_?in|auth(?:enticate)?|credentials?|bind(?:_s)?|set_?user|passw(?:or)?d|_pw)\w{0,20}\s?=?\s?)"
    r"|(?:connect(?:ion)?|pdo(?:->__construct)?|mysqli(?:->__construct)?|add_password)\s?)$",
    re.IGNORECASE,
)


def _without_password(found: re.Match[str]) -> str:
    """Mask the texts that are given to a call behind the user: to a login the second, to a connection the third."""
    call = _CALL.search(found.string[max(0, found.start() - 60) : found.start()])
    if call is None:
        return found.group()
    first, count = (1 if call["second"] else 2), -1

    def hidden(part: re.Match[str]) -> str:
        nonlocal count
        value = part[1] or part[2]
        count += part.group() in "([,"
        is_password = count >= first and value and is_secret(value, is_bare=True)
        return part.group().replace(value, MASK) if is_password else part.group()

    return _TEXT.sub(hidden, found.group())


def _if_card(found: re.Match[str]) -> str:
    """Mask the number of a card, whose last digit is the right one."""
    digits = [int(sign) for sign in reversed(found.group()) if sign.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return found.group() if (sum(digits[::2]) + sum(doubled)) % 10 else MASK


_OPTION: Final = re.compile(  # but for a port: -P 3306
    rf"(\s(?:-pw\s{{1,4}}+|-[paPwyN]\s{{1,4}}+|-[pP](?=[^\s-])|-[aw](?=[^\s-])))(['\"]?)(?!(?:(?<=-P )|(?<=-P))\d{{2,5}}(?:\s|$)){UNMASKED}(?!-)[^\s'\"]++"
)
_SNMP: Final = re.compile(rf"(\s-[cAX]\s['\"]?){UNMASKED}[^\s'\"]++")


@cache
def command_shapes() -> tuple[Shape, ...]:
    """Return the rows, compiled with the first failure."""
    return (
        # Options of one letter: `-u user:password` of any command, the others of commands that have them.
        row(
            ("-u", "--user", "--proxy-user", "--auth", " -a"),
            r"(?<![\w-])(-u\s{0,4}+|-U\s{1,4}+|(?:-u|-U|--(?:proxy-)?user)['\"],\s?|--(?:(?:proxy-)?user|auth)(?:\s{1,4}+|=)|(?<=http )-a\s|(?<=https )-a\s|(?<=xh )-a\s)(['\"]?)"
            rf"(?!\d{{1,7}}:\d{{1,7}}\b|[\w+.-]{{1,20}}://|\\\\){UNMASKED}(?=[^\s:'\"]{{1,200}}[:%][^\s'\"])[^\s'\"]++",
            rf"\1\2{MASK}",
            flags=0,
        ),
        row(
            (" -p", " -a", " -w", " -y", " -n"),
            rf"\b{_PROGRAMS}\b(?:[^\n|&;\\]|\\(?!n)){{1,400}}+",
            lambda found: _OPTION.sub(rf"\1\2{MASK}", found.group()),
        ),
        row(
            (" -p",),
            r"((?<![\w-])(?:-u|-U|--user(?:name)?|--login)[\s=]{1,4}+[^\n|&;]{1,120}?\s-p\s{1,4}+)(['\"]?)"
            rf"{UNMASKED}(?!\d{{1,5}}(?:\s|$)|\d{{1,5}}:|-)[^\s'\"]++",
            rf"\1\2{MASK}",
            flags=0,
        ),
        row(("pass:",), rf"\b(pass:){UNMASKED}(?!\\[nrt])[^\s'\"]++", flags=0),
        row(
            ("@",),
            r"(?:(?<![\w/:.@%+-])|(?<=//)|(?<=pserver:))(?!(?:mailto|sips?|xmpp|acct|im|ssh|npm|pkg|workspace|file|link|patch|jsr|git|node):)"
            rf"((?:[A-Za-z][\w.-]{{0,30}}/)?[A-Za-z][\w.+-]{{0,63}}+:){UNMASKED}[^\s:@/'\"]{{1,200}}+@(?=[A-Za-z0-9-]{{1,60}}+(?:\.[A-Za-z0-9]|:\d|:?/\w))(?!sha\d)",
            rf"\1{MASK}@",
            flags=0,
        ),
        # what is given to a command or a server without a name
        row(
            ("auth ", 'auth" ', "auth' ", "login ", "pass ", "requirepass", "identify "),
            rf"((?:^|[\n\r>:] {{0,4}}|\\[nr]|['\"`]|HELLO \d )(?:AUTH['\"]? (?:PLAIN|LOGIN|XOAUTH2|CRAM-MD5) |PASS['\"]? |AUTH['\"]? (?:[\w.-]{{1,60}} )?|\w{{1,8}} LOGIN \S{{1,100}} |"
            rf"IDENTIFY )\\{{0,3}}['\"]?){UNMASKED}(?!LOGIN\b|PLAIN\b|[A-Z][A-Z-]+\b)[^\s'\"\\]++",
            unless_word,
            flags=0,
        ),
        row(
            ("card", "cvv", "cvc", '"pan"'),
            r"()(?<![\w.-])(?:4|5[1-5]|2[2-7]|3[47]|6[05])(?:\d[ -]?){11,15}\d(?![\w-])",
            _if_card,
        ),
        # login("user", "…"), auth=("user", "…"), connect(host, user, "…")
        row(
            words(
                "login logon( auth credential bind( bind_s( set_user( passw _pw connect( connection( pdo( pdo-> mysqli( mysqli_ mysqli->"
            ),
            rf"[(\[]\s{{0,9}}{_ARGUMENT}(?:,\s{{0,9}}{_ARGUMENT}){{1,4}}",
            _without_password,
        ),
        # a switch of Windows, a router's command, SQL's user
        row(
            (" /rp", " /pw", " /p:", " /p "),
            rf"(\s/(?:rp|pw|p)[ :]\"?){UNMASKED}(?!/)[^\s'\"/]++(?=\s|\"|$)",
            unless_word,
        ),
        row(
            ("password ", "secret ", "-key", "snmp-server", "tacacs-server", "radius-server"),
            rf"(\b(?:(?:password|secret|key-string|(?:md5|pre-shared-)key) \d|snmp-server community|(?:tacacs|radius)-server [^\n]{{1,80}} key(?: \d)?|message-digest-key \d{{1,3}} md5(?: \d)?) ){UNMASKED}[^\s'\"]{{4,}}+",
            unless_word,
        ),
        row(
            ("login ",),
            rf"(\blogin (?!from|to|at|on|with|for|of|by|in|attempt|user|as|failed|id)[\w.@-]{{1,40}} ){UNMASKED}[^\s'\",;:/]++(?![:/])",
            _unless_plain,
        ),
        row(
            ("'admin'", '"admin"', "'root'", '"root"', "'guest'", "wifi.begin("),
            rf"((?:['\"](?:admin|root|administrator|guest)['\"]|\bwifi\.begin\(['\"][^'\"]{{1,60}}['\"]),\s?b?['\"]){UNMASKED}[^'\"\n]++",
            _unless_plain,
        ),
        # a name and a value among the options of a command; what a build is told to mask
        row(
            ("--value", "--data", "--secret-string", "add-mask", "variable="),
            rf"((?:--?(?:name|key)[ =]['\"]?\S{{0,80}}?(?:{SETTINGS})\w{{0,20}}['\"]? [^\n]{{0,60}}?--(?:value|data|secret-string)[ =]['\"]?"
            rf"|::add-mask::|\bvariable=\w{{0,40}}?(?:{SETTINGS})\w{{0,20}}[^\]\n]{{0,60}}\])){UNMASKED}[^\s'\"]++",
        ),
        row(
            ("connect to ", " using '", ' using "'),
            rf"(\b(?:connect|connect to [^\n]{{1,100}}) user \S{{1,100}} using ['\"]?){UNMASKED}[^\s'\";]++",
            _unless_plain,
        ),
        # who logs in, and with what: `login bob:…`, `authenticate with bob/…`
        row(
            ("login", "log-in", "log in", "logged in", "auth"),
            rf"(\b(?:log(?:ged|ging)?[ _-]?(?:in|on)|sign(?:ed|ing)?[ _-]?in|(?:add)?auth(?:enticat\w{{1,4}}|entication)?)\b[^\n:,/]{{2,80}}+(?:/(?=[\w.@+-]{{1,60}}['\"]?:)[^\n:,/]++)?[:/,](?<=[\w'\"].)b?['\"]?){UNMASKED}[^\s'\",;:/]++(?![:/])",
            _unless_plain,
        ),
        row(
            ("sql> conn", "!connect ", "net user "),
            rf"((?:(?:^|[\n>] ?)(?:CONN(?:ECT)?|conn(?:ect)?) [\w.-]{{1,60}}/|\bnet user \S{{1,60}} |!connect \S{{1,200}} \S{{1,60}} )['\"]?){UNMASKED}(?!/)[^\s'\"@]++",
            _unless_plain,
            flags=0,
        ),
        row(
            ("sp_",),
            rf"(\bsp_(?:addlogin|password|addlinkedsrvlogin|addapprole)\b[^\n']{{0,40}}'[^'\n]{{0,60}}',\s?N?'){UNMASKED}[^'\n]++",
        ),
        # the end of a link that lets in who has it
        row(
            words(
                "reset/ password/ verify/ verification/ invite/ invites/ invitation/ activate/ activation/ confirm/ confirmation/ magic/ token/ unlock/ link/"
            ),
            rf"([/_-](?:reset|password|verif(?:y|ication)|invit(?:es?|ation)|activat(?:e|ion)|confirm(?:ation)?|magic|token|unlock|link)/){UNMASKED}[\w.~-]{{12,}}+(?!/)",
            _unless_plain,
        ),
        row(
            ("/t/",),
            rf"(\bhttps?://\S{{1,200}}/t/){UNMASKED}(?=[a-z-]{{0,60}}\d)[\w-]{{12,}}+(?=/)",
        ),
        # SMTP's `Password:` in base64, and the answer
        row(
            ("ugfzc3dvcmq6",),
            rf"(UGFzc3dvcmQ6['\"]?(?:\s|\\[rn]|[a-zA-Z]{{1,10}}:|[<>=']){{1,30}}){UNMASKED}[A-Za-z0-9+/=]{{4,}}+",
            flags=0,
        ),
        row(("acl setuser",), rf"(\bacl setuser [^\n]{{0,200}}?[ ][>#]){UNMASKED}[^\s'\"]++"),
        row(("/user:",), rf"(/user:\S{{1,100}}+ {{1,4}}){UNMASKED}(?!/)[^\s'\"]++", unless_word),
        row(
            ("| ",),
            rf"(\b(?:echo|printf)\s+(?:-\w{{1,3}}\s+)?+['\"]?(?:[\w.-]{{1,60}}:)?+){UNMASKED}[^\s'\"|:]++"
            r"(?=['\"]?[^\n|]{0,60}\|[^\n|]{0,120}?(?:[-_]stdin|\bcryptsetup\b|\bkinit\b|\b(?:smb)?passwd\b|\bgpg\b|\bsudo -[Ssk]|\bchpasswd|\bsu -|--?[\w-]{0,20}passw))",
        ),
        row(
            ("chpasswd:",),
            rf"(\bchpasswd:\s[^:]{{0,40}}:[\s|>-]{{1,40}}[\w.-]{{1,60}}:){UNMASKED}[^\s'\"]++",
        ),
        row(
            ("chpasswd",),
            rf"(\bchpasswd\s{{0,4}}<<<?\s{{0,4}}['\"]?[\w.-]{{1,60}}:){UNMASKED}[^\s'\"]++",
        ),
        row(
            (" -k ",),
            rf"(\bopenssl [^\n|]{{0,200}}? -k )(?!\S{{0,200}}[/.]){UNMASKED}[^\s'\"]++",
            flags=0,
        ),
        row(
            ("auth",),
            rf"((?:Basic|Digest|Ntlm|NTLM|Plain)Auth\w{{0,20}}\([^()\n]{{0,80}}?['\"],\s?['\"]){UNMASKED}[^'\"]++",
            flags=0,
        ),
        row(
            ("ftp ", "scp ", "rsync "),
            rf"(\b(?:s?ftp|scp|lftp|rsync) [^\n|:@]{{0,100}}:){UNMASKED}[^\s@:/]{{1,100}}(?=@[\w.-]{{1,100}})",
        ),
        row(
            ("user-secrets set", "http-basic."),
            rf"(\b(?:user-secrets set|http-basic\.\S{{1,100}}) \S{{1,100}} ['\"]?){UNMASKED}[^\s'\"]++",
        ),
        row(
            ("htpasswd",),
            rf"(\bhtpasswd -\w{{0,6}}b\w{{0,6}} \S{{1,200}} \S{{1,100}} ['\"]?){UNMASKED}[^\s'\"]++",
        ),
        row(
            ("add_user", "change_password", "authenticate_user"),
            rf"(\b(?:add_user|change_password|authenticate_user) \S{{1,100}} ['\"]?){UNMASKED}[^\s'\"]++",
        ),
        row(
            (" -c ", " -a", " -x"),
            r"\bsnmp\w{1,12} [^\n|]{1,400}",
            lambda found: _SNMP.sub(rf"\1{MASK}", found.group()),
            flags=0,
        ),
        row(("securestring",), rf"(securestring\s+(?:-string\s+)?['\"]){UNMASKED}[^'\"]++"),
        row(
            ("secret", "password", "token", "credential", "apikey"),
            r"((?:[Ss]ecret|PASSWORD|[Pp]assword|[Tt]oken|[Cc]redential|[Aa]pi_?[Kk]ey)(?:[Ss]tring|[Ss]tr|[Bb]ytes|[Vv]alue)?\((?:(?:value|secret\w{0,10}|token|key|password|data|text)=)?b?['\"])"
            rf"{UNMASKED}[^'\"]++",
            _unless_name,
            flags=0,
        ),
        row(
            (" set ", "setx ", "passwd "),
            rf"(\b(?:set|setx|put|add)\s+[\w./:@-]{{0,100}}?(?:{SETTINGS})\s+(?:ENC )?+['\"]?){UNMASKED}[^\s'\"=]++={{0,2}}+(?!\s*=\s*\w)",
            unless_word,
        ),
        row(
            (" -b", "--cookie"),
            rf"(\bcurl\b[^\n|]{{0,300}}? (?:-b|--cookie)[ =]['\"]?){UNMASKED}[^\s'\"]+={UNMASKED}[^'\"\n]++",
            flags=0,
        ),
        row(
            ('-p"', "-p'"),
            rf"(['\"]-p['\"],\s?['\"]){UNMASKED}(?!\d|[./-]|[^'\"]{{0,200}}[/:])[^'\"]++",
            unless_word,
        ),
        row(
            ("is your ", "as your "),
            r"\b()(?<![\d.])\d{4,8}(?= (?:is|as) your [\w -]{0,30}(?:code|pin|otp|passcode|password)\b)",
        ),
        row(
            ("pin is", "code is"),
            r"(\b(?:pin|verification code|security code|one-time code) is:? )\d{4,8}\b",
        ),
        row(
            ("password",),
            r"""(password[^\n]{0,40}+\n\s{0,20}send(?:_user|line)?[ (]{1,3}["'])[^"'\n\\]++""",
        ),
        row(
            ("@tcp", "@unix(", "@udp"),
            rf"([\w.-]{{1,60}}:){UNMASKED}[^\s@]{{1,200}}+(?=@(?:tcp|unix|udp)6?\()",
        ),
        row(
            ("@",),
            rf"((?::thin:|:oci:|\bsqlplus\s)[\w.-]{{1,60}}/|(?<![\w/.:-])[\w.-]{{1,60}}/(?=[^\s@/]{{1,60}}@[\w.-]{{1,60}}:\d{{2,5}}/)){UNMASKED}[^\s@]{{1,200}}(?=@)",
        ),
    )
