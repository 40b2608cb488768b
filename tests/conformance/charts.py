"""Renders this project's charts, with Go's own templates and the few functions that they use."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import cast

import yaml
from tests.conformance.real import ROOT
from tests.conformance.wire import Body, Json

from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.lab import rights
from hypercobalt.lab.pods.rights import VIRT_NAMESPACE

RELEASE, NAMESPACE = "op", "hypervisors"
RENDERER = Path(__file__).with_name("chart") / "render.go"
"""Needs Go's standard library only, which is compiled once."""


class RenderError(Exception):
    """A chart cannot be rendered with the values; the message is the template's."""


@functools.cache
def _go() -> str:
    found = subprocess.run(
        [ROOT / "scripts/find-go"], check=True, stdout=subprocess.PIPE, text=True
    )
    return found.stdout.strip()


def rendered(
    chart: str, values: Body | None = None, *, release: str = RELEASE, namespace: str = NAMESPACE
) -> list[Body]:
    """Every object of a chart.

    Args:
        chart: folder under `charts/`.
        values: over the chart's own.
        release: its name.
        namespace: of the release.

    Raises:
        RenderError: a template refuses the values.
    """
    folder = ROOT / "charts" / chart
    own = yaml.safe_load((folder / "values.yaml").read_text())
    about = yaml.safe_load((folder / "Chart.yaml").read_text())
    given = {
        "Values": over(own, values or {}),
        "Chart": {key[0].upper() + key[1:]: value for key, value in about.items()},
    }
    done = subprocess.run(
        [_go(), "run", RENDERER, str(folder), release, namespace],
        env={**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": ""},
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RenderError(done.stderr)
    return [body for body in yaml.safe_load_all(done.stdout) if body]


def with_every_source(chart: str, values: Body) -> list[Body]:
    """A chart with the rights of both sources of certificates at once."""
    made, more = (
        rendered(chart, cast("Body", over(values, {"certificates": {"source": source}})))
        for source in CertificateSource
    )
    for body, other in zip(made, more, strict=True):
        if body["kind"] in {"Role", "ClusterRole"}:
            body["rules"] += [rule for rule in other["rules"] if rule not in body["rules"]]
    return made


def over(own: Json, given: Json) -> Json:
    """Maps are merged, everything else is replaced, as Helm does it."""
    if not (isinstance(own, dict) and isinstance(given, dict)):
        return given
    mine, theirs = cast("Body", own), cast("Body", given)
    return {
        **mine,
        **{key: over(mine[key], it) if key in mine else it for key, it in theirs.items()},
    }


def lab_rights() -> dict[str, str]:
    """The charts' roles and bindings, as the lab installs them: text of each file by name."""
    nova, direct = _lab_rights("nova"), _lab_rights("direct")
    held = {rights.key(body): body for body in nova}
    assert held.keys() <= {rights.key(body) for body in direct}, "rights of Nova alone"
    more = [body for body in direct if held.get(rights.key(body)) != body]
    return {
        name: yaml.safe_dump_all(bodies, sort_keys=False, width=100)
        for name, bodies in ((rights.DATA, nova), (rights.DIRECT, more), (rights.VIRT, _virt()))
    }


def _lab_rights(compute: rights.Compute) -> list[Body]:
    env = {
        "agentNamespaces": rights.NAMESPACE,
        "certificateNamespace": rights.NAMESPACE,
        "compute": compute,
    }
    charts: dict[str, Body] = {
        "hypercobalt-node-agent": {
            "env": {"namespace": rights.NAMESPACE},
            "storeDefinitions": compute == "direct",
        },
        "hypercobalt-ovs-agent": {"env": {"namespace": rights.OVS_NAMESPACE}},
        "hypercobalt-operator": {
            "controllerManager": {"manager": {"env": env}},
            "openstack": {"cloudsSecret": "clouds"},
            "ovs": {"enabled": True, "namespace": rights.OVS_NAMESPACE},
            "ha": {"fenceDevices": "devices: []"},  # for the right to their credentials
        },
    }
    namespaces = {"hypercobalt-ovs-agent": rights.OVS_NAMESPACE}
    found: list[Body] = []
    for chart, values in charts.items():
        named: Body = {"fullnameOverride": chart, **values}
        namespace = namespaces.get(chart, rights.NAMESPACE)
        found += _rights_of(rendered(chart, named, release="lab", namespace=namespace))
    return found


def _virt() -> list[Body]:
    chart = "hypercobalt-virt"
    named: Body = {"fullnameOverride": chart}
    return _rights_of(rendered(chart, named, release="lab", namespace=VIRT_NAMESPACE))


def _rights_of(objects: list[Body]) -> list[Body]:
    wanted = {kind.resource.kind for kind in rights.KINDS}
    found = [body for body in objects if body["kind"] in wanted]
    for body in found:
        body["metadata"].pop("labels", None)
    return found
