"""What a host's node agent reports, and the agent as a service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import asdict

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.lab.agents import NODE_AGENT
from hypercobalt.lab.host import Host
from hypercobalt.runtime import Kube
from tests.following import follow
from tests.lab.kit.system import DEADLINE

SOCKETS = tuple(f"libvirtd{kind}.socket" for kind in ("", "-ro", "-admin", "-tcp"))


async def until(
    api: Kube, host: Host, good: Callable[[Hypervisor], bool], deadline: float = DEADLINE
) -> Hypervisor:
    """Follow the host's object until it is as wanted."""
    return await follow(api, Hypervisor, host.name, good, seconds=deadline)


def condition(of: Hypervisor, type_: str) -> Condition:
    found = get_condition(of.status.conditions, type_)
    assert found, type_
    return found


async def main_pid(host: Host) -> str:
    return (
        await host.run("systemctl", "show", "--property=MainPID", "--value", NODE_AGENT)
    ).strip()


def connection_is(status: str, *reasons: str) -> Callable[[Hypervisor], bool]:
    def good(hypervisor: Hypervisor) -> bool:
        found = get_condition(hypervisor.conditions, "LibVirtConnection")
        return (
            found is not None
            and found.status == status
            and (not reasons or found.reason in reasons)
        )

    return good


def instances(count: int) -> Callable[[Hypervisor], bool]:
    return lambda hypervisor: hypervisor.status.numInstances == count


async def ready(api: Kube, host: Host) -> None:
    """Wait for the first status of an empty host; a failure has the log of the agent."""
    connected = connection_is("True")
    try:
        await until(api, host, lambda hv: connected(hv) and hv.status.numInstances == 0)
    except AssertionError as error:
        printed = await host.run("journalctl", "--no-pager", "--lines=40", f"--unit={NODE_AGENT}")
        raise AssertionError(f"{error}\n{printed}") from None


async def writes(api: Kube, host: Host, *, seconds: float) -> list[str]:
    """Each change of the host's object within so many seconds: by whom, and of what."""
    found, last = list[str](), None
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(seconds),
            api.watch(Hypervisor, fields=f"metadata.name={host.name}") as events,
        ):
            async for event in events:
                if last and event.object:
                    found.append(_change(last, event.object))
                last = event.object or last
    return found


def _change(old: Hypervisor, new: Hypervisor) -> str:
    newest = max(one.time for one in new.metadata.managedFields if one.time)
    writers = {one.manager for one in new.metadata.managedFields if one.time == newest}
    before, now = asdict(old.status), asdict(new.status)
    changed = {name: (before[name], value) for name, value in now.items() if before[name] != value}
    return f"{newest:%H:%M:%S} {sorted(writers)}: {changed or 'nothing in the status'}"


async def kill_agent(host: Host) -> None:
    await host.run("systemctl", "kill", "--signal=KILL", NODE_AGENT)
