"""Which conditions of a Hypervisor are not as they should be, who reports them, what to do. Data.

Placeholders: `{node}` is the name of the Node and the Hypervisor, `{host}` the host's name in the
compute service, `{server}` the server of the smoke test, `{boot}` the host's last boot.
docs/operations.md has the long form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypercobalt.api.fencing import ASSERTED_DEAD
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.operator.shared.node_facts import LIFECYCLE_LABEL, TRAITS_ANNOTATION
from hypercobalt.views.explain.model import Remedy
from hypercobalt.views.explain.reporters import AGENT, KUBELET, OVS_AGENT

_Type = HypervisorConditionType

EXPECTED: Final[Mapping[str, str]] = {
    _Type.REGISTERED: "True",
    _Type.COMPUTE_SERVICE_UP: "True",
    _Type.ONBOARDING: "",
    _Type.OFFBOARDED: "True",
    _Type.AGENT_PODS_EVICTED: "True",
    _Type.TRAITS_UPDATED: "True",
    _Type.AGGREGATES_UPDATED: "True",
    _Type.EVICTING: "",
    _Type.INCOMING_MIGRATIONS_SETTLED: "True",
    _Type.HYPERVISOR_DISABLED: "False",
    _Type.FENCED: "False",
    _Type.RECOVERY_BLOCKED: "False",
    _Type.FENCE_DEVICES_PROVEN: "True",
    _Type.HA_ENABLED: "True",
    _Type.HA_CONFIG_VALID: "True",
    _Type.AUTOSTART_OFF: "True",
    _Type.DEFINITIONS_STORED: "True",
    _Type.AGENT_REPORTING: "True",
    _Type.LIBVIRT_CONNECTION: "True",
    _Type.NODE_HEALTHY: "True",
    _Type.NETWORK_HEALTHY: "True",
    _Type.ACCEPTS_NEW_INSTANCES: "True",
    _Type.TLS_CERTIFICATE_INSTALLED: "True",
    _Type.OPERATING_SYSTEM_UPDATE: "",
    _Type.IDENTITY_ACCEPTED: "True",
    _Type.SPEC_FROZEN: "False",
    _Type.TAINTED: "False",
}
"""The status of a condition that needs no attention, the gravest condition first; "" for none.

Units have conditions of their own names: True there.
"""

NORMAL: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        (_Type.ONBOARDING, "Succeeded"),
        (_Type.EVICTING, "Succeeded"),
        (_Type.AGENT_PODS_EVICTED, "NotOffboarding"),
        (_Type.AGGREGATES_UPDATED, "TestAggregates"),
        (_Type.AGGREGATES_UPDATED, "WaitingForTraits"),
        (_Type.AGGREGATES_UPDATED, "EvictionInProgress"),
        (_Type.AGGREGATES_UPDATED, "Terminating"),
        (_Type.HYPERVISOR_DISABLED, "Succeeded"),
        (_Type.COMPUTE_SERVICE_UP, "ForcedDown"),  # explained by Fenced or HypervisorDisabled
        (_Type.COMPUTE_SERVICE_UP, "NotRead"),  # explained by Registered
        (_Type.FENCED, "Attempting"),
        (_Type.FENCE_DEVICES_PROVEN, "Proven"),
        (_Type.FENCE_DEVICES_PROVEN, "Unverified"),
        (_Type.HA_ENABLED, "Succeeded"),
        (_Type.HA_ENABLED, "Evicted"),
        (_Type.HA_ENABLED, "Onboarding"),
        (_Type.OPERATING_SYSTEM_UPDATE, "Completed"),
        # Consequences of NodeHealthy, NetworkHealthy and AgentReporting, each explained there.
        (_Type.ACCEPTS_NEW_INSTANCES, "NodeUnhealthy"),
        (_Type.ACCEPTS_NEW_INSTANCES, "NetworkBroken"),
        (_Type.HA_ENABLED, "AgentSilent"),
        (_Type.LIBVIRT_CONNECTION, "AgentSilent"),
    }
)
"""Type and reason that need no attention whatever the status."""

REPORTERS: Final[Mapping[str, str]] = {
    _Type.HA_CONFIG_VALID: AGENT,
    _Type.AUTOSTART_OFF: AGENT,
    _Type.DEFINITIONS_STORED: AGENT,
    _Type.LIBVIRT_CONNECTION: AGENT,
    _Type.TLS_CERTIFICATE_INSTALLED: AGENT,
    _Type.OPERATING_SYSTEM_UPDATE: AGENT,
    _Type.NODE_HEALTHY: KUBELET,
    _Type.NETWORK_HEALTHY: OVS_AGENT,
}
"""Who reports a condition, where it is not the operator."""

UNIT: Final = (
    Remedy(
        "find out on the host why the unit does not run",
        "systemctl status {unit}; journalctl -u {unit} -n 50",
    ),
)

_AGENT_POD: Final = Remedy(
    "check the node agent: its pod, or its unit on a host outside Kubernetes",
    "kubectl get pods --all-namespaces -l app.kubernetes.io/component=kvm-node-agent "
    "--field-selector spec.nodeName={node} -o wide",
)
POWER: Final = Remedy(
    "check the host's power and network by its management controller; start none of its instances "
    "elsewhere before the host is certainly off (docs/operations.md, A dead host)"
)
_NODE: Final = Remedy("check what the kubelet reports", "kubectl describe node {node}")
_COMPUTE: Final = Remedy(
    "check that nova-compute runs on the host and reports to Nova",
    "openstack compute service list --service nova-compute --host {host}",
)
_OPENSTACK: Final = Remedy(
    "check Keystone, Nova and Placement, and the operator's account; it retries by itself",
    "openstack token issue",
)
_DOCUMENT: Final = Remedy(
    "correct the document of fence devices; until then the host is not fenced (docs/ha.md, Fence "
    "devices)"
)
_COMPARE_HOSTS: Final = (
    Remedy("compare the addresses and the host UUID on both hosts, and do what the message names"),
)
_EXPLAIN: Final = Remedy("check each instance", "cobalt explain eviction/{node}")
_LIBVIRT: Final = Remedy(
    "check libvirtd and its sockets, on the host",
    "systemctl status libvirtd libvirtd.socket; virsh -c qemu:///system version",
)
_CERTIFICATE: Final = Remedy(
    "check what the issuer has answered", "kubectl get certificaterequests -A | grep {node}"
)
_REQUEST: Final = Remedy(
    "check that cert-manager runs and its approver accepts the host's names and key; the "
    "agent requests again by itself",
    "kubectl get certificaterequests -A | grep libvirt-{node}-",
)

_SWITCH: Final = Remedy(
    "check what the OVS agent reports",
    "kubectl get ovsnodes --all-namespaces --field-selector metadata.name={node} -o yaml",
)
_OVS_AGENT_POD: Final = Remedy(
    "check the OVS agent: its pod, or its unit on a host outside Kubernetes",
    "kubectl get pods --all-namespaces -l app.kubernetes.io/component=ovs-agent "
    "--field-selector spec.nodeName={node} -o wide",
)

REMEDIES: Final[Mapping[tuple[str, str], tuple[Remedy, ...]]] = {
    (_Type.REGISTERED, "NotRegistered"): (_COMPUTE,),
    (_Type.REGISTERED, "Claimed"): (
        Remedy(
            "give one of the two hosts another name, or remove the Node that does not belong",
            "kubectl get nodes,hypervisors -L kubernetes.io/hostname",
        ),
    ),
    (_Type.REGISTERED, "Unreachable"): (_OPENSTACK,),
    (_Type.REGISTERED, "Failed"): (_OPENSTACK,),
    (_Type.COMPUTE_SERVICE_UP, "Down"): (
        Remedy(
            "check nova-compute on the host, and its connection to the message bus",
            "openstack compute service list --host {host}",
        ),
    ),
    (_Type.ONBOARDING, "Initial"): (
        Remedy("correct what the message names; the onboarding then continues by itself"),
    ),
    (_Type.ONBOARDING, "Testing"): (
        Remedy("check the server of the smoke test", "openstack server show {server}"),
    ),
    (_Type.ONBOARDING, "Aborted"): (
        Remedy(
            "to repeat the onboarding at once, remove the lifecycle label from the Node and add it "
            "again",
            f"kubectl label node {{node}} {LIFECYCLE_LABEL}- && "
            f"kubectl label node {{node}} {LIFECYCLE_LABEL}=true",
        ),
    ),
    (_Type.TRAITS_UPDATED, "Failed"): (
        Remedy(
            f"if a name is wrong, correct the Node's annotation {TRAITS_ANNOTATION}",
            "kubectl annotate node {node} --list",
        ),
    ),
    (_Type.AGGREGATES_UPDATED, "Failed"): (
        Remedy(
            "create what is missing, or correct the Node's annotation nova.openstack.cloud.sap/"
            "aggregates",
            "openstack aggregate list",
        ),
    ),
    (_Type.EVICTING, "Running"): (_EXPLAIN,),
    (_Type.EVICTING, "Failed"): (
        _EXPLAIN,
        Remedy("correct what the message names, then try again", "cobalt evict {node}"),
    ),
    (_Type.INCOMING_MIGRATIONS_SETTLED, "Waiting"): (
        Remedy(
            "wait for the migrations, or abort one; what they bring leaves again",
            "openstack server migration list --host {host}",
        ),
    ),
    (_Type.INCOMING_MIGRATIONS_SETTLED, "NotRead"): (_OPENSTACK,),
    (_Type.HYPERVISOR_DISABLED, "DisabledByOthers"): (
        Remedy(
            "find out who disabled the service; once the reason is gone, enable it (and --up if it "
            "is forced down)",
            "openstack compute service set --enable {host} nova-compute",
        ),
    ),
    (_Type.HYPERVISOR_DISABLED, "Failed"): (_OPENSTACK,),
    (_Type.OFFBOARDED, "Offboarding"): (
        Remedy(
            "move or delete the remaining instances",
            "openstack server list --all-projects --host {host}",
        ),
    ),
    (_Type.AGENT_PODS_EVICTED, "AgentPodsRunning"): (
        Remedy(
            "find out why the pods stay: a finalizer, a kubelet that is down, a toleration",
            "kubectl get pods --all-namespaces --field-selector spec.nodeName={node}",
        ),
    ),
    (_Type.AGENT_PODS_EVICTED, "NotRead"): (
        Remedy("check the operator's rights in the namespaces of --agent-namespaces"),
    ),
    (_Type.FENCED, "Proven"): (
        Remedy("repair the host, then start it; the operator returns it to service by itself"),
    ),
    (_Type.FENCED, "Returning"): (
        Remedy("nothing; the operator returns the host to service once it is healthy"),
    ),
    (_Type.FENCED, "Refused"): (
        Remedy("correct what the message names: the device, its document or its Secret"),
        POWER,
        Remedy(
            "once the host is certainly off, assert that its last boot is dead",
            f"kubectl annotate hypervisor {{node}} {ASSERTED_DEAD}={{boot}}",
        ),
    ),
    (_Type.FENCED, "Failed"): (
        POWER,
        Remedy(
            "once the host is certainly off, assert that its last boot is dead",
            f"kubectl annotate hypervisor {{node}} {ASSERTED_DEAD}={{boot}}",
        ),
    ),
    (_Type.RECOVERY_BLOCKED, "GatesClosed"): (
        Remedy(
            "see which gates are closed, in the message: most open by themselves; Silenced and "
            "FenceSetUp need a person (docs/ha.md, Gates)"
        ),
    ),
    (_Type.RECOVERY_BLOCKED, "ManyHosts"): (
        Remedy(
            "look for what the hosts share: a network, a power supply, an update",
            "kubectl get hypervisors -o wide",
        ),
    ),
    (_Type.RECOVERY_BLOCKED, "AwaitsReboot"): (
        Remedy("reboot the host; it returns to service by itself with its next boot"),
    ),
    (_Type.RECOVERY_BLOCKED, "CrashLoop"): (
        Remedy("empty the host, then repair it", "cobalt maintain {node} --reason '...'"),
    ),
    (_Type.FENCE_DEVICES_PROVEN, "NotProven"): (
        Remedy("check the device, its credentials, and what status.hostUUID of the host is"),
    ),
    (_Type.FENCE_DEVICES_PROVEN, "OtherHost"): (_DOCUMENT,),
    (_Type.FENCE_DEVICES_PROVEN, "Shared"): (_DOCUMENT,),
    (_Type.FENCE_DEVICES_PROVEN, "NotSetUp"): (_DOCUMENT,),
    (_Type.HA_ENABLED, "Failed"): (
        _AGENT_POD,
        Remedy("if the host cannot be fenced, set up a device for it (docs/ha.md, Fence devices)"),
    ),
    (_Type.HA_CONFIG_VALID, "Invalid"): (
        Remedy("correct what the message names in the agents' ConfigMap"),
    ),
    (_Type.HA_CONFIG_VALID, "NotRead"): (
        Remedy(
            "grant the agents the right to list their ConfigMap (--ha-config); until then no "
            "instance is recovered"
        ),
        _AGENT_POD,
    ),
    (_Type.HA_CONFIG_VALID, "NoneValid"): (
        Remedy(
            "correct what the message names in the agents' ConfigMap, or delete the ConfigMap for "
            "the defaults; until then no instance is recovered"
        ),
    ),
    (_Type.AUTOSTART_OFF, "LibvirtGuestsEnabled"): (
        Remedy("on the host", "systemctl disable libvirt-guests.service"),
    ),
    (_Type.AUTOSTART_OFF, "SystemdUnreachable"): (
        Remedy("check D-Bus and systemd, on the host", "systemctl status dbus"),
    ),
    (_Type.AGENT_REPORTING, "AgentSilent"): (_AGENT_POD, POWER),
    (_Type.AGENT_REPORTING, "AgentStopped"): (_AGENT_POD,),
    (_Type.AGENT_REPORTING, "NeverReported"): (_AGENT_POD,),
    (_Type.LIBVIRT_CONNECTION, "ConnectFailed"): (_LIBVIRT,),
    (_Type.LIBVIRT_CONNECTION, "LibVirtServiceNotRunning"): (_LIBVIRT,),
    (_Type.LIBVIRT_CONNECTION, "ProcessFailed"): (_LIBVIRT,),
    (_Type.NODE_HEALTHY, "NotReady"): (_NODE,),
    (_Type.NODE_HEALTHY, "Unreachable"): (POWER, _NODE),
    (_Type.NODE_HEALTHY, "DiskPressure"): (_NODE,),
    (_Type.NODE_HEALTHY, "MemoryPressure"): (_NODE,),
    (_Type.NODE_HEALTHY, "NotReported"): (_NODE,),
    (_Type.NETWORK_HEALTHY, "BridgeDown"): (
        _SWITCH,
        Remedy("check the switch on the host", "ovs-vsctl show; systemctl status ovn-controller"),
    ),
    (_Type.NETWORK_HEALTHY, "SwitchNotResponding"): (
        Remedy(
            "find out on the host why the switch does not answer",
            "systemctl status openvswitch-switch ovs-vswitchd ovsdb-server",
        ),
    ),
    (_Type.NETWORK_HEALTHY, "OVNDisconnected"): (
        Remedy(
            "check how many hosts are affected: if all are, repair OVN's southbound database",
            "kubectl get ovsnodes -A",
        ),
    ),
    (_Type.NETWORK_HEALTHY, "OVNControllerFailed"): (
        Remedy("check ovn-controller on the host", "systemctl status ovn-controller"),
        _SWITCH,
    ),
    (_Type.NETWORK_HEALTHY, "Degraded"): (_SWITCH,),
    (_Type.ACCEPTS_NEW_INSTANCES, "MemoryFailed"): (
        Remedy("empty the host", "cobalt maintain {node} --reason memory"),
        Remedy("replace its memory, then boot it"),
    ),
    (_Type.NETWORK_HEALTHY, "AgentSilent"): (_OVS_AGENT_POD,),
    (_Type.NETWORK_HEALTHY, "NotReported"): (_OVS_AGENT_POD,),
    (_Type.DEFINITIONS_STORED, "NoKey"): (
        Remedy(
            "check that the operator leads, and that it can read its key: its log names the Secret",
            "kubectl get secrets --all-namespaces | grep definitions-key",
        ),
    ),
    (_Type.DEFINITIONS_STORED, "NotStored"): (
        Remedy("correct what the message names; the node agent tries again by itself"),
    ),
    (_Type.DEFINITIONS_STORED, "LeftOut"): (
        Remedy("move the instances that the message names to another host"),
    ),
    (_Type.TLS_CERTIFICATE_INSTALLED, "FailedToUpdateTLSCertificate"): (_CERTIFICATE,),
    (_Type.TLS_CERTIFICATE_INSTALLED, "RequestPending"): (_REQUEST,),
    (_Type.TLS_CERTIFICATE_INSTALLED, "RequestDenied"): (_REQUEST,),
    (_Type.TLS_CERTIFICATE_INSTALLED, "RequestFailed"): (_REQUEST,),
    (_Type.TLS_CERTIFICATE_INSTALLED, "FailedToStartUpdateTLSService"): (
        Remedy(
            "find out on the host why the unit failed",
            "systemctl status virt-admin-server-update-tls.service libvirtd.service",
        ),
    ),
    (_Type.OPERATING_SYSTEM_UPDATE, "Stopped"): (
        Remedy(
            "see the unit's log on the host, then set another version in spec.version",
            "journalctl -u 'systemd-sysupdate*' -n 50",
        ),
    ),
    (_Type.IDENTITY_ACCEPTED, "AddressClaimed"): _COMPARE_HOSTS,
    (_Type.IDENTITY_ACCEPTED, "HostUUIDClaimed"): _COMPARE_HOSTS,
    (_Type.SPEC_FROZEN, "NodeDiffers"): (
        Remedy(
            "nothing, if the host is to be removed; to keep it, delete the Hypervisor: the "
            "operator creates it again from the Node"
        ),
    ),
    (_Type.TAINTED, "Kubectl"): (
        Remedy(
            "check that the edit by hand and the automation agree",
            "kubectl get hypervisor {node} -o yaml --show-managed-fields",
        ),
    ),
}

OF_RECOVERY: Final[Mapping[str, tuple[Remedy, ...]]] = {
    "Failed": (
        Remedy(
            "start the host again if instances wait for it, else correct what the message names; "
            "the operator creates a new Eviction ten minutes after the failed one"
        ),
    ),
}
"""Remedies by reason, for `Evicting` in maintenance `ha`, where `cobalt evict` is refused."""
