"""Make the request for a host's certificate, and its key. As a program, in a process of its own.

A host keeps its key; only without one a new key is made. Names and key come on standard input and
go out on a pipe: neither is in the arguments, which others on the host can read. What makes keys
costs 20 MiB, so it ends with its work instead of staying in the agent.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from hypercobalt.api.host_certificate import HostNames
from hypercobalt.errors import TransientError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

_DEADLINE: Final = timedelta(seconds=30)
_MODULE: Final = "hypercobalt.agent.certificates.key_maker"


class KeyOrder(msgspec.Struct, frozen=True):
    """What a request is for.

    Args:
        names: of the host.
        key: of the host, PEM; a new one is made if it is none on curve P-256 without a password.
    """

    names: HostNames
    key: bytes = b""

    def __repr__(self) -> str:
        return f"KeyOrder({self.names}, key={len(self.key)} bytes)"


class NewKey(msgspec.Struct, frozen=True):
    """A key and the request for its certificate, in PEM."""

    key: bytes
    request: bytes

    def __repr__(self) -> str:
        return f"NewKey(key={len(self.key)} bytes, request={len(self.request)} bytes)"


async def make(order: KeyOrder) -> NewKey:
    """Have another process make a request, and a new key on curve P-256 where one is needed.

    Raises:
        TransientError: it could not, or not in time.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        _MODULE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_DEADLINE.total_seconds()):
            out, problem = await process.communicate(msgspec.json.encode(order))
    except TimeoutError as error:
        raise TransientError(f"no key was made within {_DEADLINE.seconds} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = problem.decode(errors="replace").strip().splitlines()[-1:]
        raise TransientError(f"no key was made: {''.join(last)[:200]}")
    return msgspec.json.decode(out, type=NewKey)


def make_here(order: KeyOrder) -> NewKey:
    """Make a request, and a new key where one is needed."""
    # Imported here, so that a process that only calls `make` does not load the library.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    from hypercobalt.api import signing_request  # noqa: PLC0415

    key = _usable(order.key) or ec.generate_private_key(ec.SECP256R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(encoding, form, serialization.NoEncryption())
    return NewKey(private, signing_request.write(order.names, key))


def _usable(key: bytes) -> ec.EllipticCurvePrivateKey | None:
    """The key, if the request can be for it."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    try:
        found = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if isinstance(found, ec.EllipticCurvePrivateKey) and isinstance(found.curve, ec.SECP256R1):
        return found
    return None


if __name__ == "__main__":
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=KeyOrder)
    sys.stdout.buffer.write(msgspec.json.encode(make_here(wanted)))
