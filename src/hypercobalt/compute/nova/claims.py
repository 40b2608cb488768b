"""Makes the query for Placement's allocation candidates from a server's needs. Pure.

Source: Nova, scheduler/utils.py (ResourceRequest); Placement API reference, "List allocation
candidates". Traits of the image, aggregates and zones are left to Nova's scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

DISABLED: Final = "COMPUTE_STATUS_DISABLED"
"""Trait of hosts that Nova places no new servers on."""
CPUS: Final = ("VCPU", "PCPU")
"""Shared and dedicated processors."""

_RESOURCE = re.compile(r"resources:([A-Z0-9_]+)")
_TRAIT = re.compile(r"trait:([A-Z0-9_]+)")
_AMOUNT = re.compile(r"[0-9]{1,10}")


def claim(vcpus: int, memory_mib: int, disk_gib: int, specs: Mapping[str, str]) -> str:
    """Return the query.

    Args:
        vcpus: of the flavor.
        memory_mib: of the flavor.
        disk_gib: on the host itself.
        specs: of the flavor; its resources override its sizes.
    """
    dedicated = specs.get("hw:cpu_policy") == "dedicated"
    wanted = {CPUS[dedicated]: vcpus, "MEMORY_MB": memory_mib, "DISK_GB": disk_gib}
    required, forbidden = list[str](), [DISABLED]
    for key, value in specs.items():
        if (resource := _RESOURCE.fullmatch(key)) and _AMOUNT.fullmatch(value):
            wanted[resource[1]] = int(value)
        elif trait := _TRAIT.fullmatch(key):
            {"required": required, "forbidden": forbidden}.get(value, []).append(trait[1])
    resources = ",".join(f"{name}:{amount}" for name, amount in sorted(wanted.items()) if amount)
    traits = ",".join((*sorted(required), *(f"!{name}" for name in sorted(forbidden))))
    return urlencode({"resources": resources, "required": traits}) if resources else ""
