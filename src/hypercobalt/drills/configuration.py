"""Drills about the configuration of the HA agent: its ConfigMap, which people write."""

from __future__ import annotations

from collections.abc import Callable

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.instances import end, kill
from hypercobalt.drills.stage import Stage
from hypercobalt.ha.incidents.config import KEY, hash_of
from hypercobalt.lab import agents

NAME = "hypercobalt-ha"
_TAKEN = 15.0
_QUIET = 10.0

_TWO_CRASHES = """\
limits: {backoff: [1s]}
thresholds: {crashes: {count: 2, within: 10m}}
"""
_UNKNOWN_KEY = _TWO_CRASHES.replace("backoff", "backof")
_NOT_MONITORED = "events: {lifecycle: {monitored: false}}\n"


async def configure(stage: Stage, document: str) -> None:
    """Write the ConfigMap of the lab's agents."""
    meta = ObjectMeta(name=NAME, namespace=agents.NAMESPACE)
    await stage.kube.apply(ConfigMap(metadata=meta, data={KEY: document}), force=True)


async def active(stage: Stage, host: str, document: str) -> None:
    """Wait until the node agent of a host goes by a document."""
    name = hash_of({KEY: document})
    await _configured(stage, host, "True", f"Configuration {name} is active")


async def _configured(stage: Stage, host: str, status: str, words: str) -> None:
    text = f"HaConfigValid {status}: …{words}…"
    await stage.becomes(host, text, _has(status, words), within=_TAKEN)


def _has(status: str, words: str) -> Callable[[Hypervisor], bool]:
    def is_so(hypervisor: Hypervisor) -> bool:
        wanted = HypervisorConditionType.HA_CONFIG_VALID
        found: Condition | None = get_condition(hypervisor.conditions, wanted)
        return found is not None and found.status == status and words in found.message

    return is_so


async def invalid(stage: Stage) -> None:
    """The rule of the last valid ConfigMap for a second crash shows that it stays active."""
    (vm,) = await stage.vms("kvm-1")
    await stage.do("a ConfigMap: the second crash moves", configure(stage, _TWO_CRASHES))
    await active(stage, "kvm-1", _TWO_CRASHES)
    await stage.runs([vm], within=60, not_pids=[kill(stage, vm)])
    await stage.incident_ends("kvm-1", vm)
    await stage.do("the ConfigMap gets an unknown key", configure(stage, _UNKNOWN_KEY))
    await _configured(stage, "kvm-1", "False", "backof")
    await stage.runs([vm], elsewhere="kvm-1", within=90, not_pids=[kill(stage, vm)])
    await stage.write(vm)
    await stage.incident_ends("kvm-1", vm)
    await stage.do("lifecycle events are not monitored", configure(stage, _NOT_MONITORED))
    await active(stage, "kvm-2", _NOT_MONITORED)
    await end(stage, vm)

    async def is_off() -> bool:
        return not stage.emulators(vm) and not (await stage.hypervisor("kvm-2")).status.incidents

    await stage.stays("it is off, without an incident", is_off, seconds=_QUIET)


DRILLS = (
    Drill(
        "config-invalid",
        "A ConfigMap becomes invalid: the last valid one stays active; then an event type is "
        "turned off.",
        invalid,
        2,
    ),
)
