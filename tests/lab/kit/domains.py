"""Domains that stand for instances, defined and started on a host."""

from __future__ import annotations

from datetime import timedelta

from hypercobalt.lab.host import Host

LONG = timedelta(minutes=3)
DOMAIN = """<domain type='qemu'><name>{name}</name>{uuid}<memory unit='{unit}'>{memory}</memory>
<vcpu>{vcpus}</vcpu>{extra}<os><type arch='x86_64'>hvm</type></os></domain>"""
# In the host, by one virsh: a process for each domain would take minutes.
MAKE = """
set -e
directory=$(mktemp -d); cd "$directory"; commands=; n=0
while IFS= read -r -d "" document; do
  printf %s "$document" >$n; commands+="$1 $directory/$n;"; n=$((n + 1))
done
virsh -q "$commands"
rm -r "$directory"
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
    command = "create" if start else "define"
    given = "".join(f"{document}\0" for document in documents)
    await host.run("bash", "-c", MAKE, "make", command, stdin=given, within=LONG)


async def undefine(host: Host, *names: str) -> None:
    text = "; ".join(f"undefine {name}" for name in names)
    await host.run("virsh", "-q", text, within=LONG)
