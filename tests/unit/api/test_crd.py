"""The generated CustomResourceDefinitions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
import yaml
from tests.unit.api.schemas import nodes

from hypercobalt.api import crd, crd_reference
from hypercobalt.api.crd import Schema
from hypercobalt.api.schema import CustomObject
from hypercobalt.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[3]


def at(kind: str, path: str) -> Schema:
    """The schema node at a path such as `status.cells[].cellID`."""
    node = crd.root_schema(crd.kind_named(kind))
    for step in path.split(".") if path else []:
        node = cast("dict[str, Schema]", node["properties"])[step.removesuffix("[]")]
        if step.endswith("[]"):
            node = cast("Schema", node["items"])
    return node


def test_a_fencing_record_of_an_earlier_version_can_be_written_back() -> None:
    enum = at("Hypervisor", "status.fencing.method")["enum"]
    assert "BootID" in cast("list[str]", enum)


@pytest.mark.parametrize("path", ["status.bootID", "status.guestsStopped.bootID"])
def test_boot_that_an_agent_reports_is_an_id(path: str) -> None:
    pattern = re.compile(cast("str", at("Hypervisor", path)["pattern"]))
    assert pattern.search("2f1b0e9c-6a3e-4c58-9d0e-0c3b8f8a7d11")
    for hostile in (
        "b1 $(id)",
        "b1;id",
        "`id`",
        "b1 kvm.cloud.sap/ha-enabled=false",
        "'",
        "\u202eb1",
    ):
        assert not pattern.search(hostile)


REQUIRED = {
    ("Hypervisor", ""): None,
    ("Hypervisor", "spec"): (
        "aggregates allowedProjects createCertManagerCertificate customTraits evacuateOnReboot "
        "highAvailability installCertificate lifecycleEnabled reboot skipTests"
    ),
    ("Hypervisor", "spec.groups[]"): None,
    ("Hypervisor", "spec.groups[].trait"): "name",
    ("Hypervisor", "spec.groups[].aggregate"): "name uuid",
    ("Hypervisor", "status"): "numInstances",
    ("Hypervisor", "status.updateStatus"): "inProgress retry",
    ("Hypervisor", "status.instances[]"): "active id name",
    ("Hypervisor", "status.aggregates[]"): "name uuid",
    ("Hypervisor", "status.cells[]"): "cellID",
    ("Hypervisor", "status.operatingSystem"): None,
    ("Hypervisor", "status.capabilities"): None,
    ("Hypervisor", "status.domainCapabilities"): None,
    ("Hypervisor", "status.conditions[]"): "lastTransitionTime message reason status type",
    ("Eviction", ""): None,
    ("Eviction", "spec"): "hypervisor reason",
    ("Eviction", "status"): None,
    ("Eviction", "status.instances[]"): "id",
    ("Migration", ""): "metadata spec",
    ("Migration", "status"): "started",
    ("OVSNode", ""): "spec",
    ("OVSNode", "spec"): "nodeRef",
}


@pytest.mark.parametrize(("kind", "path"), REQUIRED)
def test_required_fields_are_those_of_the_existing_schema(kind: str, path: str) -> None:
    expected = REQUIRED[kind, path]
    assert at(kind, path).get("required") == (expected.split() if expected else None)


DEFAULTS = {
    "spec.reboot": False,
    "spec.evacuateOnReboot": True,
    "spec.lifecycleEnabled": True,
    "spec.skipTests": False,
    "spec.customTraits": [],
    "spec.aggregates": [],
    "spec.allowedProjects": [],
    "spec.highAvailability": True,
    "spec.createCertManagerCertificate": False,
    "spec.installCertificate": True,
    "status.libVirtVersion": "unknown",
    "status.hypervisorVersion": "unknown",
    "status.numInstances": 0,
    "status.updateStatus.inProgress": False,
    "status.updateStatus.installed": "unknown",
    "status.updateStatus.retry": 3,
    "status.capabilities.cpuArch": "unknown",
    "status.domainCapabilities.arch": "unknown",
    "status.domainCapabilities.hypervisorType": "unknown",
    "status.domainCapabilities.supportedDevices": [],
    "status.domainCapabilities.supportedCpuModes": [],
    "status.domainCapabilities.supportedFeatures": [],
}


def test_defaults_of_hypervisor_are_those_of_the_existing_schema() -> None:
    found = {
        path.removeprefix("."): node["default"]
        for path, node in nodes(at("Hypervisor", ""))
        if "default" in node
    }
    assert found == DEFAULTS


def test_eviction_has_its_one_default() -> None:
    found = [(p, n["default"]) for p, n in nodes(at("Eviction", "")) if "default" in n]
    assert found == [(".status.outstandingRamMb", 0)]


RULES = {
    ("Hypervisor", "spec"): [
        {
            "rule": "!has(oldSelf.maintenance) || oldSelf.maintenance != 'termination' || "
            "self.maintenance == 'ha' || self == oldSelf",
            "message": "spec is immutable when maintenance is 'termination'; can only change "
            "maintenance to 'ha'",
        },
        {
            "rule": "!has(self.maintenance) || self.maintenance != 'manual' || "
            "(has(self.maintenanceReason) && self.maintenanceReason.size() > 0)",
            "message": "maintenanceReason must be non-empty when maintenance is 'manual'",
        },
    ],
    ("Hypervisor", "spec.overcommit"): [
        {"rule": "self.all(k, self[k] >= 1.0)", "message": "overcommit ratios must be >= 1.0"}
    ],
    ("Hypervisor", "spec.groups[]"): [
        {
            "rule": "(has(self.trait) ? 1 : 0) + (has(self.aggregate) ? 1 : 0) == 1",
            "message": "exactly one group type must be set",
        }
    ],
    ("Eviction", "spec.hypervisor"): [{"rule": "self == oldSelf", "message": "Value is immutable"}],
}


@pytest.mark.parametrize(("kind", "path"), RULES)
def test_cel_rules_are_verbatim(kind: str, path: str) -> None:
    assert at(kind, path)["x-kubernetes-validations"] == RULES[kind, path]


def test_there_are_no_other_cel_rules() -> None:
    count = sum(
        "x-kubernetes-validations" in node
        for kind in crd.KINDS
        for _, node in nodes(crd.root_schema(kind))
    )
    assert count == len(RULES)


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("Hypervisor", "spec.maintenance",
         {"type": "string", "enum": ["", "manual", "auto", "ha", "termination"]}),
        ("Hypervisor", "spec.groups[].trait.name", {"type": "string", "minLength": 1}),
        ("Hypervisor", "spec.overcommit",
         {"type": "object", "additionalProperties": {"type": "number"}}),
        ("Hypervisor", "status.numInstances", {"type": "integer"}),
        ("Hypervisor", "status.cells[].cellID", {"type": "integer", "format": "int64"}),
        ("Hypervisor", "status.operatingSystem.firmwareDate",
         {"type": "string", "format": "date-time"}),
        ("Hypervisor", "status.conditions",
         {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
        ("Hypervisor", "status.conditions[].message", {"maxLength": 32768}),
        ("Hypervisor", "status.conditions[].type", {"maxLength": 316}),
        ("Hypervisor", "status.conditions[].status", {"enum": ["True", "False", "Unknown"]}),
        ("Hypervisor", "status.conditions[].reason",
         {"minLength": 1, "maxLength": 1024,
          "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}),
        ("Eviction", "spec.hypervisor", {"type": "string", "minLength": 1}),
        ("Eviction", "status.outstandingRamMb", {"type": "integer", "format": "int64"}),
        ("Eviction", "spec.trigger",
         {"enum": ["Maintenance", "Termination", "NodeFailure", "InstanceCrash", "RebootFailed",
                   "Watchdog", "IOError", "ControlError", "MemoryFailure",
                   "HostShutdown", "Manual"]}),
        ("Eviction", "spec.mode", {"enum": ["auto", "restart", "live", "cold", "evacuate"]}),
        ("Migration", "spec", {"type": "object"}),
        ("Migration", "status.memIteration", {"type": "integer", "format": "int64"}),
    ],
)  # fmt: skip
def test_constraints_are_in_the_schema(kind: str, path: str, expected: Schema) -> None:
    node = at(kind, path)
    assert {word: node.get(word) for word in expected} == expected


@pytest.mark.parametrize("path", ["status.allocation", "status.capacity", "status.cells[].capacity",
                                  "status.effectiveCapacity"])  # fmt: skip
def test_quantities_are_int_or_string(path: str) -> None:
    node = cast("Schema", at("Hypervisor", path)["additionalProperties"])
    assert node["x-kubernetes-int-or-string"] is True
    assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert "type" not in node
    pattern = re.compile(cast("str", node["pattern"]))
    for text in ("24560Mi", "1500m", "1e3", "-1.5Gi", ".5"):
        assert pattern.search(text), text
    for text in ("lots", "1 Mi", "Mi"):
        assert not pattern.search(text), text


COLUMNS = {
    "Hypervisor": (
        "Zone/2 BuildingBlock/2 Group/2 Ready State Taint Lifecycle HighAvailability SkipTests "
        "Version IP Instances Hardware/2 Kernel/2 Onboarding/3 ServiceID/3 HypervisorID/3 Age "
        "Booted/2 Fenced/2 Operator/2"
    ),
    "Eviction": "Hypervisor Reason State Created Trigger/1 Total/1 Done/1 Failed/1",
    "Migration": (
        "Origin Destination Type Operation Started Elapsed DataTotal DataProcessed DataRemaining "
        "MemoryTX MemoryDirtyRate MemoryIteration"
    ),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_printer_columns_and_priorities_are_those_of_the_existing_schema(kind: str) -> None:
    columns = crd.kind_named(kind).definition.columns
    found = [
        column.name.replace(" ", "") + (f"/{column.priority}" if column.priority else "")
        for column in columns
    ]
    assert found == COLUMNS[kind].split()


@pytest.mark.parametrize("kind", crd.KINDS)
def test_columns_lead_to_fields_of_the_schema(kind: type[CustomObject]) -> None:
    known = {path for path, _ in nodes(crd.root_schema(kind))}
    for column in kind.definition.columns:
        if not column.path.startswith(".metadata"):
            path = re.sub(r"\[\?\(.*\)\]", "[]", column.path)
            assert path in known, column.path


@pytest.mark.parametrize("kind", crd.KINDS)
def test_schema_is_structural_and_explains_itself(kind: type[CustomObject]) -> None:
    for path, node in nodes(crd.root_schema(kind)):
        assert "type" in node or "x-kubernetes-int-or-string" in node, path
        assert not path or path.endswith("[]") or path == ".metadata" or node["description"], path
        assert not ("properties" in node and "additionalProperties" in node), path


@pytest.mark.parametrize("kind", crd.KINDS)
def test_status_is_never_required_at_the_root(kind: type[CustomObject]) -> None:
    assert "status" not in cast("list[str]", crd.root_schema(kind).get("required", []))


@pytest.mark.parametrize("kind", crd.KINDS)
def test_manifest_names_its_resource(kind: type[CustomObject]) -> None:
    document = yaml.safe_load(crd.to_yaml(crd.manifest(kind)))
    assert document == crd.manifest(kind)
    spec, (version,) = document["spec"], document["spec"]["versions"]
    assert document["metadata"]["name"] == f"{kind.resource.plural}.{spec['group']}"
    assert (spec["scope"], version["name"]) == (kind.resource.scope, kind.resource.version)
    assert (version["served"], version["storage"]) == (True, True)
    assert version["subresources"] == {"status": {}}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Hypervisor", "Hypervisor"), ("hv", "Hypervisor"), ("EVICTIONS", "Eviction"),
     ("evi", "Eviction"), ("mig", "Migration"), ("ovs", "OVSNode"), ("ovsnodes", "OVSNode")],
)  # fmt: skip
def test_kind_is_found_by_any_of_its_names(name: str, kind: str) -> None:
    assert crd.kind_named(name).resource.kind == kind


def test_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'Pod'.*Hypervisor, Eviction, Migration"):
        crd.kind_named("Pod")


def test_generated_manifests_are_current() -> None:
    folder = ROOT / "charts/hypercobalt-crds/crds"
    wanted = {crd.file_name(kind): crd.to_yaml(crd.manifest(kind)) for kind in crd.KINDS}
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert found == wanted, "run scripts/generate"


def test_generated_reference_is_current() -> None:
    page = (ROOT / "docs/reference/crds.md").read_text(encoding="utf-8")
    assert page == crd_reference.reference(), "run scripts/generate"
