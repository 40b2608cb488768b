"""The Secret with a host's definitions: whole, bounded, and silent about what is in it."""

from __future__ import annotations

import gzip
import json
import random

import pytest

from hypercobalt.api.core import Secret
from hypercobalt.api.definitions import (
    MOST_BYTES,
    DomainDefinition,
    HostDefinitions,
    definitions,
    pack,
    secret,
    unpack,
)

PASSWORD = "passwd='very-secret'"


def domain(name: str, *, active: bool = True, filler: str = "") -> DomainDefinition:
    return DomainDefinition(name, f"<domain {PASSWORD}>{filler}</domain>", active=active)


def noise(seed: int, length: int) -> str:
    """Text that does not compress."""
    return random.Random(seed).randbytes(length // 2).hex()  # noqa: S311


HOST = HostDefinitions(
    bootID="boot-1",
    mark=".mark",
    domains={"b": domain("vm-b"), "a": DomainDefinition("vm-a", "<domain/>", autostart=True)},
)


def test_stored_definitions_are_read_again() -> None:
    packed = pack(HOST)
    assert packed.left_out == ()
    assert definitions(secret("kvm-1", "agents", packed)) == HOST


def test_same_definitions_are_the_same_bytes() -> None:
    turned = HostDefinitions("boot-1", ".mark", dict(reversed(HOST.domains.items())))
    assert pack(turned).data == pack(HOST).data


def test_host_of_a_thousand_ordinary_domains_fits() -> None:
    xml = json.dumps({f"device-{n}": f"/dev/pci/{n:04}" for n in range(300)})
    many = {f"uuid-{n}": domain(f"vm-{n}", filler=f"{xml}{noise(n, 64)}") for n in range(1000)}
    packed = pack(HostDefinitions(domains=many))
    assert packed.left_out == ()
    assert len(packed.data) < MOST_BYTES


def test_definitions_that_do_not_fit_are_named_idle_and_large_first() -> None:
    host = HostDefinitions(
        domains={
            "1": domain("idle-small", active=False, filler=noise(1, 1000)),
            "2": domain("idle-large", active=False, filler=noise(2, 9000)),
            "3": domain("runs-small", filler=noise(3, 1000)),
            "4": domain("runs-large", filler=noise(4, 9000)),
        }
    )
    for most, left_out in ((6000, ("idle-large", "idle-small")), (7500, ("idle-large",))):
        packed = pack(host, most)
        assert packed.left_out == left_out
        assert len(packed.data) <= most
        read = unpack(packed.data)
        assert set(read.left_out.values()) == set(left_out)
        assert {one.name for one in read.domains.values()}.isdisjoint(left_out)


def test_repr_and_errors_show_no_definition() -> None:
    shown = repr((HOST, secret("kvm-1", "agents", pack(HOST)), pack(HOST).left_out))
    assert PASSWORD not in shown
    assert "<domain" not in shown


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        pack(HOST).data[:-9],
        gzip.compress(b"[]"),
        gzip.compress(b'{"domains": {"a": {"name": "' + PASSWORD.encode() + b'"}}}'),
        gzip.compress(b" " * (64 * 1024**2 + 1)),
    ],
    ids=["nothing", "other bytes", "cut off", "other JSON", "a part missing", "a bomb"],
)
def test_secret_that_cannot_be_read_is_named_without_its_content(data: bytes) -> None:
    written = secret("kvm-1", "agents", pack(HOST))
    broken = Secret(metadata=written.metadata, data=dict.fromkeys(written.data, data))
    with pytest.raises(ValueError, match=r"Secret agents/domains\.kvm-1") as error:
        definitions(broken)
    assert PASSWORD not in str(error.value)


def test_secret_without_definitions_is_named() -> None:
    with pytest.raises(ValueError, match=r"domains\.json\.gz"):
        definitions(Secret(metadata=secret("kvm-1", "agents", pack(HOST)).metadata))
