"""OVN settings of this chassis, from the row of Open_vSwitch and ovn-controller's start. Pure.

The name of the chassis is that of ovn-controller's option `-n`, else of its file
`system-id-override`, else `external_ids:system-id`. A key with `-CHASSIS` appended goes first, also
if it is empty.

Source: ovn-controller(8), "Configuration"; OVN, `get_chassis_external_id_value`, which reads every
key of `OvnSettings` so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hypercobalt.adapters.ovs.model import ControllerStart, TlsFiles
from hypercobalt.adapters.ovs.rows import SwitchRow

DEFAULT_BRIDGE: Final = "br-int"
_LONGEST_NUMBER: Final = 10  # digits of milliseconds


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
        monitors_all: whether ovn-controller reads all of the southbound database.
        probe_interval: seconds between its probes of that; None for its default.
        tls: files for a southbound database behind `ssl:`.
    """

    system_id: str = ""
    remote: str = ""
    bridge: str = DEFAULT_BRIDGE
    mappings: Mapping[str, str] | None = None
    encap_ip: str = ""
    encap_type: str = ""
    datapath_type: str = ""
    monitors_all: bool = False
    probe_interval: float | None = None
    tls: TlsFiles | None = None

    @property
    def is_configured(self) -> bool:
        """Whether ovn-controller has what it needs to begin."""
        return bool(self.system_id and self.remote)


def ovn_settings(switch: SwitchRow, start: ControllerStart | None) -> OvnSettings:
    """Read the settings, those of this chassis before those of all.

    Args:
        switch: the row of Open_vSwitch.
        start: of ovn-controller; None while that is not known.
    """
    external_ids = switch.external_ids
    system_id = (start.chassis if start else "") or external_ids.get("system-id", "")

    def of(key: str) -> str:
        return external_ids.get(f"{key}-{system_id}", external_ids.get(key, ""))

    return OvnSettings(
        system_id=system_id,
        remote=of("ovn-remote"),
        bridge=of("ovn-bridge") or DEFAULT_BRIDGE,
        mappings=_mappings(of("ovn-bridge-mappings")),
        encap_ip=of("ovn-encap-ip"),
        encap_type=of("ovn-encap-type"),
        datapath_type=of("ovn-bridge-datapath-type"),
        monitors_all=of("ovn-monitor-all") == "true",
        probe_interval=_seconds(of("ovn-remote-probe-interval")),
        tls=switch.tls or (start.tls if start else None),
    )


def _seconds(text: str) -> float | None:
    """A number of milliseconds as seconds; None for other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) / 1000 if is_number else None


def _mappings(text: str) -> Mapping[str, str]:
    pairs = (part.strip().partition(":") for part in text.split(","))
    return {network: bridge for network, _, bridge in pairs if network and bridge}
