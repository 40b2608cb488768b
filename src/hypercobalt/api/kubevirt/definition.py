"""The CustomResourceDefinition of VirtualMachineInstances, as KubeVirt serves it.

There is no status subresource: spec and status travel in one PUT, and admission keeps people from
changing the status. v1alpha3 is served for clients of long ago and never stored.

Source: kubevirt.io definitions of KubeVirt v1.8.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.api.crd import Schema
from hypercobalt.api.kubevirt.schema import openapi, virtual_machine_instance
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.schema import Column, Json

FILE_NAME: Final = "kubevirt.io_virtualmachineinstances.yaml"

_READY: Final = ".status.conditions[?(@.type=='{}')].status"
COLUMNS: Final = (
    Column("Age", "date", ".metadata.creationTimestamp"),
    Column("Phase", "string", ".status.phase"),
    Column("IP", "string", ".status.interfaces[0].ipAddress"),
    Column("NodeName", "string", ".status.nodeName"),
    Column("Ready", "string", _READY.format("Ready")),
    Column("Live-Migratable", "string", _READY.format("LiveMigratable"), 1),
    Column("Paused", "string", _READY.format("Paused"), 1),
)


def manifest() -> Schema:
    """The CRD manifest, as `kubectl apply` takes it."""
    resource = VirtualMachineInstance.resource
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "categories": ["all"],
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "shortNames": ["vmi", "vmis"],
                "singular": resource.kind.lower(),
            },
            "scope": resource.scope,
            "versions": [_version(resource.version), _version("v1alpha3", old=True)],
        },
    }


def _version(name: str, *, old: bool = False) -> Schema:
    version: Schema = {
        "additionalPrinterColumns": [_column(one) for one in COLUMNS],
        "name": name,
        "schema": {"openAPIV3Schema": openapi(virtual_machine_instance())},
        "served": True,
        "storage": not old,
    }
    if old:
        version["deprecated"] = True
    return version


def _column(one: Column) -> Json:
    entry: Schema = {"jsonPath": one.path, "name": one.name, "type": one.type}
    return entry | ({"priority": one.priority} if one.priority else {})
