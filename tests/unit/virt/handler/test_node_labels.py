"""Labels of a Node, from what libvirt has found out about its QEMU."""

from __future__ import annotations

from hypercobalt.virt.handler.node_labels import changes, labels_of

CACHE = """
<qemuCaps>
  <emulator>/usr/bin/qemu-system-x86_64</emulator>
  <arch>x86_64</arch>
  <cpu type='kvm' name='EPYC' usable='yes'/>
  <cpu type='tcg' name='EPYC' usable='no'><blocker name='ibpb'/></cpu>
  <cpu type='tcg' name='Nehalem' usable='yes'/>
  <machine type='kvm' name='pc-q35-9.9' alias='q35'/>
  <machine type='tcg' name='pc-q35-7.2' alias='q35' maxCpus='288'/>
  <machine type='tcg' name='bad name/with/more' maxCpus='1'/>
</qemuCaps>
"""


def test_labels_are_those_of_how_guests_run() -> None:
    assert labels_of([CACHE], emulation=True) == {
        "machine-type.node.kubevirt.io/pc-q35-7.2": "true",
        "machine-type.node.kubevirt.io/q35": "true",
        "cpu-model.node.kubevirt.io/Nehalem": "true",
    }
    assert labels_of([CACHE], emulation=False) == {
        "machine-type.node.kubevirt.io/pc-q35-9.9": "true",
        "machine-type.node.kubevirt.io/q35": "true",
        "cpu-model.node.kubevirt.io/EPYC": "true",
    }


HOST = """
  <hostCPU type='kvm' model='base' migratability='yes'>
    <property name='vmx' type='boolean' value='true' migratable='yes'/>
  </hostCPU>
  <hostCPU type='tcg' model='base' migratability='yes'>
    <property name='apic' type='boolean' value='true' migratable='yes'/>
    <property name='lahf-lm' type='boolean' value='true'/>
    <property name='pclmulqdq' type='boolean' value='true'/>
    <property name='sse4.1' type='boolean' value='true'/>
    <property name='avx512f' type='boolean' value='false'/>
    <property name='family' type='number' value='15'/>
  </hostCPU>
</qemuCaps>
"""


def test_features_of_the_cpu_are_labels_by_the_names_that_libvirt_has() -> None:
    cache = CACHE.replace("</qemuCaps>", HOST)
    found = labels_of([cache], emulation=True)
    prefix = "cpu-feature.node.kubevirt.io/"
    features = {name.removeprefix(prefix) for name in found if name.startswith(prefix)}
    assert features == {"apic", "lahf_lm", "pclmuldq", "sse4.1"}
    assert f"{prefix}vmx" in labels_of([cache], emulation=False)
    assert changes({f"{prefix}old": "true"}, found)[f"{prefix}old"] is None


def test_emulator_of_another_architecture_labels_nothing() -> None:
    assert labels_of([CACHE.replace("x86_64</arch>", "i686</arch>")], emulation=True) == {}


def test_cache_that_cannot_be_read_gives_no_labels() -> None:
    for broken in ("", "<domain/>", "<qemuCaps><machine", "<!DOCTYPE a><qemuCaps/>"):
        assert labels_of([broken], emulation=True) == {}


def test_only_what_differs_is_written_and_what_is_gone_is_removed() -> None:
    present = {
        "kubevirt.io/schedulable": "true",
        "cpu-model.node.kubevirt.io/old": "true",
        "machine-type.node.kubevirt.io/q35": "true",
        "example.com/rack": "7",
    }
    wanted = {"machine-type.node.kubevirt.io/q35": "true", "cpu-model.node.kubevirt.io/x": "true"}
    assert changes(present, wanted) == {
        "cpu-model.node.kubevirt.io/x": "true",
        "cpu-model.node.kubevirt.io/old": None,
    }
    assert changes(present, {}) == {}
    assert changes({}, {}) == {"kubevirt.io/schedulable": "true"}
