"""Defaults of features: each that is there is on, with what it depends on."""

from __future__ import annotations

from typing import Final

from hypercobalt.vmi.defaults.members import given, member, objects
from hypercobalt.vmi.review import JsonObject

_STATES: Final = ("acpi", "apic", "smm", "pvspinlock")
NEEDS: Final = (
    ("evmcs", "vapic"),
    ("ipi", "vpindex"),
    ("tlbflush", "vpindex"),
    ("synictimer", "synic"),
    ("synic", "vpindex"),
)
"""Enlightenments of Hyper-V, and the one that each of them needs: synictimer, which may add synic,
before it."""
_RETRIES: Final = 4096
_VMX: Final = "vmx"


def apply(spec: JsonObject) -> None:
    """Fill in what the features of a spec leave open."""
    features = member(member(spec, "domain"), "features")
    member(features, "acpi")
    for name in _STATES:
        _turn_on(given(features, name))
    hyperv = given(features, "hyperv")
    if hyperv is not None:
        _apply_hyperv(hyperv)
        if _meet_needs(hyperv) and _is_on(hyperv, "evmcs"):
            _require_vmx(member(member(spec, "domain"), "cpu"))


def _turn_on(state: JsonObject | None) -> None:
    if state is not None:
        state.setdefault("enabled", True)


def _apply_hyperv(hyperv: JsonObject) -> None:
    for name in list(hyperv):
        state = given(hyperv, name)
        _turn_on(state)
        for inner in ("direct", "extended"):
            _turn_on(given(state or {}, inner))
    spinlocks = given(hyperv, "spinlocks")
    if spinlocks is not None and spinlocks["enabled"] is True:
        spinlocks.setdefault("spinlocks", _RETRIES)


def _meet_needs(hyperv: JsonObject) -> bool:
    """Turn on each enlightenment that another needs; False at the first that the spec turns off."""
    for name, need in NEEDS:
        if _is_on(hyperv, name):
            _turn_on(member(hyperv, need))
            if not _is_on(hyperv, need):
                return False
    return True


def unmet(hyperv: JsonObject) -> list[tuple[str, str]]:
    """Enlightenments that are on, each with the one that it needs, which is off."""
    return [
        (name, need) for name, need in NEEDS if _is_on(hyperv, name) and not _is_on(hyperv, need)
    ]


def _is_on(hyperv: JsonObject, name: str) -> bool:
    return (given(hyperv, name) or {}).get("enabled") is True


def _require_vmx(cpu: JsonObject) -> None:
    found = next((one for one in objects(cpu, "features") if one.get("name") == _VMX), None)
    features = cpu.setdefault("features", [])
    if found is not None:
        found["policy"] = "require"
    elif isinstance(features, list):
        features.append({"name": _VMX, "policy": "require"})
