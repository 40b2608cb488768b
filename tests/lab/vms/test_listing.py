"""What a host lists while its domains come and go."""

from __future__ import annotations

import asyncio

import pytest

from hypercobalt.lab.vms import virsh
from tests.lab.conftest import TakeHosts

pytestmark = pytest.mark.timeout(120)

# Defines and undefines domains until its stdin ends.
CHURN = """
import libvirt, select, sys
libvirt.registerErrorHandler(lambda *_: None, None)
connection = libvirt.open("qemu:///system")
xml = ("<domain type='qemu'><name>churn-{}</name><memory unit='MiB'>16</memory>"
       "<os><type arch='x86_64'>hvm</type></os></domain>")
while not select.select([sys.stdin], [], [], 0)[0]:
    for domain in [connection.defineXML(xml.format(n)) for n in range(5)]:
        domain.undefine()
"""


async def test_host_lists_its_vms_while_domains_are_undefined(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    churn = await asyncio.create_subprocess_exec(
        *host.entering("/usr/bin/python3", "-c", CHURN), stdin=asyncio.subprocess.PIPE
    )
    try:
        answers = [await virsh.listed(host) for _ in range(25)]  # one in five failed
    finally:
        assert churn.stdin is not None
        churn.stdin.close()
        async with asyncio.timeout(20):
            assert await churn.wait() == 0

    assert [answer for answer in answers if isinstance(answer, str)] == []
