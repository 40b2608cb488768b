"""Ports of instances, and what can be wrong with one. Pure.

A port has one code at a time, the one that explains most; that two carry one `iface-id` is another
matter and comes besides. Each has to last a minute: plugging, unplugging and moving pass through
most of these states. A port whose instance has never been here may be early, which lasts longer.
Nothing is ever deleted.

Source: ovs-vswitchd.conf.db(5), table Interface; Nova and os-vif for the external IDs; OVN,
controller/binding.c.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.rows import Database, InterfaceRow
from hypercobalt.api.ovsnode import IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent.facts import SwitchFacts, bridge_named, interfaces_of
from hypercobalt.ovs_agent.ovn_settings import OvnSettings
from hypercobalt.ovs_agent.rules.findings import LONGEST_OBJECT, Assessed, Finding, plain
from hypercobalt.ovs_agent.rules.issues import Ledger
from hypercobalt.ovs_agent.rules.silence import SAMPLES, message_of, silently_dead

Code = IssueCode

OF_ROWS: Final = frozenset({Code.PORT_ERROR, Code.PORT_PENDING, Code.DUPLICATE_IFACE_ID})
"""Codes that need the database alone."""

CODES: Final = OF_ROWS | {
    Code.INSTANCE_PORT_MISSING,
    Code.INSTANCE_DEVICE_LOST,
    Code.ORPHAN_PORT_NO_DEVICE,
    Code.ORPHAN_PORT_NO_BINDING,
    Code.ORPHAN_PORT_NO_DOMAIN,
    Code.PORT_NOT_INSTALLED,
    Code.PORT_SILENTLY_DEAD,
}
_OF_ONE_PORT: Final = CODES - {Code.DUPLICATE_IFACE_ID, Code.INSTANCE_PORT_MISSING}
GRACE: Final = timedelta(seconds=60)
"""How long a port may be in a state; younger ones are being plugged, unplugged or moved."""

ARRIVAL: Final = timedelta(minutes=10)
"""How long a port may wait for its instance: Nova plugs it first, on a live migration's destination
too, and waits up to 300 s for Neutron before libvirt has the domain (`vif_plugging_timeout`)."""

_DEVICES: Final = frozenset({"", "system", "tap"})
_NO_DEVICE: Final = "No such device"
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


def assess_ports(facts: SwitchFacts) -> Assessed[None]:
    """Find what is wrong with each port of the host's bridges."""
    database = facts.effective
    if database is None:
        return Assessed(None, unmeasured=CODES)
    settings = facts.ovn
    members = _members(database)
    rows = sorted(database.interfaces.values(), key=lambda one: one.name)
    findings = [*_duplicates(rows), *_missing(facts, rows)]
    check = _Check(facts, database, settings)
    for row in rows:
        if row.uuid not in members:  # a bond's members are judged with their bond
            findings += check.of(row)
    return Assessed(None, tuple(findings), check.unmeasured)


class _Check:
    """The witnesses, gathered once for all ports."""

    def __init__(self, facts: SwitchFacts, database: Database, settings: OvnSettings) -> None:
        self._links = facts.links.proven
        self._instances, self._hosted = facts.instances, facts.hosted
        self._dead, self._traces = silently_dead(facts.samples), facts.traces
        alive = facts.ovn_controller.proven is not None and settings.is_configured
        bindings = facts.bindings.proven if alive else None
        self._bindings = None if bindings is None else {one.iface_id: one for one in bindings}
        bridge = bridge_named(database, settings.bridge)
        ours = interfaces_of(database, bridge) if bridge else ()
        self._bound = {one.uuid for one in ours if one.external_ids.get("iface-id")}
        unmeasured: set[IssueCode] = set()
        if self._links is None:
            unmeasured |= {Code.ORPHAN_PORT_NO_DEVICE, Code.INSTANCE_DEVICE_LOST}
        if self._instances is None:
            unmeasured |= {Code.ORPHAN_PORT_NO_DOMAIN, Code.INSTANCE_DEVICE_LOST}
        if facts.wanted is None:
            unmeasured.add(Code.INSTANCE_PORT_MISSING)
        if self._bindings is None:
            unmeasured |= {Code.ORPHAN_PORT_NO_BINDING, Code.PORT_NOT_INSTALLED}
        if len(facts.samples) < SAMPLES:
            unmeasured.add(Code.PORT_SILENTLY_DEAD)
        self.unmeasured = frozenset(unmeasured)

    def of(self, row: InterfaceRow) -> Iterator[Finding]:
        """At most one finding of a port."""
        found = self._of_switch(row) or self._of_instance(row) or self._of_ovn(row)
        if found is None and row.uuid in self._dead:
            message = message_of(row.name, self._traces.get(row.uuid))
            found = _finding(Code.PORT_SILENTLY_DEAD, row, message, IssueSeverity.CRITICAL)
        if found is not None:
            yield found

    def _of_switch(self, row: InterfaceRow) -> Finding | None:
        if row.ofport is None:
            message = f"Port {row.name} is configured, but ovs-vswitchd has not made it"
            return _finding(Code.PORT_PENDING, row, message)
        if _lost_its_device(row, self._links):
            return self._without_device(row)
        if row.error or row.ofport == -1:
            cause = row.error or "ovs-vswitchd gives no cause; see its log"
            return _finding(Code.PORT_ERROR, row, f"Port {row.name} does not work: {cause}")
        return None

    def _without_device(self, row: InterfaceRow) -> Finding:
        """A port whose device is gone: of an instance that runs, its network is."""
        instance = row.instance
        runs = (self._instances or {}).get(instance.lower(), False)
        if runs:
            message = (
                f"Device of port {row.name} is gone while instance {instance} runs: the instance "
                "is cut off; detach and attach its interface, or start it again"
            )
            critical = IssueSeverity.CRITICAL
            return _finding(Code.INSTANCE_DEVICE_LOST, row, message, critical)
        if self._instances is None and instance:
            message = (
                f"Device of port {row.name} is gone; whether its instance {instance} runs is not "
                "known, as the node agent does not report"
            )
        else:
            owner = f"; it was of instance {instance}" if instance else ""
            message = f"Port {row.name} is left over: its device is gone{owner}"
        return _finding(Code.ORPHAN_PORT_NO_DEVICE, row, message)

    def _of_instance(self, row: InterfaceRow) -> Finding | None:
        instance = row.instance
        if self._instances is None or not row.external_ids.get("iface-id"):
            return None
        if not _UUID.match(instance) or instance.lower() in self._instances:
            return None  # a name that another tool wrote is no domain of libvirt's
        message = f"Port {row.name} is left over: libvirt has no instance {instance}"
        grace = GRACE if row.uuid in self._hosted else ARRIVAL
        return _finding(Code.ORPHAN_PORT_NO_DOMAIN, row, message, grace=grace)

    def _of_ovn(self, row: InterfaceRow) -> Finding | None:
        if self._bindings is None or row.uuid not in self._bound:
            return None
        if row.external_ids.get("ovn-installed") == "true" or self._is_arriving(row):
            return None
        iface_id = row.external_ids["iface-id"]
        binding = self._bindings.get(iface_id)
        if binding is None or not binding.ports:
            message = f"Port {row.name} is left over: OVN has no logical port {iface_id}"
            return _finding(Code.ORPHAN_PORT_NO_BINDING, row, message)
        if binding.is_localport:
            return None  # ovn-controller marks only what it claims
        message = (
            f"Port {row.name} has no flows: OVN has not installed logical port {iface_id}; "
            "check which chassis it is bound to (requested-chassis)"
        )
        return _finding(Code.PORT_NOT_INSTALLED, row, message)

    def _is_arriving(self, row: InterfaceRow) -> bool:
        """Whether the instance is here and does not run: one that is being moved to this host."""
        return self._instances is not None and self._instances.get(row.instance.lower()) is False


def of_ports_there(ledger: Ledger, facts: SwitchFacts) -> Ledger:
    """The ledger without ports that are removed: no witness of theirs is needed any more."""
    database = facts.effective
    if database is None:
        return ledger
    there = {plain(row.name, LONGEST_OBJECT) for row in database.interfaces.values()}
    return {
        identity: tracked
        for identity, tracked in ledger.items()
        if identity[0] not in _OF_ONE_PORT or identity[1] in there
    }


def _lost_its_device(row: InterfaceRow, links: Mapping[str, Link] | None) -> bool:
    """Whether a port's device is gone, by the switch and by the kernel.

    The datapath in the kernel has an error; the one in user space leaves everything as it was but
    the ephemeral columns.
    """
    if row.type not in _DEVICES or (links is not None and row.name in links):
        return False
    if _NO_DEVICE in (row.error or ""):
        return True
    is_empty = not row.link_up and not row.admin_up and not row.ifindex
    return links is not None and is_empty and row.mtu is None and not row.error


def _duplicates(rows: list[InterfaceRow]) -> Iterator[Finding]:
    """Ports that carry the `iface-id` of another: one of them has the binding, silently."""
    by_id: dict[str, list[InterfaceRow]] = defaultdict(list)
    for row in rows:
        if iface_id := row.external_ids.get("iface-id"):
            by_id[iface_id].append(row)
    for iface_id, same in sorted(by_id.items()):
        if len(same) > 1:
            names = ", ".join(row.name for row in same)
            message = f"Ports {names} carry one iface-id, {iface_id}: only one of them is connected"
            yield Finding(Code.DUPLICATE_IFACE_ID, iface_id, IssueSeverity.CRITICAL, message, GRACE)


def _missing(facts: SwitchFacts, rows: list[InterfaceRow]) -> Iterator[Finding]:
    """Ports of instances that run, which the switch does not have.

    By a device's name alone, its switch is known on a host of OVN only.
    """
    ids = {row.external_ids.get("iface-id", "").lower() for row in rows}
    names = {row.name for row in rows}
    for instance, ports in sorted((facts.wanted or {}).items()):
        for port in ports:
            is_device = not _UUID.match(port)
            if port.lower() in ids or port in names or (is_device and not facts.ovn.is_configured):
                continue
            message = (
                f"Instance {instance} runs without its port {port}: no bridge has it, so the "
                "instance is cut off; detach and attach its interface, or start it again"
            )
            critical = IssueSeverity.CRITICAL
            yield Finding(Code.INSTANCE_PORT_MISSING, port, critical, message, GRACE)


def _members(database: Database) -> frozenset[str]:
    return frozenset(
        uuid
        for port in database.ports.values()
        if len(port.interfaces) > 1
        for uuid in port.interfaces
    )


def _finding(
    code: IssueCode,
    row: InterfaceRow,
    message: str,
    severity: IssueSeverity = IssueSeverity.WARNING,
    grace: timedelta | None = None,
) -> Finding:
    return Finding(code, row.name, severity, message, GRACE if grace is None else grace)
