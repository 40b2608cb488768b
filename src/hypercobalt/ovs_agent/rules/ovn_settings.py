"""OVN settings of this chassis, from the external IDs of Open_vSwitch. Pure.

Source: ovn-controller(8), "Configuration": a key with `-SYSTEM_ID` appended goes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

DEFAULT_BRIDGE: Final = "br-int"


@dataclass(frozen=True, slots=True)
class OvnSettings:
    """OVN's settings of one chassis; "" for what is not set.

    Args:
        system_id: name of the chassis.
        remote: southbound database; several servers have commas between them.
        bridge: the integration bridge.
        mappings: bridge by name of the physical network.
        encap_ip: address of this end of tunnels.
        encap_type: `geneve`, `vxlan`; several have commas between them.
        datapath_type: wanted of the integration bridge.
    """

    system_id: str = ""
    remote: str = ""
    bridge: str = DEFAULT_BRIDGE
    mappings: Mapping[str, str] | None = None
    encap_ip: str = ""
    encap_type: str = ""
    datapath_type: str = ""

    @property
    def is_configured(self) -> bool:
        """Whether ovn-controller has what it needs to begin."""
        return bool(self.system_id and self.remote)


def ovn_settings(external_ids: Mapping[str, str]) -> OvnSettings:
    """Read the settings, those of this chassis before those of all."""
    system_id = external_ids.get("system-id", "")

    def of(key: str) -> str:
        return external_ids.get(f"{key}-{system_id}", "") or external_ids.get(key, "")

    return OvnSettings(
        system_id=system_id,
        remote=of("ovn-remote"),
        bridge=of("ovn-bridge") or DEFAULT_BRIDGE,
        mappings=_mappings(of("ovn-bridge-mappings")),
        encap_ip=of("ovn-encap-ip"),
        encap_type=of("ovn-encap-type"),
        datapath_type=of("ovn-bridge-datapath-type"),
    )


def _mappings(text: str) -> Mapping[str, str]:
    pairs = (part.strip().partition(":") for part in text.split(","))
    return {network: bridge for network, _, bridge in pairs if network and bridge}
