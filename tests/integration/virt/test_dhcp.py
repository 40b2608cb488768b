"""DHCP over a real bridge: a client in a namespace of its own, a server without any rights."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="it needs root and unshare"
)
_SCRIPT = """
set -e
python=$1 server=$2 client=$3 home=$4
ip link add k6t-eth0 address 02:00:00:00:00:00 type bridge
ip addr add 10.0.2.1/24 dev k6t-eth0
ip link set k6t-eth0 up
echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
unshare --net sleep 60 &
guest=$!
until [ "$(readlink /proc/$guest/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add tap0 type veth peer name eth0 address 02:00:00:00:00:01 netns $guest
ip link set tap0 master k6t-eth0 up
nsenter -t $guest -n ip link set eth0 up
mount --bind $home /mnt
mount -t tmpfs -o mode=755 tmpfs /root
case $home in /root/*) mkdir -p $home; mount --bind /mnt $home;; esac
coproc setpriv --reuid=107 --regid=107 --clear-groups --bounding-set=-all --inh-caps=-all \
  $python -c "$server"
read -r ready <&${COPROC[0]}
nsenter -t $guest -n $python -c "$client"
kill $COPROC_PID $guest
"""
_SERVER = """
import asyncio
from hypercobalt.virt.launcher.dhcp import DhcpServers
from hypercobalt.virt.wire.messages import DhcpOffer, TapDevice

async def main():
    offer = DhcpOffer("k6t-eth0", "10.0.2.2/24", "10.0.2.1", "10.0.2.1", ("192.0.2.53",), "guest")
    servers, tap = DhcpServers(), TapDevice("tap0", "02:00:00:00:00:01", 1450, offer)
    for _ in range(2):
        await servers.serve({"default": tap})
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
_CLIENT = """
import socket, struct
mac, cookie = bytes.fromhex("020000000001"), bytes((99, 130, 83, 99))

def ask(kind):
    head = struct.pack(">BBBBIHH16s16s", 1, 1, 6, 0, 77, 0, 0x8000, bytes(16), mac)
    link.sendto(head + bytes(192) + cookie + bytes((53, 1, kind, 255)), ("255.255.255.255", 67))
    return link.recv(2048)

link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
link.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
link.bind(("", 68))
link.settimeout(20)
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
frames.bind(("eth0", 0))
frames.settimeout(20)
for garbage in (b"", b"x", bytes(300)):
    link.sendto(garbage, ("255.255.255.255", 67))
for kind, told in ((1, 2), (3, 5)):
    reply = ask(kind)
    assert (reply[16:20], reply[242]) == (bytes((10, 0, 2, 2)), told), reply
# A client that reads frames, before the card has filled in a sum, checks the sum itself.
while (frame := frames.recv(2048))[23] != 17 or frame[34:36] != bytes((0, 67)):
    pass
assert frame[40:42] == bytes(2), frame[40:42]
print("leased")
"""


def test_guest_gets_its_address_from_a_server_without_rights() -> None:
    home = os.path.realpath(sys.executable).rsplit("/", 2)[0]
    room = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    done = subprocess.run(
        [*room, "bash", "-c", _SCRIPT, "dhcp", sys.executable, _SERVER, _CLIENT, home],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.stdout == "leased\n", done.stderr
