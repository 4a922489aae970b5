"""What to do about a port that is taken: which one it is, whether anything holds it at this moment, and what shows who does.

Rule: a port is told of only where the text leaves no doubt which, a holder only where the system's table of sockets shows one, and a
program to look with only if it is there.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ...errors import Failure
from .suggestion_context import Fix, SuggestionContext
from .suggestion_texts import symbol_in, texts_of


_MOST_READ: Final = 1_000_000  # bytes of a table of sockets
_LISTENING: Final = "0A"
_MOST_PORTS: Final = 3
_END: Final = r"(\d{1,5})(?![\w-]|\.\d)"
_NUMBERS: Final = r"\d{1,3}(?:\.\d{1,3}){3}"
_ENDPOINTS: Final = (
    re.compile(
        r"\(\s*b?['\"]([^'\"]*)['\"],\s*(\d{1,5})\s*[,)]"
    ),  # python: ('127.0.0.1', 80), ('::1', 80, 0, 0)
    re.compile(rf"\[([0-9A-Fa-f:.]*(?:%\w+)?|{_NUMBERS})\]:{_END}"),  # [::1]:80; ssh: [127.0.0.1]:80
    re.compile(rf"(?<![\w.:\]])({_NUMBERS}|localhost|\*|):{_END}"),  # 0.0.0.0:80, localhost:80, *:80; go: :80
    re.compile(rf"(?<![\w.:\[])(::|[0-9A-Fa-f:]*::[0-9A-Fa-f]{{1,4}}):{_END}(?!:)"),  # node: :::80, ::1:80
)
_NAMED = re.compile(
    rf"(?:['\"]({_NUMBERS}|[0-9A-Fa-f:]+)['\"] )?\bport(?:\b[ :=]{{1,3}}|['\"]: )(?:number )?{_END}",
    re.IGNORECASE,
)
_SOCKET_FILE = re.compile(r"(?:already in use:? |EADDRINUSE:? |\bunix:|\bAddress )['\"(]?/\w")
_BESIDE = re.compile(r"^\s*port: \d|\bin use\b|\balready running\b", re.IGNORECASE)
_PROTOCOL = re.compile(r"\b(tcp|udp)[46]?\b", re.IGNORECASE)
_ANY: Final = frozenset({"", "*", "0.0.0.0", "::"})  # noqa: S104 -- read, not bound


class Holder(NamedTuple):
    """A row of the system's table of sockets that has a port."""

    host: str
    is_listening: bool


def port_taken(failure: Failure, context: SuggestionContext) -> Iterator[Fix]:
    """Yield of each port that was taken whether anything holds it at this moment; nothing where the system does not tell."""
    lines = list(texts_of(failure))
    refused = [line for line in lines if symbol_in(line) == "EADDRINUSE"]
    wanted = ports_in(lines)
    if not wanted and not any(_endpoints(line) or _SOCKET_FILE.search(line) for line in refused):
        wanted = _port_argument(context)
    is_udp = {found[1].lower() for line in refused for found in _PROTOCOL.finditer(line)} == {"udp"}
    for port, hosts in list(wanted.items())[:_MOST_PORTS]:
        yield from _as_it_is(port, hosts, is_udp=is_udp)


def ports_in(lines: Iterable[str]) -> dict[int, set[str]]:
    """Return the ports that lines say were taken, with their hosts ("" for one that is not said); none of a line that leaves a doubt."""
    parts = list(dict.fromkeys(lines))
    refused = [line for line in parts if symbol_in(line) == "EADDRINUSE"]
    found: dict[int, set[str]] = {}
    for line in refused:
        here = _endpoints(line) | _named(line)
        if len({port for _, port in here}) == 1:
            for host, port in here:
                found.setdefault(port, set()).add(host)
    if not found and not any(map(_endpoints, refused)):  # the line beside it, as node and postgres print it
        beside = {port for line in parts if _BESIDE.search(line) for _, port in _named(line)}
        found = {port: {""} for port in beside} if len(beside) == 1 else {}
    return found


def _endpoints(line: str) -> set[tuple[str, int]]:
    return _valid((match[1], match[2]) for pattern in _ENDPOINTS for match in pattern.finditer(line))


def _named(line: str) -> set[tuple[str, int]]:
    return _valid((match[1] or "", match[2]) for match in _NAMED.finditer(line))


def _valid(found: Iterable[tuple[str, str]]) -> set[tuple[str, int]]:
    return {(host.partition("%")[0], int(port)) for host, port in found if 0 < int(port) < 65_536}


def _port_argument(context: SuggestionContext) -> dict[int, set[str]]:
    value: object = context.arguments.get("port")
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value)[:9].isdecimal():
        return {}
    host: object = context.arguments.get("host")
    return {port: {name} for name, port in _valid([(host if isinstance(host, str) else "", str(value)[:9])])}


def _as_it_is(port: int, hosts: set[str], *, is_udp: bool) -> Iterator[Fix]:
    rows = _holders(port, "udp" if is_udp else "tcp")
    if rows is None:
        return
    ours = [row for row in rows if any(_is_in_the_way(host, row.host) for host in hosts)]
    listening = [row for row in ours if row.is_listening or is_udp]
    if listening:
        listener = listening[0].host
        shown = f"[{listener}]:{port}" if ":" in listener else f"{listener}:{port}"
        look = _who_holds(port, is_udp=is_udp)
        who = f"see who holds it with `{look}`" if look else "find out who holds it"
        yield Fix(f"port {port} is still taken, at {shown}: {who}, or use another")
    elif ours:
        yield Fix(
            f"nothing listens on port {port} any more, but connections still have it: repeat the call when they have ended"
        )
    elif is_udp or not _holders(port, "udp"):  # without a word of which protocol, the other one may be meant
        yield Fix(f"nothing listens on port {port} any more: repeat the call")


def _who_holds(port: int, *, is_udp: bool) -> str:
    """Return the command line that shows who holds a port, with a program that is there; empty without one."""
    kind = "udp" if is_udp else "tcp"
    for program, line in (
        ("ss", f"ss -{kind[0]}lnp sport = :{port}"),
        ("lsof", f"lsof -i {kind}:{port}"),
        ("fuser", f"fuser -v {port}/{kind}"),
    ):
        if shutil.which(program) is not None:
            return line
    return ""


def _is_in_the_way(wanted: str, held: str) -> bool:
    """Return whether a socket at `held` is in the way of one at `wanted`: a host that is not an address may be any of them."""
    if wanted in _ANY or held in _ANY:
        return True
    if wanted == "localhost":
        return held == "::1" or held.startswith("127.")
    import ipaddress

    try:
        return ipaddress.ip_address(wanted) == ipaddress.ip_address(held)
    except ValueError:
        return True


def _holders(port: int, kind: str) -> list[Holder] | None:
    """Ask the system's table of sockets, without opening one; None if it has none, or too long a one."""
    found: list[Holder] | None = None
    for table in (f"/proc/net/{kind}", f"/proc/net/{kind}6"):
        try:
            with Path(table).open("rb") as file:
                data = file.read(_MOST_READ)
        except OSError:
            continue
        if len(data) == _MOST_READ:
            return None
        found = found or []
        for row in data.decode("ascii", "replace").splitlines()[1:]:
            columns = row.split()
            if len(columns) > 3 and columns[1].endswith(f":{port:04X}"):
                found.append(Holder(_host(columns[1].partition(":")[0]), columns[3] == _LISTENING))
    return found


def _host(written: str) -> str:
    """Return an address as people write it: the table has it in words of four bytes, each in the machine's order."""
    import ipaddress

    words = [bytes.fromhex(written[start : start + 8]) for start in range(0, len(written), 8)]
    data = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    address = ipaddress.ip_address(data)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
