"""Domains that stand for instances, defined and started on a host."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

from hypercobalt.lab.host import Host

LONG = timedelta(minutes=3)
DOMAIN = """<domain type='qemu'><name>{name}</name>{uuid}<memory unit='{unit}'>{memory}</memory>
<vcpu>{vcpus}</vcpu>{extra}<os><type arch='x86_64'>hvm</type></os></domain>"""
# In the host, on libvirt's own calls: a process for each domain would take minutes.
MAKE = """
import json, sys, libvirt
told = json.load(sys.stdin)
connection = libvirt.open("qemu:///system")
for document in told["documents"]:
    (connection.createXML if told["start"] else connection.defineXML)(document)
"""


def document(
    name: str,
    *,
    memory: int = 16,
    unit: str = "MiB",
    vcpus: int = 1,
    extra: str = "",
    uuid: str = "",
) -> str:
    return DOMAIN.format(name=name, memory=memory, unit=unit, vcpus=vcpus, extra=extra, uuid=uuid)


async def make(host: Host, *documents: str, start: bool) -> None:
    told = json.dumps({"documents": documents, "start": start})
    await host.run(sys.executable, "-c", MAKE, stdin=told, within=LONG)


async def undefine(host: Host, *names: str) -> None:
    text = "; ".join(f"undefine {name}" for name in names)
    await host.run("virsh", "-q", text, within=LONG)
