"""By which names the service may be addressed.

A browser lets any page send requests to this machine, and a page whose own name is made to point here (DNS rebinding)
may even read the answers. Both show in the request: its Host is the page's name, or its Origin is the page.
"""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from flcert.errors import InputError

AUTHORITY = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{0,5})?")
HERE = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Hosts:
    """The names that requests may be addressed to.

    Args:
        names: names and addresses of the service itself.
        added: names that the operator added, such as that of a proxy; pages of these may use the service too.
        any_address: whether it listens on every address of this machine. Addresses cannot be rebound as names can.
    """

    names: frozenset[str] = HERE
    added: frozenset[str] = frozenset()
    any_address: bool = False

    def allow(self, host: str | None) -> bool:
        """Whether a request with this Host is for the service."""
        name = _name(host or "")
        return name is not None and (
            name in self.names or name in self.added or (self.any_address and _address(name) is not None)
        )

    def allow_page(self, origin: str, host: str) -> bool:
        """Whether a page of this Origin may post to this Host: the service's own page, or one of an added name."""
        scheme, _, authority = origin.partition("://")
        if scheme.lower() not in ("http", "https"):
            return False
        return authority.lower() == host.lower() or _name(authority) in self.added


def allowed_hosts(host: str, listener: socket.socket, added: Iterable[str]) -> Hosts:
    """The names of a service that listens on ``host``.

    Args:
        host: the address or name that the operator gave.
        listener: its socket, which knows the address that this stands for.
        added: further names that the operator allows.
    """
    bound = listener.getsockname()[0].partition("%")[0]
    names = {_plain(host), _plain(bound)}
    address = _address(bound)
    everywhere = address is not None and address.is_unspecified
    if everywhere:
        names |= {*HERE, socket.gethostname().lower()}
    if address is not None and address.is_loopback:
        names |= HERE
    return Hosts(frozenset(names), frozenset(_checked(name) for name in added), everywhere)


def _checked(name: str) -> str:
    """A name that the operator gave, as it stands in a Host header without its port."""
    plain = _name(name) if ":" not in name else _plain(name) if _address(name) else None
    if plain is None:
        raise InputError(f"allow_host must be a name or an address without scheme and port, got {name!r}")
    return plain


def _name(authority: str) -> str | None:
    """The name or the address in a Host header; None if it is not one."""
    found = AUTHORITY.fullmatch(authority)
    return _plain(found["address"] or found["name"]) if found else None


def _plain(name: str) -> str:
    """One way to write a name."""
    address = _address(name)
    return str(address) if address else name.lower().removesuffix(".")


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
