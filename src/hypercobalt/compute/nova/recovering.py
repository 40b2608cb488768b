"""Reads the settings for recovery in a server's metadata, flavor and image. Pure.

The keys are those of masakari (`HA_Enabled`) and of Red Hat's InstanceHA (`restart_priority`), in
any case. Metadata overrides the flavor, and the flavor the image: the setting nearest to the server
decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hypercobalt.api.truth import truth

ENABLED: Final = "ha_enabled"
PRIORITY: Final = "restart_priority"
_MOST: Final = 1_000_000
_EVACUABLE: Final = frozenset({"active", "stopped", "error", "paused"})
"""States that can be evacuated; a paused server once its state was reset."""


def priority(*sources: Mapping[str, str]) -> int:
    """Return the first value that is a number; 0 without one."""
    for text in _values(PRIORITY, sources):
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdecimal() and int(digits) <= _MOST:
            return int(text)
    return 0


def recovers(*sources: Mapping[str, str]) -> bool | None:
    """Return the first value that is a truth value; None without one."""
    for text in _values(ENABLED, sources):
        if (found := truth(text)) is not None:
            return found
    return None


def waits_for_host(
    vm_state: str, specs: Mapping[str, str], image: Mapping[str, str], *, local_disk: bool
) -> str:
    """Return why a server cannot be evacuated, as far as Nova shows; "" otherwise.

    Args:
        vm_state: of the server.
        specs: extra specs of the flavor.
        image: properties of the image.
        local_disk: it has disks on the host that are not declared shared or expendable.

    Source: nova, compute/api.py, `evacuate`.
    """
    if vm_state not in _EVACUABLE:
        return f"Nova evacuates no server that is {vm_state}"
    if tpm := specs.get("hw:tpm_version") or image.get("hw_tpm_version"):
        return f"it has a virtual TPM {tpm}, which Nova does not evacuate"
    if local_disk:
        return (
            "its disks are on the host itself, and Nova would rebuild them from the image: pass "
            "--evacuate-local-disks to allow that, or if hosts share the disks"
        )
    return ""


def _values(key: str, sources: tuple[Mapping[str, str], ...]) -> Iterator[str]:
    for source in sources:
        for name, text in source.items():
            if name.lower() == key:
                yield text.strip().lower()
