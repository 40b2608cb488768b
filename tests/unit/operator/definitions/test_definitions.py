"""The operator's keys, and what it makes of what an agent, or who has taken it over, has stored."""

from __future__ import annotations

import base64
import re

import pytest

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.core import Secret
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions, pack
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.sealed_definitions import (
    MOST_CHARACTERS,
    SealedDefinitions,
    SealedDefinitionsSpec,
)
from hypercobalt.api.sealing import KeyRing, Owner, PrivateKey
from hypercobalt.operator.definitions.keys import CURRENT, KeysInvalidError, ring
from hypercobalt.operator.definitions.publishing import worth_a_pass
from hypercobalt.operator.definitions.reader import DefinitionsUnreadableError, opened
from hypercobalt.runtime.clock import SystemClock

PASSWORD = "very-secret"
CONTENT = HostDefinitions("b", "m", {"u": DomainDefinition("vm", f"<domain passwd='{PASSWORD}'/>")})
KEY, OLD = PrivateKey.make(), PrivateKey.make()
OWNER = Owner("kvm-1", "uid-1")


def stored(
    key: PrivateKey = KEY,
    owner: Owner = OWNER,
    *,
    data: bytes | None = None,
    text: str | None = None,
    name: str = "kvm-1",
) -> SealedDefinitions:
    sealed = key.public.seal(pack(CONTENT).data if data is None else data, owner)
    return SealedDefinitions(
        metadata=ObjectMeta(name=name, namespace="agents"),
        spec=SealedDefinitionsSpec(
            key=key.public.id,
            hypervisorUID=owner.uid,
            sealed=base64.b64encode(sealed).decode() if text is None else text,
        ),
    )


def test_what_the_agent_has_sealed_is_read() -> None:
    assert opened(stored(), OWNER, KeyRing(KEY)) == CONTENT


def test_what_was_sealed_before_a_rotation_is_read() -> None:
    assert opened(stored(OLD), OWNER, KeyRing(KEY, (OLD,))) == CONTENT


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            stored(OLD),
            f"definitions of host kvm-1 are sealed for key {OLD.public.id}, which the operator "
            f"does not have ({KEY.public.id}); restore that key in its Secret, or start the host",
        ),
        (stored(owner=Owner("kvm-2", "uid-1")), "not sealed for host kvm-1 with key"),
        (stored(owner=Owner("kvm-1", "uid-0")), "another Hypervisor of that name (UID uid-0)"),
        (stored(text="no base64"), "SealedDefinitions agents/kvm-1"),
        (stored(text="A" * (MOST_CHARACTERS + 4)), "longer than any host's"),
        (stored(text=""), "not sealed for host kvm-1"),
        (stored(data=b"no gzip"), "the definitions are not gzip"),
        (stored(text="é"), "SealedDefinitions agents/kvm-1"),
    ],
    ids=[
        "a lost key",
        "another host's",
        "the host's before it",
        "other text",
        "too long",
        "nothing",
        "sealed, but nothing of the kind",
        "text beyond ASCII",
    ],
)
def test_what_cannot_be_read_is_named_without_its_content(
    found: SealedDefinitions, text: str
) -> None:
    with pytest.raises(DefinitionsUnreadableError, match=re.escape(text)) as error:
        opened(found, OWNER, KeyRing(KEY))
    assert PASSWORD not in str(error.value)


def test_a_uid_that_is_only_claimed_does_not_open_another_s() -> None:
    theirs = stored(owner=Owner("kvm-1", "uid-0"))
    spec = SealedDefinitionsSpec(
        key=theirs.spec.key, hypervisorUID="uid-1", sealed=theirs.spec.sealed
    )
    claimed = SealedDefinitions(metadata=theirs.metadata, spec=spec)
    with pytest.raises(DefinitionsUnreadableError, match="not sealed for host"):
        opened(claimed, OWNER, KeyRing(KEY))


def secret(**data: bytes) -> Secret:
    named = {f"{name}.pem": pem for name, pem in data.items()}
    return Secret(metadata=ObjectMeta(name="key", namespace="op"), data=named)


def test_agents_seal_with_the_current_key_and_all_others_still_open() -> None:
    keys = ring(secret(current=KEY.pem(), before=OLD.pem()))
    assert keys.current.public == KEY.public
    assert keys.ids == tuple(sorted((KEY.public.id, OLD.public.id)))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (secret(), f"Secret op/key has no {CURRENT}"),
        (secret(before=OLD.pem()), f"Secret op/key has no {CURRENT}"),
        (secret(current=b"x" + KEY.pem()[40:]), "Secret op/key: current.pem: it is no private key"),
        (secret(current=KEY.pem(), old=b""), "Secret op/key: old.pem: it is no private key"),
    ],
)
def test_a_secret_without_keys_is_named_without_its_content(found: Secret, text: str) -> None:
    with pytest.raises(KeysInvalidError, match=re.escape(text)) as error:
        ring(found)
    assert KEY.pem().decode()[40:80] not in str(error.value)


def hypervisor(key: str | None, *, judged: bool = True) -> Hypervisor:
    now = SystemClock().now()
    conditions = set_condition((), "Ready", "True", "Ready", "", now=now) if judged else ()
    return Hypervisor(status=HypervisorStatus(definitionsKey=key, conditions=conditions))


@pytest.mark.parametrize(
    ("old", "new", "worth"),
    [
        (None, hypervisor("a"), True),
        (hypervisor("a"), hypervisor("a"), False),
        (hypervisor("a"), hypervisor(None), True),
        (hypervisor(None, judged=False), hypervisor(None), True),
        (hypervisor("a"), None, False),
    ],
    ids=["new", "unchanged", "taken away", "judged for the first time", "deleted"],
)
def test_a_key_is_looked_at_when_it_may_be_missing(
    old: Hypervisor | None, new: Hypervisor | None, worth: bool
) -> None:
    assert worth_a_pass(old, new) is worth
