"""Whether a host is this machine: judged from its name alone, before it is looked up. Loads no library, so that everybody may ask."""

from __future__ import annotations

import ipaddress


def is_ip(host: str) -> bool:
    """Whether a host is an address and needs no DNS."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a host, judged without DNS, is this machine."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    if not is_ip(name):
        return False
    ip = ipaddress.ip_address(name)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback
