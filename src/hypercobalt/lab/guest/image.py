"""The guest image: a Debian kernel and two initramfs, built once into a cache outside the checkout.

One has a single program that does what a test asks for (`init.sh`), the other is a small Linux that
a person logs in to (`linux/`).

Nothing is installed: the kernel and busybox come out of Debian's packages, which apt downloads and
checks. The cache is keyed by all that goes in (both packages' checksums, and the sources of this
package), so a new kernel in Debian or a change here builds a new image, and an old image stays for
a month, for the VMs that run on it. A finished image appears in one rename; two builders at once
do no harm.
"""

from __future__ import annotations

import asyncio
import hashlib
import lzma
import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab import commands
from hypercobalt.lab.errors import CommandError, LabError
from hypercobalt.lab.guest import archive, kernel

# The generic kernel: the smaller cloud kernel lacks the i6300esb watchdog.
KERNEL = "linux-image-amd64"
BUSYBOX = "busybox-static"

# In the order they are loaded, each after what it needs.
MODULES = (
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_blk",
    "virtio_console",
    "virtio_balloon",  # libvirt's memory statistics
    "button",
    "evdev",
    "watchdog",
    "i6300esb",
    "pvpanic",
    "pvpanic-mmio",  # the ISA device as well, found by ACPI
)
# Shorter under TCG by two fifths: no self-tests, no tracing, no protection from other users, nor of
# the kernel from itself; no code patched for one CPU, and pages cleared without instructions for
# strings, which are executed word by word.
COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check cryptomgr.notests "
    "random.trust_cpu=on ipv6.disable=1 lsm=none audit=0 "
    "noreplace-smp rodata=off clearcpuid=rep_good "
    "initcall_blacklist=init_kprobe_trace,crypto_kdf108_init"
)

_KEPT = timedelta(days=30)  # longer than the VMs of a lab run; two checkouts have an image each
_DOWNLOAD = timedelta(minutes=5)
_UNPACK = timedelta(minutes=2)
_EXTRACT = """
set -eo pipefail
mkdir "$2"
dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards "${@:3}"
"""
_BUILTIN = "kernel/**/modules.builtin"
_APT_LISTS = Path("/var/lib/apt/lists")
_HERE = Path(__file__).parent
_LINUX = {
    "init": "init",
    "etc/inittab": "inittab",
    "etc/network": "network",
    "etc/lease": "lease",
    "etc/power-button": "power-button",
    "etc/passwd": "passwd",
    "etc/group": "group",
    "etc/issue": "issue",
}
"""Files of the small Linux: their path in it, and their name in `linux/`."""


@dataclass(frozen=True, slots=True)
class Image:
    """A guest that QEMU can start directly.

    Args:
        key: stands for the content; equal keys, equal bytes.
    """

    key: str
    kernel: Path
    initrd: Path

    @property
    def linux(self) -> Path:
        """Initrd of the small Linux that people log in to."""
        return self.initrd.with_name("linux.gz")


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the distribution, as apt would download it."""

    name: str
    file: str
    sha256: str


def cache_directory() -> Path:
    """Where images are kept: `$XDG_CACHE_HOME/hypercobalt/guest`, by default under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hypercobalt" / "guest"


async def ready(cache: Path | None = None) -> Image:
    """The image of today's packages, built if the cache does not have it.

    Raises:
        LabError: a package cannot be downloaded, or its content is not as expected.
    """
    cache = cache or cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    note = _note(cache)
    image = _noted(cache, note)
    if image is None:
        packages = await _packages()
        image = _image(cache, _key(packages))
        if not image.kernel.exists():
            await _build(image, packages)
            await asyncio.to_thread(prune, cache)
        note.write_text(image.key, encoding="ascii")
    for used in (note, image.kernel.parent):
        os.utime(used)
    return image


def prune(cache: Path) -> None:
    """Delete images and notes that were unused for a month, and remains of killed builds."""
    oldest = time.time() - _KEPT.total_seconds()
    for entry in cache.iterdir():
        if entry.stat().st_mtime < oldest:
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _note(cache: Path) -> Path:
    """Where the key stands for as long as apt's lists and our sources are the same.

    Asking apt takes seconds.
    """
    try:
        return cache / f"packages-{_recipe(str(_APT_LISTS.stat().st_mtime_ns))}"
    except OSError as exc:
        raise LabError(
            f"guest: {_APT_LISTS}: {exc.strerror}; the guest is built from Debian's packages"
        ) from exc


def _noted(cache: Path, note: Path) -> Image | None:
    try:
        image = _image(cache, note.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    return image if image.kernel.exists() else None


def _image(cache: Path, key: str) -> Image:
    return Image(key, cache / key / "vmlinux", cache / key / "initrd.gz")


async def _packages() -> tuple[Package, ...]:
    depends = await _apt("apt-cache", "depends", KERNEL)
    found = re.search(r"Depends: (linux-image-\S+)", depends)
    if not found:
        raise LabError(f"guest: apt has no kernel behind {KERNEL}; run `apt-get update`")
    names = (found[1], BUSYBOX)
    uris = await _apt("apt-get", "download", "--print-uris", *names)
    return parse_uris(names, uris)


def parse_uris(names: tuple[str, ...], printed: str) -> tuple[Package, ...]:
    """The packages of `names` in what `apt-get download --print-uris` prints.

    Raises:
        LabError: one is missing.
    """
    lines = re.findall(r"^'\S+' (\S+) \d+ SHA256:([0-9a-f]{64})$", printed, re.MULTILINE)
    packages: list[Package] = []
    for name in names:
        file, sha256 = next((line for line in lines if line[0].startswith(f"{name}_")), ("", ""))
        if not file:
            raise LabError(f"guest: apt cannot download {name}; run `apt-get update`")
        packages.append(Package(name, file, sha256))
    return tuple(packages)


async def _apt(*argv: str, within: timedelta = commands.DEADLINE) -> str:
    try:
        return await commands.run(*argv, within=within, env={**os.environ, "LC_ALL": "C"})
    except CommandError as exc:
        raise LabError(f"guest: no Debian package to build from: {exc}") from exc


def _key(packages: tuple[Package, ...]) -> str:
    return _recipe(*(f"{package.file} {package.sha256}" for package in packages))


def _recipe(*inputs: str) -> str:
    """Stands for our own sources and what else goes in."""
    digest = hashlib.sha256("\n".join(inputs).encode())
    linux = (f"linux/{name}" for name in _LINUX.values())
    for source in ("archive.py", "image.py", "init.sh", "kernel.py", *linux):
        digest.update((_HERE / source).read_bytes())
    return digest.hexdigest()[:16]


async def _build(image: Image, packages: tuple[Package, ...]) -> None:
    final = image.kernel.parent
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=".building-") as name:
        work = Path(name)
        kernel_package, busybox_package = packages
        await _apt(
            *("env", f"--chdir={work}", "apt-get", "download", "--quiet"),
            *(package.name for package in packages),
            within=_DOWNLOAD,
        )
        wanted = ["*/modules.builtin", *(f"*/{module}.ko*" for module in MODULES)]
        await _extract(work / kernel_package.file, work / "kernel", "./boot/vmlinuz-*", *wanted)
        await _extract(work / busybox_package.file, work / "busybox", "*/bin/busybox")
        made = work / "image"
        await asyncio.to_thread(_assemble, work, made)
        try:
            made.rename(final)
        except OSError as exc:
            if not image.kernel.exists():  # else a second builder was faster: its image is the same
                raise LabError(f"guest: the image cannot be put at {final}: {exc}") from exc


async def _extract(package: Path, target: Path, *patterns: str) -> None:
    argv = ("bash", "-c", _EXTRACT, "extract", str(package), str(target), *patterns)
    await commands.run(*argv, within=_UNPACK)


def _assemble(work: Path, made: Path) -> None:
    made.mkdir()
    (made / "vmlinux").write_bytes(
        kernel.startable(_only(work, "kernel/boot/vmlinuz-*").read_bytes())
    )
    system = _system(work)
    (made / "initrd.gz").write_bytes(archive.initramfs([*system, *_obedient()]))
    (made / "linux.gz").write_bytes(archive.initramfs([*system, *_linux()]))


def _system(work: Path) -> list[archive.ArchiveEntry]:
    """Busybox, modules and mount points."""
    builtin = {Path(line).stem for line in _only(work, _BUILTIN).read_text().split()}
    modules = {name: _module(work, name) for name in MODULES if name not in builtin}
    order = "".join(f"{name}.ko\n" for name in modules).encode()
    busybox = _only(work, "busybox/**/bin/busybox").read_bytes()
    return [
        *(archive.directory(path) for path in ("bin", "dev", "modules", "proc", "sys")),
        archive.file("bin/busybox", busybox, executable=True),
        archive.file("modules/order", order),
        *(archive.file(f"modules/{name}.ko", data) for name, data in modules.items()),
    ]


def _obedient() -> list[archive.ArchiveEntry]:
    return [archive.file("init", (_HERE / "init.sh").read_bytes(), executable=True)]


def _linux() -> list[archive.ArchiveEntry]:
    texts = {path: (_HERE / "linux" / name).read_bytes() for path, name in _LINUX.items()}
    return [
        *(archive.directory(path) for path in ("etc", "root", "www")),
        *(archive.file(path, text, executable=text[:2] == b"#!") for path, text in texts.items()),
    ]


def _module(work: Path, name: str) -> bytes:
    path = _only(work, f"kernel/**/{name}.ko*")
    data = path.read_bytes()
    return kernel.bare(lzma.decompress(data) if path.suffix == ".xz" else data)


def _only(work: Path, pattern: str) -> Path:
    found = [path for path in work.glob(pattern) if path.is_file()]
    if len(found) != 1:
        raise LabError(
            f"guest: the packages hold {len(found)} files like {pattern}, not one; "
            "the guest is built from Debian 12's or later"
        )
    return found[0]
