"""Tokens that are recognised by their beginning: the prefixes that secret scanners know.

Rule: a prefix that ordinary words share needs a capital or a digit after it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final


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
