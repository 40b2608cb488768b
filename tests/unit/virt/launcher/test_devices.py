"""What is shown of a running domain is read from its document."""

from __future__ import annotations

import pytest

from hypercobalt.virt.launcher.devices import RunningDevices, running_devices
from hypercobalt.virt.wire.messages import DomainInterface

DOCUMENT = """
<domain type='qemu' id='1'><name>lab_guest</name>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
  <devices>
    <interface type='ethernet'><mac address='02:00:00:00:00:01'/><target dev='tap0'/>
      <alias name='ua-default'/></interface>
    <interface type='ethernet'/>
  </devices>
</domain>"""


def test_machine_and_interfaces_are_shown() -> None:
    assert running_devices(DOCUMENT) == RunningDevices(
        "pc-q35-7.2",
        emulated=True,
        interfaces=(DomainInterface("default", "02:00:00:00:00:01", "tap0"), DomainInterface()),
    )
    assert not running_devices(DOCUMENT.replace("'qemu'", "'kvm'")).emulated


@pytest.mark.parametrize(
    "document", ["", "<domain", "<pool/>", "<domain/>", "<!DOCTYPE a><domain/>"]
)
def test_document_that_cannot_be_read_shows_nothing(document: str) -> None:
    assert running_devices(document) == RunningDevices()
