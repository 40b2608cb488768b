"""What the southbound database has of logical networks, as far as a trace needs it.

Source: ovn-sb(5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogicalFlow:
    """A row of Logical_Flow.

    Args:
        stage: its table's name, as `ls_in_acl`; "" when northd gives none.
        pipeline: `ingress` or `egress`.
        table: number in the pipeline.
        priority: of the flow.
        match: in OVN's language.
        actions: in OVN's language.
        hint: first digits of the northbound row that it comes from, of an ACL for example.
    """

    stage: str
    pipeline: str
    table: int
    priority: int
    match: str
    actions: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class LogicalDatapath:
    """A row of Datapath_Binding.

    Args:
        name: of the logical switch or router; Neutron's own where there is one.
        is_router: whether it is a router.
    """

    name: str
    is_router: bool = False


@dataclass(frozen=True, slots=True)
class LogicalPort:
    """A row of Port_Binding.

    Args:
        name: which is the `iface-id` of an instance's port.
        datapath: UUID of its switch or router.
        addresses: MAC and IP addresses, as `fa:16:3e:00:00:01 10.0.0.1`.
        type: "" for an instance's; `patch` between a switch and a router.
        peer: name of the other end of a patch.
    """

    name: str
    datapath: str
    addresses: tuple[str, ...] = ()
    type: str = ""
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Flows, datapaths and chassis to explain.

    Args:
        cookies: of flows; each is the first 32 bits of the row that the flow comes from.
        datapaths: tunnel keys, which flows have as `metadata`.
        chassis: names.
    """

    cookies: frozenset[int] = frozenset()
    datapaths: frozenset[int] = frozenset()
    chassis: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Explained:
    """What the database has about them; what it does not have is absent.

    Args:
        flows: by cookie; a cookie of two rows is absent.
        ports: names by cookie; a cookie of two rows is absent.
        datapaths: by tunnel key.
        hosts: names by chassis.
    """

    flows: Mapping[int, LogicalFlow] = field(default_factory=dict[int, LogicalFlow])
    ports: Mapping[int, str] = field(default_factory=dict[int, str])
    datapaths: Mapping[int, LogicalDatapath] = field(default_factory=dict[int, LogicalDatapath])
    hosts: Mapping[str, str] = field(default_factory=dict[str, str])
