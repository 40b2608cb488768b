"""What several known attacks do, and how one is described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.captured.knowledge import Request
from tests.conformance.captured.machine import CapturedHost
from tests.conformance.captured.site import CAPTURED, EVICTIONS, HYPERVISORS
from tests.conformance.wire import Body

Told = Callable[[CapturedHost], None]


@dataclass(frozen=True, slots=True)
class Known:
    """One attack.

    Args:
        name: what it brought about.
        hole: its number in the table of docs/security.md.
        compute: of the site.
        credential: that the attacker holds.
        told: does it.
        asks: what the operator has to ask of the captured host meanwhile, or nothing was tried.
    """

    name: str
    hole: int
    compute: str
    credential: str
    told: Told
    asks: str = ""


def status(machine: CapturedHost, change: Body) -> None:
    """Write into the status of the own Hypervisor."""
    path = f"{HYPERVISORS}/{CAPTURED}/status"
    machine.sends(Request("PATCH", path, {"status": change}))


def recovers(machine: CapturedHost, name: str, mode: str, *instances: str) -> None:
    """Create an Eviction of instances of the own host, as after a crash."""
    machine.sends(
        Request(
            "POST",
            EVICTIONS,
            {
                "apiVersion": "kvm.cloud.sap/v1",
                "kind": "Eviction",
                "metadata": {"name": name},
                "spec": {
                    "hypervisor": "$own",
                    "reason": "crash",
                    "trigger": "InstanceCrash",
                    "mode": mode,
                    "instances": list(instances),
                },
            },
        )
    )


def dies_and_is_recovered(machine: CapturedHost, name: str) -> None:
    """Have another host die, recovered in time, and return."""
    machine.dies(name)
    machine.is_recovered_in_time()
    machine.returns(name)
