"""Defaults of features: each that is there is on, with what it depends on."""

from __future__ import annotations

from typing import Final

from hypercobalt.vmi.defaults.members import default, given, member, names
from hypercobalt.vmi.review import JsonObject

_STATES: Final = ("acpi", "apic", "smm", "pvspinlock")
NEEDS: Final = (
    ("synic", "vpindex"),
    ("synictimer", "synic"),
    ("ipi", "vpindex"),
    ("tlbflush", "vpindex"),
    ("evmcs", "vapic"),
)
"""Enlightenments of Hyper-V, and the one that each of them needs."""
_DEEPEST: Final = ("synictimer", *(name for name, _ in NEEDS if name != "synictimer"))
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
        if _is_on(hyperv, "evmcs") and not unmet(hyperv):
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
    if spinlocks is not None:
        default(spinlocks, "spinlocks", _RETRIES)
    needs = dict(NEEDS)
    for name in _DEEPEST:  # synictimer first, which may add synic
        if _is_on(hyperv, name):
            _turn_on(member(hyperv, needs[name]))


def unmet(hyperv: JsonObject) -> list[tuple[str, str]]:
    """Enlightenments that are on, each with the one that it needs, which is off."""
    return [
        (name, need) for name, need in NEEDS if _is_on(hyperv, name) and not _is_on(hyperv, need)
    ]


def _is_on(hyperv: JsonObject, name: str) -> bool:
    return (given(hyperv, name) or {}).get("enabled") is True


def _require_vmx(cpu: JsonObject) -> None:
    features = cpu.setdefault("features", [])
    if isinstance(features, list) and _VMX not in names(cpu, "features"):
        features.append({"name": _VMX, "policy": "require"})
