"""Domain documents as a captured host would make them: each part well-formed XML, none of it meant.

Everything follows from the seed, so a document that was too much can be made again.
"""

from __future__ import annotations

import random
from collections.abc import Callable

LARGEST = 4 * 1024**2  # bytes; libvirt carries no longer text
_MEMORY = "<memory unit='KiB'>1048576</memory>"


def document(seed: int) -> bytes:
    """A document of 256 bytes to a little over 4 MiB, small ones as often as large ones."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    size = int(2 ** chance.uniform(8, 22))
    count = chance.choice([1, 1, 2, 4])
    parts = [part(chance, size // count) for part in chance.choices(_PARTS, k=count)]
    chance.shuffle(parts)
    text = f"<domain>{_MEMORY}<vcpu>{chance.choice([1, 64, 16384])}</vcpu>{''.join(parts)}</domain>"
    if chance.random() < 0.05:
        text = f"<!DOCTYPE domain [<!ENTITY a '{'b' * (size // 2)}'>]>{text}"
    data = bytearray(text.encode())
    for _ in range(chance.choice([0, 0, 0, 1, 20])):
        data[chance.randrange(len(data))] = chance.choice(b"\x00\xff<>&'\"/ 0-,^]")
    return bytes(data[: chance.choice([None, None, None, len(data) // 2])])


def _repeated(make: Callable[[int], str], size: int) -> str:
    """Repeat a part until the size is filled."""
    return "".join(make(number) for number in range(max(1, size // len(make(size)))))


def _set(chance: random.Random, size: int) -> str:
    """A set of CPUs or cells, up to `size` characters long."""
    low = chance.randrange(16384)
    item = chance.choice([f"{low}", "0-16383", f"^{low}", f"{low}-{low + 60}", "0-3,^2", "16384"])
    return ",".join([item] * max(1, min(size, chance.choice([1, 60, 70_000])) // (len(item) + 1)))


def _attributes(chance: random.Random, size: int) -> str:
    tag = chance.choice(["cpu", "devices", "x"])
    filler = "a" * chance.choice([0, 8, 60_000])
    attributes = _repeated(lambda n: f"a{n}='{filler}' ", size)
    return f"<{tag} {attributes}/>"


def _elements(chance: random.Random, size: int) -> str:
    tag, child = (
        chance.choice(["cpu", "devices", "os", "x"]),
        chance.choice(["<a/>", "<a b='c'>d</a>"]),
    )
    return f"<{tag}>{_repeated(lambda _: child, size)}</{tag}>"


def _depth(chance: random.Random, size: int) -> str:
    tag, deep = chance.choice(["cpu", "x"]), min(chance.choice([50, 5000]), size // 7 + 1)
    return f"<{tag}>{'<a>' * deep}{'</a>' * deep}</{tag}>"


def _pins(chance: random.Random, size: int) -> str:
    one, different = _set(chance, size // 4), chance.choice([1, 99])

    def pin(number: int) -> str:
        return f"<vcpupin vcpu='{number % 16400}' cpuset='{one},^{number % different}'/>"

    return f"<cputune>{_repeated(pin, size)}</cputune>"


def _cells(chance: random.Random, size: int) -> str:
    ids = chance.choice([1, 1024, 5000])
    nodes = _repeated(lambda n: f"<memnode cellid='{n % ids}' nodeset='0-{n % 16384}'/>", size // 2)
    cells = _repeated(lambda n: f"<cell id='{n % ids}' memory='{n}' unit='KiB'/>", size // 2)
    everywhere = f"<memory nodeset='{_set(chance, size // 4)}'/>"
    return f"<numatune>{everywhere}{nodes}</numatune><cpu><numa>{cells}</numa></cpu>"


def _devices(chance: random.Random, size: int) -> str:
    kinds = [
        "<disk><source file='/a'/><target dev='vda'/></disk>",
        "<hostdev type='pci'><source><address bus='0x1' slot='0x2'/></source></hostdev>",
        "<interface type='hostdev'><source><address bus='0x1'/></source></interface>",
        "<interface><virtualport type='openvswitch'><parameters interfaceid='a'/></virtualport>"
        "</interface>",
        "<tpm><backend type='emulator'/></tpm>",
        "<filesystem><target dir='a'/></filesystem>",
    ]
    kind = chance.choice(kinds)
    return f"<devices>{_repeated(lambda _: kind, size)}</devices>"


def _text(chance: random.Random, size: int) -> str:
    tag = chance.choice(["memory", "os", "x"])
    piece = chance.choice(["1", "1\n", "&#49;", "&amp;", "<!---->", "<?a?>", "<![CDATA[a]]>", "é"])
    return f"<{tag}>{_repeated(lambda _: piece, size)}</{tag}>"


def _names(chance: random.Random, size: int) -> str:
    tag = chance.choice(["cpu", "x"])
    names = chance.choice(
        [
            _repeated(lambda n: f"<a xmlns:b{n}='c'/>", size),
            _repeated(lambda n: f"<a{n}/>", size),
            f"<{'a' * size}/>",
        ]
    )
    return f"<{tag}>{names}</{tag}>"


_PARTS: tuple[Callable[[random.Random, int], str], ...] = (
    _attributes,
    _elements,
    _depth,
    _pins,
    _cells,
    _devices,
    _text,
    _names,
)
