"""KubeVirt's definition as data, its manifest, and the structs of what our code reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import cast, get_args, get_origin

import pytest
import yaml

from hypercobalt.api import crd
from hypercobalt.api.fields import fields_of
from hypercobalt.api.kubevirt import definition
from hypercobalt.api.kubevirt.schema import SchemaField, fields, virtual_machine_instance
from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.meta import Struct
from hypercobalt.api.quantity import PATTERN, Quantity

ROOT = Path(__file__).resolve().parents[4]
MANIFEST = ROOT / "charts/hypercobalt-virt/crds" / definition.FILE_NAME
TYPES = {
    str: {"string"},
    bool: {"boolean"},
    int: {"integer", "int32", "int64"},
    Quantity: {"quantity"},
    datetime: {"date-time"},
}


def spec() -> dict[str, object]:
    return cast("dict[str, object]", definition.manifest()["spec"])


def versions() -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", spec()["versions"])


def test_manifest_in_the_chart_is_current() -> None:
    assert MANIFEST.read_text() == crd.to_yaml(definition.manifest())
    assert yaml.safe_load(MANIFEST.read_text()) == definition.manifest()


def test_schema_has_all_fields_of_kubevirt() -> None:
    paths = [path for path, _ in fields(virtual_machine_instance())]
    assert len(paths) == len(set(paths)) == 860
    assert sum(path.startswith("status.") for path in paths) == 225


def test_status_travels_with_the_spec() -> None:
    assert all("subresources" not in version for version in versions())


def test_old_version_is_served_and_not_stored() -> None:
    assert [
        (one["name"], one["served"], one["storage"], one.get("deprecated")) for one in versions()
    ] == [("v1", True, True, None), ("v1alpha3", True, False, True)]


def test_columns_are_those_of_kubevirt() -> None:
    for version in versions():
        columns = cast("list[dict[str, object]]", version["additionalPrinterColumns"])
        assert [(one["name"], one.get("priority")) for one in columns] == [
            ("Age", None),
            ("Phase", None),
            ("IP", None),
            ("NodeName", None),
            ("Ready", None),
            ("Live-Migratable", 1),
            ("Paused", 1),
        ]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("spec.domain.memory.guest", {"x-kubernetes-int-or-string": True, "pattern": PATTERN}),
        ("spec.domain.cpu.cores", {"type": "integer", "format": "int32"}),
        ("spec.domain.devices.disks", {"type": "array", "maxItems": 256}),
        ("spec.volumes[].configMap", {"x-kubernetes-map-type": "atomic"}),
        ("spec.domain.clock", {"x-kubernetes-preserve-unknown-fields": True}),
        ("spec", {"required": ["domain"]}),
        ("status.conditions[].lastProbeTime", {"format": "date-time", "nullable": True}),
        ("spec.nodeSelector", {"additionalProperties": {"type": "string"}}),
        ("spec.tolerations", {"type": "array"}),
    ],
)
def test_node_of_the_manifest_has_its_facts(path: str, wanted: dict[str, object]) -> None:
    schema = cast("dict[str, dict[str, object]]", versions()[0]["schema"])
    node = schema["openAPIV3Schema"]
    for step in path.split("."):
        node = cast("dict[str, dict[str, object]]", node["properties"])[step.removesuffix("[]")]
        if step.endswith("[]"):
            node = cast("dict[str, object]", node["items"])
    assert wanted.items() <= node.items()


def struct_fields(struct: type[Struct], path: str) -> Iterator[tuple[str, set[str]]]:
    """Path of each field of a struct, and the types that the schema may give it."""
    for name, (type_, _) in fields_of(struct).items():
        yield from typed(type_, f"{path}.{name}")


def typed(type_: object, path: str) -> Iterator[tuple[str, set[str]]]:
    arguments = cast("tuple[object, ...]", get_args(type_))
    match get_origin(type_):
        case origin if origin is UnionType:
            (inner,) = (one for one in arguments if one is not NoneType)
            yield from typed(inner, path)
        case origin if origin is tuple:
            yield path, {"array"}
            yield from typed(arguments[0], f"{path}[]")
        case origin if origin is dict:
            yield path, {"object"}
            yield from typed(arguments[1], f"{path}{{}}")
        case _ if isinstance(type_, type) and issubclass(type_, Struct):
            yield path, {"object"}
            yield from struct_fields(type_, path)
        case _:
            yield path, TYPES[cast("type", type_)]


@pytest.mark.parametrize(("struct", "path"), [(VMISpec, "spec"), (VMIStatus, "status")])
def test_each_field_of_a_struct_is_a_field_of_the_schema(struct: type[Struct], path: str) -> None:
    schema: dict[str, SchemaField] = dict(fields(virtual_machine_instance()))
    timers = {"tickPolicy", "track"}  # one struct for all timers
    for at, types in struct_fields(struct, path):
        if ".timer." not in at or at.rpartition(".")[2] not in timers:
            assert schema[at].type in types, at
