"""Which user's program is at the other end of a connection? Linux tells, of programs on this machine."""

import ipaddress
import struct
from pathlib import Path

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
"""Every TCP socket of this machine, or of this container, with the user whose it is."""

_ESTABLISHED = "01"
"""The state of a socket that somebody holds; one that its program has left behind seems to be root's."""

Address = tuple[str, int]


def user_of(client: Address | None, server: Address | None) -> int | None:
    """The user whose socket is connected from `client` to `server`; None if the system does not tell."""
    try:
        names = set(zip(_names(client), _names(server), strict=True)) if client and server else set()
        for table in TABLES:
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                _, local, remote, state, _, _, _, user, *_ = line.split()
                if (local, remote) in names and state == _ESTABLISHED:
                    return int(user)
    except (OSError, ValueError):
        return None
    return None


def _names(address: Address) -> tuple[str, str]:
    """An address as the tables have it: an IPv4 one by itself and in IPv6's clothes. An IPv6 one is twice the same."""
    ip = ipaddress.ip_address(address[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    plain = _hexadecimal(ip.packed)
    mapped = _hexadecimal(bytes(10) + b"\xff\xff" + ip.packed) if ip.version == 4 else plain
    return f"{plain}:{address[1]:04X}", f"{mapped}:{address[1]:04X}"


def _hexadecimal(packed: bytes) -> str:
    """The bytes of an address as words of this machine's own order, as the kernel prints them."""
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))
