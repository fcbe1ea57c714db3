"""Which hosts a request may name: a server without a token is for programs and browsers of this machine.

A web page can point a domain of its own at 127.0.0.1 once it is loaded (DNS rebinding). The browser then takes the
server for a part of that page, and lets its scripts read the answers. But the requests still name the page's domain.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from ms_crf.base.errors import brief
from ms_crf.server.limits import Refused

TARGET = 'ms_crf.target'               # of a scope: the target as it stands in the first line of the request

_AUTHORITY = re.compile(rb'(?:(localhost|[\d.]+?)\.?|\[([0-9a-f:.]+)\])(?::\d{0,5})?')
_ABSOLUTE = re.compile(rb'[a-z][a-z0-9+.-]*://([^/?#]*).*', re.DOTALL)


def is_loopback(authority: bytes) -> bool:
    """Whether a host, which a port may follow, is `localhost`, an address of 127.0.0.0/8, or `[::1]`."""
    match = _AUTHORITY.fullmatch(authority.lower())
    if not match:
        return False
    name, address = match.groups()
    try:
        if address:
            return ipaddress.IPv6Address(address.decode()).is_loopback
        return name == b'localhost' or ipaddress.IPv4Address(name.decode()).is_loopback
    except ValueError:
        return False


def check_host(scope: Mapping[str, Any]) -> None:
    """Raises Refused unless a request has one Host header, and it and an absolute target name the loopback."""
    hosts = [value for name, value in scope['headers'] if name == b'host']
    absolute = _ABSOLUTE.fullmatch(scope[TARGET].lower())
    if len(hosts) != 1:
        raise _refused(f'{len(hosts) or "no"} Host headers')
    for host in hosts if absolute is None else [*hosts, absolute[1]]:
        if not is_loopback(host):
            raise _refused(brief(host.decode('latin-1')))


def _refused(value: str) -> Refused:
    return Refused(421, f'expected one Host header with localhost, 127.0.0.1 or [::1], got {value}; start the server '
                        'with a token to answer requests for other hosts', None, True)
