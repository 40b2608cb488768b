"""The setup of a lab: what it gets, or has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a lab, present or requested.

    Args:
        hosts: how many a new lab gets; a lab that is there keeps its own.
        control_plane: the API server, and objects and agents for the hosts.
        ovn: the databases, and in each host a controller and the OVS agent.
        operator: makes the hosts' Hypervisors and empties hosts; needs the control plane.
        vms: how many a new lab gets; `up` only writes it down, `vms.missing` makes them.
        virt: a new lab runs VirtualMachineInstances; needs the control plane.
    """

    hosts: int = 3
    control_plane: bool = True
    ovn: bool = True
    operator: bool = True
    vms: int = 0
    virt: bool = False
