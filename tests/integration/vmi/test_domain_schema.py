"""libvirt takes our documents: it parses each one, and its schema has nothing against it.

With libvirt's test driver, which runs in virsh itself: no daemon, no guest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.vmi.recordings import Recording, honoured

from hypercobalt.vmi.domain import DomainContext, Tap, document

pytestmark = pytest.mark.skipif(
    shutil.which("virsh") is None and os.environ.get("CI") != "true",
    reason="needs virsh: make prepare",
)

TAP = Tap(device="tap0", mac="02:00:00:00:00:01", mtu=1450)
CONTEXT = DomainContext(taps={"default": TAP, "front": TAP, "pod-net": TAP})
REFUSED = {
    "8e4d29a0463ba1b4": "discard_granularity, which libvirt 9 does not know",
    "946b0a347d6cd85d": "a PCI slot 0x20, which KubeVirt passes on",
    "f489dcd77075a52f": "a time zone <x>, which KubeVirt passes on",
}
"""Recordings that libvirt refuses, and what for: so it does with KubeVirt's own documents."""


def defined(one: Recording, folder: Path) -> str:
    """The command of virsh that defines a domain of the document, validated."""
    vmi = one.typed
    named = replace(vmi, metadata=replace(vmi.metadata, name=one.id))  # some have one name
    xml = document(named, CONTEXT)
    path = folder / f"{one.id}.xml"
    path.write_text(xml.replace('<domain type="kvm"', '<domain type="test"', 1))
    return f"define --validate {path}"


def virsh(commands: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["virsh", "--connect", "test:///default", ";".join(commands)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def test_libvirt_takes_every_document_of_honoured_vmis(tmp_path: Path) -> None:
    taken = [one for one in honoured() if one.xml is not None and one.id not in REFUSED]
    result = virsh([defined(one, tmp_path) for one in taken])
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(" defined from ") == len(taken)


@pytest.mark.parametrize("id_", REFUSED)
def test_libvirt_names_what_it_refuses(id_: str, tmp_path: Path) -> None:
    found = next((one for one in honoured() if one.id == id_), None)
    assert found is not None
    result = virsh([defined(found, tmp_path)])
    assert result.returncode != 0
    assert "failed to validate against schema" in result.stderr
