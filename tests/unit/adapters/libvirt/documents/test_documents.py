"""Capabilities, domain capabilities and domains from their documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cost import cpu

from hypercobalt.adapters.libvirt.documents import capabilities, domain, domcapabilities
from hypercobalt.adapters.libvirt.documents.domain import Definition
from hypercobalt.adapters.libvirt.documents.tree import DocumentError, read
from hypercobalt.adapters.libvirt.model import Devices, Disk, HostCell, MemoryNode

GIB = 1024**3
SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.xml").read_text()


def of(*parts: str) -> Definition:
    return domain.parse(f"<domain><memory unit='MiB'>64</memory>{''.join(parts)}</domain>")


class TestCapabilities:
    def test_real_host_with_one_cell_is_read(self) -> None:
        host = capabilities.parse(sample("capabilities-one-cell"))

        assert host.arch == "x86_64"
        assert [cell.id for cell in host.cells] == [0]
        assert host.cells[0].cpus == {0, 1}
        assert host.cpu_count == 2
        assert host.memory_bytes > GIB

    def test_four_cells_with_gaps_in_their_numbers_and_any_unit_are_read(self) -> None:
        host = capabilities.parse(sample("capabilities-four-cells"))

        assert host.cells[0] == HostCell(0, 256 * GIB, frozenset({0, 1, 128}), 64)
        assert [(c.id, c.memory_bytes, c.cpu_count) for c in host.cells[1:]] == [
            (1, 256 * GIB, 64),
            (2, 256 * GIB, 64),
            (5, 256 * GIB, 64),
        ]
        assert host.memory_bytes == 1024 * GIB
        assert host.cpu_count == 256

    @pytest.mark.parametrize(
        ("text", "uuid"),
        [
            ("8C7D4BA7-3B07-43C6-9A25-A2B6BA2E3B1E", "8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e"),
            ("8c7d4ba7-3b07-43c6-9a25", ""),
            ("not known", ""),
        ],
    )
    def test_uuid_of_the_host_is_read_in_its_one_form(self, text: str, uuid: str) -> None:
        document = f"<capabilities><host><uuid>{text}</uuid></host></capabilities>"

        assert capabilities.parse(document).uuid == uuid

    def test_a_host_without_topology_has_no_cells(self) -> None:
        host = capabilities.parse("<capabilities><host/></capabilities>")

        assert (host.arch, host.cells) == ("unknown", ())

    @pytest.mark.parametrize(
        "cell",
        [
            "<cell><memory>1</memory></cell>",
            "<cell id='x'/>",
            "<cell id='0'><memory unit='parsec'>1</memory></cell>",
            "<cell id='0'><cpus num='-4'/></cell>",
        ],
    )
    def test_a_cell_that_cannot_be_read_is_an_error(self, cell: str) -> None:
        document = (
            f"<capabilities><host><topology><cells>{cell}</cells></topology></host></capabilities>"
        )
        with pytest.raises(DocumentError, match=r"^cell"):
            capabilities.parse(document)


class TestDomainCapabilities:
    def test_domain_capabilities_of_qemu_are_read(self) -> None:
        found = domcapabilities.parse(sample("domcapabilities-qemu"))

        assert (found.arch, found.hypervisor_type) == ("x86_64", "kvm")
        assert found.cpu_modes == (
            "mode/host-passthrough",
            "mode/host-passthrough/on",
            "mode/host-passthrough/off",
            "mode/maximum",
            "mode/maximum/on",
            "mode/maximum/off",
            "mode/host-model",
            "mode/custom",
        )
        assert found.devices[:4] == ("disk", "disk/disk", "disk/cdrom", "disk/floppy")
        assert "tpm/tpm-crb" in found.devices
        assert found.features == (
            "vmcoreinfo",
            "genid",
            "backingStoreInput",
            "backup",
            "hyperv",
        )

    def test_domain_capabilities_of_cloud_hypervisor_are_read(self) -> None:
        found = domcapabilities.parse(sample("domcapabilities-cloud-hypervisor"))

        assert (found.arch, found.hypervisor_type) == ("x86_64", "ch")
        assert found.cpu_modes == ("mode/host-passthrough",)
        assert found.devices == ("video", "video/none")
        assert found.features == ()

    def test_features_have_no_values_since_other_agents_write_none(self) -> None:
        found = domcapabilities.parse(
            "<domainCapabilities><features><hyperv supported='yes'>"
            "<enum name='features'><value>relaxed</value></enum></hyperv>"
            "<sev supported='no'/><sgx supported='yes'><section_size unit='KiB'>1</section_size>"
            "</sgx><hyperv supported='yes'/></features></domainCapabilities>"
        )

        assert found.features == ("hyperv", "sgx")

    def test_values_of_unsupported_things_are_not_listed(self) -> None:
        found = domcapabilities.parse(
            "<domainCapabilities><devices>"
            "<video supported='no'><enum name='a'><value>nvidia</value></enum></video>"
            "<gpu><enum name='a'><value>x</value></enum></gpu>"
            "<rng supported='yes'><enum name='a'><value> </value><value>egd</value></enum></rng>"
            "</devices></domainCapabilities>"
        )

        assert found.devices == ("rng", "rng/egd")
        assert (found.arch, found.hypervisor_type) == ("unknown", "unknown")


class TestDomain:
    def test_real_guest_without_any_tuning_is_read(self) -> None:
        floppy = Disk("fda", "floppy", "/srv/guests/boot.img", readonly=True)

        assert domain.parse(sample("domain-tcg")) == Definition(
            memory_bytes=1024**2, vcpus=1, devices=Devices((floppy,)), name="one"
        )

    def test_interfaces_are_ports_of_open_vswitch_or_plugged_by_another_tool(self) -> None:
        found = domain.parse(
            "<domain><memory>1</memory><vcpu>1</vcpu><devices>"
            "<interface type='bridge'><virtualport type='openvswitch'>"
            "<parameters interfaceid='c0ffee00-0000-4000-8000-000000000001'/></virtualport>"
            "<target dev='vnet0'/></interface>"
            "<interface type='ethernet'><target dev='tap1'/></interface>"
            "<interface type='vhostuser'><target dev='vhu2'/></interface>"
            "<interface type='network'><target dev='vnet3'/></interface>"
            "<interface type='ethernet'/>"
            "</devices></domain>"
        )
        assert found.devices.ports == ("c0ffee00-0000-4000-8000-000000000001",)
        assert found.devices.plugged == ("tap1", "vhu2")

    def test_nova_guest_is_on_the_host_cells_that_its_nodesets_name(self) -> None:
        assert domain.parse(sample("domain-nova")) == Definition(
            name="instance-0000002a",
            memory_bytes=128 * GIB,
            vcpus=4,
            pins={
                0: frozenset({32, 33, 35}),
                1: frozenset({33}),
                2: frozenset({64}),
                3: frozenset({65}),
            },
            memory_nodes=(
                MemoryNode(64 * GIB, frozenset({1})),
                MemoryNode(64 * GIB, frozenset({2})),
            ),
            devices=Devices(
                plugged=("tap0",),
                bound=(
                    "network interface of the type ethernet (<devices/interface> has "
                    "type='ethernet': it must be one of bridge, network)",
                ),
            ),
        )

    def test_guest_cells_that_nothing_binds_name_no_host_cell(self) -> None:
        found = of("<cpu><numa><cell id='0' cpus='0' memory='64' unit='MiB'/></numa></cpu>")

        assert found == Definition(64 * 1024**2, 1)

    def test_without_guest_cells_all_memory_is_bound(self) -> None:
        found = of("<numatune><memory mode='strict' nodeset='0-2,^1'/></numatune>")

        assert found.memory_nodes == (MemoryNode(64 * 1024**2, frozenset({0, 2})),)

    def test_automatic_placement_binds_nothing(self) -> None:
        found = of("<numatune><memory mode='strict' placement='auto'/></numatune>")

        assert (found.memory_nodes, found.problem) == ((), None)

    def test_a_guest_cell_without_line_follows_the_rest_of_the_memory(self) -> None:
        found = of(
            "<numatune><memory nodeset='3'/><memnode cellid='1' nodeset='2'/></numatune>",
            "<cpu><numa><cell memory='32768'/><cell memory='32' unit='M'/></numa></cpu>",
        )

        assert [node.host_cells for node in found.memory_nodes] == [{3}, {2}]
        assert [node.memory_bytes for node in found.memory_nodes] == [32 * 1024**2] * 2

    def test_guest_cell_without_a_binding_names_no_host_cell_beside_a_bound_one(self) -> None:
        found = of(
            "<numatune><memnode cellid='0' nodeset='2'/></numatune>",
            "<cpu><numa><cell memory='32768'/><cell memory='32768'/></numa></cpu>",
        )

        assert [node.host_cells for node in found.memory_nodes] == [{2}, frozenset()]

    def test_a_guest_cell_that_is_written_twice_counts_once(self) -> None:
        found = of(
            "<numatune><memory nodeset='3'/></numatune>",
            "<cpu><numa>",
            "<cell id='0' memory='65536'/>" * 2,
            "</numa></cpu>",
        )

        assert found.memory_nodes == (MemoryNode(64 * 1024**2, frozenset({3})),)

    @pytest.mark.parametrize(
        ("part", "problem"),
        [
            ("<vcpu>many</vcpu>", "<vcpu>: 'many' is not a number"),
            ("<vcpu>99999999</vcpu>", "<vcpu>: 99999999 is above 16384"),
            ("<vcpu cpuset='x'>1</vcpu>", "<vcpu>: 'x' is not a number"),
            (
                "<cputune><vcpupin vcpu='0' cpuset='9-1'/></cputune>",
                "<vcpupin>: the range '9-1' is descending",
            ),
            (
                "<numatune><memory nodeset='all'/></numatune>",
                "<memory>: 'all' is not a number",
            ),
            (
                "<numatune><memnode nodeset='1'/></numatune>",
                "<memnode>: '' is not a number",
            ),
            (
                "<numatune><memory nodeset='1'/></numatune>"
                "<cpu><numa><cell memory='1' unit='parsec'/></numa></cpu>",
                "<cell>: unknown memory unit 'parsec'",
            ),
        ],
    )
    def test_a_part_that_cannot_be_read_is_named_and_the_rest_kept(
        self, part: str, problem: str
    ) -> None:
        found = of(part)

        assert found.problem == problem
        assert found.memory_bytes == 64 * 1024**2

    def test_memory_in_an_unknown_unit_is_a_problem(self) -> None:
        found = domain.parse("<domain><memory unit='parsec'>1</memory><vcpu>2</vcpu></domain>")

        assert (found.memory_bytes, found.vcpus) == (0, 2)
        assert found.problem == "<memory>: unknown memory unit 'parsec'"

    def test_a_problem_is_short_however_long_the_document(self) -> None:
        found = of("<cputune>", f"<vcpupin vcpu='0' cpuset='{'9' * 9000}'/>" * 100, "</cputune>")

        assert found.problem
        assert len(found.problem) < 300


@pytest.mark.parametrize(
    ("body", "pins"),
    [
        pytest.param("<vcpu cpuset='4-7,^5'>2</vcpu>", {0: {4, 6, 7}, 1: {4, 6, 7}}, id="all"),
        pytest.param(
            "<vcpu placement='static' cpuset='1'>3</vcpu>"
            "<cputune><vcpupin vcpu='1' cpuset='2'/></cputune>",
            {0: {1}, 1: {2}, 2: {1}},
            id="but those with a line of their own",
        ),
        pytest.param("<vcpu placement='auto' cpuset='1'>2</vcpu>", {}, id="libvirt ignores it"),
        pytest.param(
            "<vcpu placement='auto' cpuset='1'>2</vcpu>"
            "<cputune><vcpupin vcpu='1' cpuset='2'/></cputune>",
            {1: {2}},
            id="but not a line",
        ),
        pytest.param("<vcpu cpuset=''>2</vcpu>", {}, id="none is named"),
        pytest.param("<vcpu>2</vcpu>", {}, id="none"),
    ],
)
def test_the_cpus_of_the_whole_guest_are_those_of_each_vcpu(
    body: str, pins: dict[int, set[int]]
) -> None:
    found = of(body)

    assert found.pins == pins
    assert found.problem is None


def test_a_set_that_many_vcpus_share_is_kept_once() -> None:
    lines = "".join(f"<vcpupin vcpu='{v}' cpuset='0-3'/>" for v in range(8))

    for found in (
        of("<vcpu cpuset='0-3'>8</vcpu>"),
        of("<vcpu>8</vcpu><cputune>", lines, "</cputune>"),
    ):
        assert len(found.pins) == 8
        assert len({id(cpus) for cpus in found.pins.values()}) == 1


def test_pins_that_name_millions_of_cpus_are_a_problem() -> None:
    pins = "".join(f"<vcpupin vcpu='{v}' cpuset='0-16383,^{v}'/>" for v in range(5000))

    found = of("<cputune>", pins, "</cputune>")

    assert found.problem == "<vcpupin>: the pins name more than 1000000 CPUs"
    assert len(found.pins) < 100


HOSTILE = {
    "nothing": b"",
    "no XML": b"\xff\xfe\x00",
    "half a document": b"<domain><memory>1</memory>",
    "another root": b"<network/>",
    "not UTF-8": b"<domain><name>\xe9</name></domain>",
    "another encoding": b"<?xml version='1.0' encoding='utf-7'?><domain>+AGE-\xe9</domain>",
    "a document type": b"<!DOCTYPE domain SYSTEM 'http://127.0.0.1/x'><domain/>",
    "entities": b"<!DOCTYPE d [<!ENTITY a 'b'>]><domain><name>&a;</name></domain>",
    "an entity from nowhere": b"<domain><name>&a;</name></domain>",
    "too deep": b"<domain>" + b"<a>" * 5000 + b"</a>" * 5000 + b"</domain>",
    "deep where wanted": b"<domain><cpu>" + b"<a>" * 5000 + b"</a>" * 5000 + b"</cpu></domain>",
    "too large": b"<domain><name>" + b"a" * 4 * 1024**2 + b"</name></domain>",
    "a long tag": b"<domain><x "
    + b"".join(b"a%d='' " % n for n in range(100_000))
    + b"/></domain>",
    "too many elements": b"<domain><cpu>" + b"<a/>" * 60_000 + b"</cpu></domain>",
}


@pytest.mark.parametrize("document", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_document_is_a_problem_of_one_domain(document: bytes) -> None:
    found = domain.parse(document)

    assert found.problem
    assert found.problem.startswith("the document cannot be read: ")
    assert len(found.problem) < 200


@pytest.mark.parametrize(
    ("repeats", "problem"),
    [(20_000, "an attribute longer than 65536"), (8_000, "names more than 65536 members")],
    ids=["a long attribute", "a set that names each CPU again and again"],
)
def test_hostile_set_of_cpus_costs_little(repeats: int, problem: str) -> None:
    with cpu() as used:
        found = domain.parse(f"<domain><vcpu cpuset='{'0-16383,' * repeats}0'>4</vcpu></domain>")

    assert problem in (found.problem or "")
    assert used.seconds < 0.5


def test_hostile_sets_that_differ_cost_little_together() -> None:
    sets = [f"{'0-16383,' * 7}^{vcpu}" for vcpu in range(2000)]
    pins = "".join(f"<vcpupin vcpu='{n}' cpuset='{cpus}'/>" for n, cpus in enumerate(sets))
    with cpu() as used:
        found = of("<vcpu>4</vcpu><cputune>", pins, "</cputune>")

    assert found.problem
    assert used.seconds < 0.5


def test_unused_elements_are_skipped_whatever_their_number() -> None:
    controllers = "<controller><address bus='0'/>text</controller>" * 60_000

    assert of("<devices>", controllers, "</devices>").problem is None


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(DocumentError, match="UTF-8"):
        read("<domain>\ud800</domain>", root="domain", wanted=frozenset())


@given(st.binary() | st.text())
def test_no_input_makes_the_domain_reader_raise(document: bytes | str) -> None:
    assert domain.parse(document).problem


_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<&'"), max_size=8
)
_NUMBERS = st.integers(-5, 2**70).map(str) | _TEXT
_SETS = st.sampled_from(["0", "0-2,^1", "3-1", ""]) | _TEXT
_UNITS = st.sampled_from(["KiB", "MB", "b", "EiB", "", "x"]) | _TEXT
_PARTS = st.one_of(
    st.builds("<memory unit='{}'>{}</memory>".format, _UNITS, _NUMBERS),
    st.builds("<vcpu placement='{}'>{}</vcpu>".format, _TEXT, _NUMBERS),
    st.builds("<vcpu cpuset='{}'>{}</vcpu>".format, _SETS, _NUMBERS),
    st.builds("<cputune><vcpupin vcpu='{}' cpuset='{}'/></cputune>".format, _NUMBERS, _SETS),
    st.builds("<numatune><memory nodeset='{}'/></numatune>".format, _SETS),
    st.builds("<numatune><memnode cellid='{}' nodeset='{}'/></numatune>".format, _NUMBERS, _SETS),
    st.builds(
        "<cpu><numa><cell id='{}' memory='{}' unit='{}'/></numa></cpu>".format,
        _NUMBERS,
        _NUMBERS,
        _UNITS,
    ),
)


@given(st.lists(_PARTS, max_size=8))
def test_whatever_stands_in_the_parts_amounts_stay_in_range(parts: list[str]) -> None:
    found = domain.parse(f"<domain>{''.join(parts)}</domain>")

    assert 0 <= found.memory_bytes < 2**63
    assert 0 <= found.vcpus <= 16384
    assert all(0 <= node.memory_bytes < 2**63 for node in found.memory_nodes)
    assert all(0 <= cpu < 16384 for cpus in found.pins.values() for cpu in cpus)


@given(st.binary() | st.text())
def test_other_documents_are_read_or_refused(document: bytes | str) -> None:
    for reader in (capabilities.parse, domcapabilities.parse):
        with pytest.raises(DocumentError):
            reader(document)
