"""What the daemons show of their insides to a person: read on request, never regularly.

Source: ovs-vswitchd(8), fdb/show, fdb/stats-show and dpif/show; ovn-controller(8), ct-zone-list,
inc-engine/show-stats and lflow-cache/show-stats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MacEntry:
    """A MAC address that a bridge has learned, or was given.

    Args:
        ofport: number of the port that it is behind; 65534 for the bridge's own.
        vlan: that it was seen in; 0 for none.
        mac: with colons.
        age: seconds since the last packet; None for one that was given and does not age.
    """

    ofport: int
    vlan: int
    mac: str
    age: int | None


@dataclass(frozen=True, slots=True)
class MacTable:
    """The MAC addresses of a bridge, as the switch lists them.

    Args:
        entries: all of them.
        counters: since ovs-vswitchd started, by their names there, such as `Total number of
            evicted MAC entries`.
    """

    entries: tuple[MacEntry, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class PortOfDatapath:
    """A port of a bridge, and of the datapath below it.

    Args:
        name: of the interface.
        ofport: its OpenFlow number.
        number: in the datapath; None for one that is not in it, as a patch port.
        type: `system`, `tap`, `vxlan` …
        options: as `remote_ip=192.0.2.9`; "" for none.
    """

    name: str
    ofport: int
    number: int | None
    type: str
    options: str = ""


@dataclass(frozen=True, slots=True)
class BridgeOfDatapath:
    """A bridge of dpif/show.

    Args:
        name: of the bridge.
        datapath: as `system@ovs-system`, which bridges of one type share.
        hits: packets of the datapath with a cached flow.
        missed: packets of the datapath without.
        ports: of the bridge.
    """

    name: str
    datapath: str
    hits: int
    missed: int
    ports: tuple[PortOfDatapath, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineNode:
    """A part of what ovn-controller computes, of inc-engine/show-stats.

    Args:
        name: such as `logical_flow_output`.
        recompute: how often it was computed from scratch.
        compute: how often a change was taken in.
        abort: how often a computation was given up.
    """

    name: str
    recompute: int
    compute: int
    abort: int
