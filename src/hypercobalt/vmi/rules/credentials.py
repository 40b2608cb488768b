"""Rules about access credentials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid

_KINDS: Final = ("sshPublicKey", "userPassword")
_METHODS: Final = ("configDrive", "noCloud", "qemuGuestAgent")


def credentials(spec: At) -> Iterator[FieldCause]:
    """Whether each credential is of one kind, from one source, by one method that can be had."""
    volumes = list(spec["volumes"])
    drives = {
        "noCloud": any(one["cloudInitNoCloud"] for one in volumes),
        "configDrive": any(one["cloudInitConfigDrive"] for one in volumes),
    }
    for credential in spec["accessCredentials"]:
        kinds = credential.holds(*_KINDS)
        if len(kinds) != 1:
            yield invalid(credential, "must be of one kind")
        for kind in kinds:
            yield from _one(credential[kind], drives)


def _one(credential: At, drives: dict[str, bool]) -> Iterator[FieldCause]:
    if not credential["source.secret"]:
        yield invalid(credential["source"], "must be a secret")
    method = credential["propagationMethod"]
    chosen = method.holds(*_METHODS)
    if len(chosen) != 1:
        yield invalid(method, "must be one method")
    for name in chosen:
        if not drives.get(name, True):
            yield invalid(method, f"needs a volume for {name}")
    users = method["qemuGuestAgent.users"]
    if method["qemuGuestAgent"] and credential.path.endswith("sshPublicKey") and not users.items:
        yield invalid(users, "must have at least one")
