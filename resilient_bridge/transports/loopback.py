"""Whether a host is this machine, judged by its name alone, before DNS.

It imports no third-party library, so any module may import it.
"""

from __future__ import annotations

import ipaddress


def is_ip(host: str) -> bool:
    """Return whether a host is an IP address, which needs no DNS."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, judged without DNS."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    if not is_ip(name):
        return False
    ip = ipaddress.ip_address(name)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback
