"""A Hypervisor of realistic size and shape, as a server would send it."""

from __future__ import annotations

import json
import uuid

import pytest

CONDITIONS = (
    ("Onboarding", "False", "Succeeded", "Onboarding completed"),
    ("Ready", "True", "Ready", "Hypervisor is ready"),
    ("Tainted", "False", "NoKubectl", "🟢"),
    ("TraitsUpdated", "True", "Succeeded", "Traits updated successfully"),
    ("AggregatesUpdated", "True", "Succeeded", "Aggregates from spec applied successfully"),
    ("HypervisorDisabled", "False", "Succeeded", "Hypervisor is enabled"),
    ("HaEnabled", "True", "Succeeded", "HA is enabled"),
    ("LibVirtConnection", "True", "Connected", ""),
    ("libvirtd.service", "True", "Running", "libvirtd.service: active, loaded"),
    ("openvswitch-switch.service", "True", "Running", "openvswitch-switch: active, loaded"),
    ("TLSCertificateInstalled", "True", "Ready", "Certificate is installed"),
)


def hypervisor(number: int, instances: int = 12) -> dict[str, object]:
    """The object as JSON; `number` makes its names and ids its own."""

    def identity(*parts: object) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, (number, *parts)))))

    name = f"node{number:05}-bb{number % 40:03}"
    amounts = {"cpu": "64", "memory": "524288Mi"}
    return {
        "apiVersion": "kvm.cloud.sap/v1",
        "kind": "Hypervisor",
        "metadata": {
            "name": name,
            "uid": identity("uid"),
            "resourceVersion": str(1_000_000 + number),
            "generation": 7,
            "creationTimestamp": "2026-01-01T08:00:00Z",
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.metal.cloud.sap/bb": f"bb{number % 40:03}",
                "topology.kubernetes.io/region": "region-1",
                "topology.kubernetes.io/zone": f"region-1{'abc'[number % 3]}",
                "worker.garden.sapcloud.io/group": "kvm",
            },
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": identity("node"),
                 "blockOwnerDeletion": True}
            ],
        },
        "spec": {
            "aggregates": ["region-1a", "tenant"], "allowedProjects": [],
            "createCertManagerCertificate": False, "customTraits": ["CUSTOM_HANA"],
            "evacuateOnReboot": True, "highAvailability": True, "installCertificate": True,
            "lifecycleEnabled": True, "overcommit": {"cpu": 2}, "reboot": False,
            "skipTests": False, "version": "1877.3.0",
        },
        "status": {
            "aggregates": [{"name": "region-1a", "uuid": identity("aggregate")}],
            "allocation": {"cpu": "48", "memory": "393216Mi"},
            "capabilities": {"cpuArch": "x86_64", "cpus": "128", "memory": "1048576Mi"},
            "capacity": {"cpu": "128", "memory": "1048576Mi"},
            "cells": [
                {"cellID": cell, "allocation": {"cpu": "24", "memory": "196608Mi"},
                 "capacity": amounts, "effectiveCapacity": {"cpu": "128", "memory": "524288Mi"}}
                for cell in (0, 1)
            ],
            "conditions": [
                {"type": type_, "status": status, "reason": reason, "message": message,
                 "lastTransitionTime": "2026-01-02T08:00:00Z"}
                for type_, status, reason, message in CONDITIONS
            ],
            "domainCapabilities": {
                "arch": "x86_64", "hypervisorType": "kvm", "supportedFeatures": ["sev"],
                "supportedCpuModes": ["mode/custom", "mode/host-model", "mode/host-passthrough"],
                "supportedDevices": ["disk", "graphics", "hostdev", "rng", "video", "video/vga"],
            },
            "effectiveCapacity": {"cpu": "256", "memory": "1048576Mi"},
            "hypervisorId": identity("hypervisor"),
            "hypervisorVersion": "9.2.1",
            "instances": [
                {"id": identity("instance", i), "name": f"instance-{number * 64 + i:08x}",
                 "active": True}
                for i in range(instances)
            ],
            "internalIp": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
            "libVirtVersion": "11.0.0",
            "numInstances": instances,
            "operatingSystem": {
                "firmwareDate": "2025-03-14T00:00:00Z", "firmwareVendor": "Vendor Inc.",
                "firmwareVersion": "2.22.2", "hardwareModel": "Server R760",
                "hardwareSerial": f"SN{number:08}", "hardwareVendor": "Vendor Inc.",
                "kernelCommandLine": "BOOT_IMAGE=/vmlinuz root=LABEL=ROOT ro iommu=pt hugepages=0",
                "kernelName": "Linux", "kernelRelease": "6.12.41-cloud-amd64",
                "kernelVersion": "#1 SMP PREEMPT_DYNAMIC", "prettyVersion": "Garden Linux 1877.3",
                "variantID": "metal-kvm", "version": "1877.3.0",
            },
            "serviceId": identity("service"),
            "traits": ["COMPUTE_NODE", "CUSTOM_HANA", "HW_CPU_X86_AVX2", "HW_CPU_X86_VMX"],
            "updateStatus": {"inProgress": False, "installed": "1877.3.0", "retry": 3},
        },
    }  # fmt: skip


def hypervisor_json(number: int) -> bytes:
    """The same as a server writes it: no spaces."""
    return json.dumps(hypervisor(number), separators=(",", ":"), ensure_ascii=False).encode()


@pytest.fixture(scope="session")
def sample() -> bytes:
    return hypervisor_json(1)
