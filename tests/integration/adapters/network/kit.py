"""Network namespaces of a test, and programs in them."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

PYTHON = "/usr/bin/python3"


async def run(namespace: Path | None, *argv: str) -> str:
    """What a program prints that succeeds in a namespace."""
    inside = ("nsenter", f"--net={namespace}") if namespace else ()
    process = await asyncio.create_subprocess_exec(
        *inside, *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, problems = await process.communicate()
    assert process.returncode == 0, (argv, problems.decode())
    return out.decode()


async def links(namespace: Path) -> dict[str, dict[str, object]]:
    text = await run(namespace, "ip", "-json", "-details", "address", "show")
    return {one["ifname"]: one for one in json.loads(text)}


async def fresh(stack: AsyncExitStack) -> Path:
    """A new namespace, for as long as the stack."""
    name = f"test-{uuid4().hex[:12]}"
    await run(None, "ip", "netns", "add", name)
    stack.push_async_callback(run, None, "ip", "netns", "delete", name)
    path = Path("/run/netns") / name
    await run(path, "ip", "link", "set", "lo", "up")
    return path


async def cable(one: Path, name: str, other: Path, peer: str, *options: str) -> None:
    """A veth pair between two namespaces; `options` are of the second end."""
    pair = ("ip", "link", "add", name, "type", "veth", "peer", "name", peer, *options)
    await run(one, *pair, "netns", str(other))
    await run(one, "ip", "link", "set", name, "up")
    await run(other, "ip", "link", "set", peer, "up")


_SERVER = """
import socket, sys
kind = socket.SOCK_STREAM if sys.argv[1] == "tcp" else socket.SOCK_DGRAM
server = socket.socket(socket.AF_INET, kind)
server.bind(("0.0.0.0", int(sys.argv[2])))
if kind == socket.SOCK_STREAM:
    server.listen()
print("ready", flush=True)
while True:
    if kind == socket.SOCK_STREAM:
        end, peer = server.accept()
        end.sendall(peer[0].encode())
        end.close()
    else:
        _, peer = server.recvfrom(100)
        server.sendto(peer[0].encode(), peer)
"""
_CLIENT = """
import socket, sys
kind = socket.SOCK_STREAM if sys.argv[1] == "tcp" else socket.SOCK_DGRAM
client = socket.socket(socket.AF_INET, kind)
client.settimeout(float(sys.argv[4]))
try:
    client.connect((sys.argv[2], int(sys.argv[3])))
    client.send(b"?")
    print(client.recv(100).decode())
except OSError as error:
    print(type(error).__name__)
"""


async def serve(stack: AsyncExitStack, namespace: Path, protocol: str, port: int) -> None:
    """Answer each client with the address that it is seen under."""
    process = await asyncio.create_subprocess_exec(
        *("nsenter", f"--net={namespace}", PYTHON, "-c", _SERVER, protocol, str(port)),
        stdout=asyncio.subprocess.PIPE,
    )
    await _ready(stack, process)


async def hold(stack: AsyncExitStack, namespace: Path) -> int:
    """Have a process in a namespace, which so outlives its name."""
    process = await asyncio.create_subprocess_exec(
        *("nsenter", f"--net={namespace}", "sh", "-c", "echo ready; exec sleep infinity"),
        stdout=asyncio.subprocess.PIPE,
    )
    await _ready(stack, process)
    return process.pid


async def _ready(stack: AsyncExitStack, process: asyncio.subprocess.Process) -> None:
    async def end() -> None:
        process.kill()
        await process.wait()

    stack.push_async_callback(end)
    assert process.stdout
    assert (await process.stdout.readline()).strip() == b"ready"


async def ask(namespace: Path, protocol: str, address: str, port: int, within: float = 10) -> str:
    """The address that a server has seen, or the name of the error."""
    argv = (PYTHON, "-c", _CLIENT, protocol, address, str(port), str(within))
    return (await run(namespace, *argv)).strip()
