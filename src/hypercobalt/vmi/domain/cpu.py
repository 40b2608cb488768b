"""CPUs of the guest: model, features, topology.

Source: libvirt, formatdomain, CPU model and topology; kubevirt, pkg/virt-launcher, as recorded.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from hypercobalt.api.kubevirt.machine import CPUSpec
from hypercobalt.vmi.domain.context import DomainContext
from hypercobalt.vmi.domain.elements import element
from hypercobalt.vmi.topology import Topology, topology
from hypercobalt.vmi.unfit import UnfitVMIError

HOST_MODEL = "host-model"
HOST_PASSTHROUGH = "host-passthrough"
_REQUIRE = "require"
"""The policy of a feature that names none: libvirt's default, which its schema wants."""


def cpu_elements(spec: CPUSpec | None, context: DomainContext) -> tuple[Element, Element]:
    """The elements `vcpu` and `cpu`.

    Raises:
        UnfitVMIError: the topology has no meaning, or the model needs KVM where there is none.
    """
    found = topology(spec)
    model = (spec.model if spec else "") or HOST_MODEL
    if context.emulation and model == HOST_PASSTHROUGH:
        raise UnfitVMIError("spec.domain.cpu.model", f"{model} needs KVM, which this host lacks")
    vcpu = element("vcpu", placement="static", text=str(found.vcpus))
    return vcpu, element(
        "cpu", *_model(model), *_features(spec, model), _topology(found), **_mode(model)
    )


def _mode(model: str) -> dict[str, str]:
    return {"mode": model if model in {HOST_MODEL, HOST_PASSTHROUGH} else "custom"}


def _model(model: str) -> tuple[Element, ...]:
    if model in {HOST_MODEL, HOST_PASSTHROUGH}:
        return ()
    return (element("model", text=model),)


def _features(spec: CPUSpec | None, model: str) -> list[Element]:
    features = spec.features if spec else ()
    made = [element("feature", name=one.name, policy=one.policy or _REQUIRE) for one in features]
    custom = model not in {HOST_MODEL, HOST_PASSTHROUGH}
    if custom and all(one.name != "mpx" for one in features):
        # Named models have it, and present CPUs and kernels do not: the guest would not start.
        made.append(element("feature", name="mpx", policy="disable"))
    return made


def _topology(found: Topology) -> Element:
    return element("topology", sockets=found.sockets, cores=found.cores, threads=found.threads)
