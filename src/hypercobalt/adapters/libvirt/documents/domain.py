"""Reads domain XML: what a domain takes of the host, on which cells and CPUs, and its devices.

A guest's own NUMA cells are not the host's: `numatune` names the host cells (`nodeset`),
`cputune/vcpupin` the host CPUs of one vCPU, and `vcpu` those of all without such a line (`cpuset`),
unless libvirt is to place the guest by itself. A part that cannot be read leaves a safe value and
an entry in `problem`, so that one exotic document never hides the others.

Source: libvirt's formatdomain.html.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hypercobalt.adapters.libvirt.documents import devices, evacuated
from hypercobalt.adapters.libvirt.documents.scaled import (
    MOST_NAMED,
    members,
    memory_bytes,
    number,
)
from hypercobalt.adapters.libvirt.documents.tree import (
    DocumentError,
    Element,
    TooManyElementsError,
    read,
)
from hypercobalt.adapters.libvirt.model import Devices, Domain, DomainState, Evacuated, MemoryNode

_WANTED = (
    frozenset({"name", "memory", "vcpu", "cputune", "numatune", "cpu"})
    | devices.WANTED
    | {evacuated.WANTED}
)
_MOST_ELEMENTS = 16_000  # a guest with 500 devices has some 10,000
_MAX_VCPUS = 16 * 1024
_MAX_PINNED = 1_000_000  # CPUs named by all pins of a domain together
_MAX_NAMED = 2_000_000  # members and characters of all different sets of a document together
_MAX_CELL = 1023
_NOWHERE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Definition:
    """What a domain's document has, as `Domain` shows it.

    Args:
        memory_bytes: `<memory>`.
        vcpus: `<vcpu>`; one without the element, as libvirt has it.
        pins: vCPU number to host CPUs.
        memory_nodes: see `Domain`.
        devices: see `Devices`.
        problem: which parts could not be read, and why.
        evacuated: see `Domain`.
        earlier: see `Domain`.
        name: `<name>`.
    """

    memory_bytes: int = 0
    vcpus: int = 0
    pins: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    memory_nodes: tuple[MemoryNode, ...] = ()
    devices: Devices = field(default_factory=Devices)
    problem: str | None = None
    evacuated: Evacuated | None = None
    earlier: tuple[Evacuated, ...] = ()
    name: str = ""

    def domain(self, uuid: str, name: str, state: DomainState, *, active: bool) -> Domain:
        """A domain that is defined so."""
        return Domain(
            uuid=uuid,
            name=name,
            active=active,
            state=state,
            memory_bytes=self.memory_bytes,
            vcpus=self.vcpus,
            pins=self.pins,
            memory_nodes=self.memory_nodes,
            devices=self.devices,
            problem=self.problem,
            evacuated=self.evacuated,
            earlier=self.earlier,
        )


def parse(document: str | bytes) -> Definition:
    """Read one domain's document; never raises."""
    try:
        root, whole = _parts(document)
    except DocumentError as exc:
        return Definition(problem=f"the document cannot be read: {exc}")
    reader = _Reader()
    memory, vcpus = reader.memory(root), reader.vcpus(root)
    return Definition(
        memory_bytes=memory,
        vcpus=vcpus,
        pins=reader.pins(root, vcpus),
        memory_nodes=reader.memory_nodes(root, memory),
        devices=reader.devices(root, whole=whole),
        problem="; ".join(reader.problems[:3]) or None,
        evacuated=evacuated.of(root),
        earlier=evacuated.earlier_of(root),
        name=root.text_of("name"),
    )


def _parts(document: str | bytes) -> tuple[Element, bool]:
    """The document, and whether it is whole: of a huge one only the wanted parts are kept."""
    mark = frozenset({evacuated.WANTED})
    try:
        return read(document, root="domain", wanted=mark, others=True, most=_MOST_ELEMENTS), True
    except TooManyElementsError:
        return read(document, root="domain", wanted=_WANTED), False


class _Reader:
    """Reads the parts, collecting what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._sets: dict[str, frozenset[int]] = {}  # hundreds of lines mostly name the same CPUs
        self._named = 0

    def memory(self, root: Element) -> int:
        memory = root.first("memory")
        if memory is None:
            self.problems.append("<memory> is missing")
            return 0
        with self._noting("<memory>"):
            return memory_bytes(memory.text, memory.get("unit"))
        return 0

    def vcpus(self, root: Element) -> int:
        vcpu = root.first("vcpu")
        if vcpu is None:
            return 1
        with self._noting("<vcpu>"):
            return number(vcpu.text, _MAX_VCPUS)
        return 0

    def pins(self, root: Element, vcpus: int) -> dict[int, frozenset[int]]:
        rest = self._rest(root.first("vcpu"))
        pins = dict.fromkeys(range(vcpus), rest) if rest else {}
        pinned = 0
        for pin in root.all("cputune/vcpupin"):
            with self._noting("<vcpupin>"):
                cpus = self._members(pin.get("cpuset"))
                pinned += len(cpus)
                if pinned > _MAX_PINNED:
                    break
                pins[number(pin.get("vcpu"), _MAX_VCPUS)] = cpus
        if pinned > _MAX_PINNED:
            self.problems.append(f"<vcpupin>: the pins name more than {_MAX_PINNED} CPUs")
        return pins

    def _rest(self, vcpu: Element | None) -> frozenset[int]:
        """Host CPUs of every vCPU without a line of its own; empty: it is not pinned."""
        if vcpu is None or not vcpu.get("cpuset") or vcpu.get("placement") == "auto":
            return _NOWHERE
        with self._noting("<vcpu>"):
            return self._members(vcpu.get("cpuset"))
        return _NOWHERE

    def memory_nodes(self, root: Element, memory: int) -> tuple[MemoryNode, ...]:
        everywhere = self._nodeset(root.first("numatune/memory"))
        bound = self._bound(root)
        if not everywhere and not bound:
            return ()
        guest = self._guest_cells(root)
        if not guest:
            return (MemoryNode(memory, everywhere.union(*bound.values())),)
        return tuple(MemoryNode(size, bound.get(cell, everywhere)) for cell, size in guest.items())

    def devices(self, root: Element, *, whole: bool) -> Devices:
        with self._noting("<devices>"):
            return devices.of(root, whole=whole)
        return Devices()

    def _bound(self, root: Element) -> dict[int, frozenset[int]]:
        """Guest cell to host cells, of those that have their own line."""
        bound: dict[int, frozenset[int]] = {}
        for node in root.all("numatune/memnode"):
            with self._noting("<memnode>"):
                if hosts := self._nodeset(node):
                    bound[number(node.get("cellid"), _MAX_CELL)] = hosts
        return bound

    def _guest_cells(self, root: Element) -> dict[int, int]:
        """Bytes of each guest cell."""
        cells: dict[int, int] = {}
        for index, cell in enumerate(root.all("cpu/numa/cell")):
            with self._noting("<cell>"):
                size = memory_bytes(cell.get("memory"), cell.get("unit"))
                cells[number(cell.get("id", str(index)), _MAX_CELL)] = size
        return cells

    def _nodeset(self, element: Element | None) -> frozenset[int]:
        """Host cells that the element binds to; none with placement='auto'."""
        if element is None or not element.get("nodeset"):
            return _NOWHERE
        with self._noting(f"<{element.tag}>"):
            return self._members(element.get("nodeset"))
        return _NOWHERE

    def _members(self, text: str) -> frozenset[int]:
        """A set, read once however often it is written; all of them together are bounded.

        Raises:
            ValueError: as `members`, or the document names too many in different ways.
        """
        if text not in self._sets:
            if self._named > _MAX_NAMED:
                raise ValueError(f"the sets of the document name more than {_MAX_NAMED} members")
            self._named += len(text) + MOST_NAMED  # as much as a set that is refused can cost
            found = self._sets[text] = members(text)
            self._named -= MOST_NAMED - len(found)
        return self._sets[text]

    @contextmanager
    def _noting(self, where: str) -> Generator[None]:
        try:
            yield
        except ValueError as exc:
            self.problems.append(f"{where}: {exc}")
