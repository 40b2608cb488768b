"""`cobalt lab host`, `net` and `bmc`: add, break, repair and remove hosts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from hypercobalt.cli import lab_screen as screen
from hypercobalt.cli.lab_command import HERE, Data, Name, changing, run
from hypercobalt.lab import kubelet
from hypercobalt.lab.bmc.faults import BoardFault
from hypercobalt.lab.errors import LabRequestError
from hypercobalt.lab.heartbeat import Trouble
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.membership import add_host
from hypercobalt.lab.vms.fleet import Fleet

hosts_app = App(name="host", help="Add, break, repair and remove hosts.")
net_app = App(name="net", help="Break and repair the network of a host.")
bmc_app = App(name="bmc", help="Break and repair the BMC of a host.")


def _on(data: Path, name: str, act: Callable[[Host], Awaitable[None] | None], done: str) -> int:
    async def work() -> int:
        waiting = act(Lab.find(data).host(name))
        if waiting is not None:
            await waiting
        screen.show(done)
        return 0

    return run(work())


@hosts_app.command
def add(name: Name | None = None, /, *, data: Data = HERE) -> int:
    """Boot one host more; without a name it is the next free kvm-N."""

    async def work() -> int:
        with changing(data), screen.progress() as report:
            added = await add_host(Lab.find(data, report), name)
        screen.show(f"host {added.name} is up on {added.address}")
        return 0

    return run(work())


@hosts_app.command
def remove(name: Name, /, *, data: Data = HERE) -> int:
    """Cut a host's power and throw it away, with its objects and its VMs."""

    async def work() -> int:
        with changing(data):
            await Fleet(Lab.find(data)).remove_host(name)
        screen.show(f"host {name} is removed")
        return 0

    return run(work())


@hosts_app.command
def start(name: Name, /, *, data: Data = HERE) -> int:
    """Boot a host that is off, from its disk as it was left."""

    async def work() -> int:
        with changing(data), screen.progress() as report:
            lab = Lab.find(data, report)
            await lab.up_host(lab.host(name))
        screen.show(f"host {name} is up")
        return 0

    return run(work())


@hosts_app.command
def shutdown(name: Name, /, *, data: Data = HERE) -> int:
    """Power a host off in order: inhibitors count, services are stopped."""
    return _on(data, name, Host.shutdown, f"host {name} is off")


@hosts_app.command
def crash(name: Name, /, *, data: Data = HERE) -> int:
    """Cut the power of a host: all of its processes end at once, its guests too."""
    done = f"host {name} is off; `cobalt lab host start {name}` boots it again"
    return _on(data, name, Host.crash, done)


@hosts_app.command
def freeze(name: Name, /, *, data: Data = HERE) -> int:
    """Stop every process of a host, its guests too, so that it hangs."""
    done = f"host {name} hangs; `cobalt lab host thaw {name}` continues it"
    return _on(data, name, Host.freeze, done)


@hosts_app.command
def thaw(name: Name, /, *, data: Data = HERE) -> int:
    """Continue every process of a frozen host."""
    return _on(data, name, Host.thaw, f"host {name} runs again")


@hosts_app.command
def report(name: Name, troubles: tuple[Trouble, ...] = (), /, *, data: Data = HERE) -> int:
    """Let a host's kubelet report exactly these troubles; without any, a healthy host.

    Parameters
    ----------
    name
        Name of the host.
    troubles
        `memory`, `disk`, `pid`: pressure; `not-ready`: Ready=False.
    data
        Directory of the lab.
    """
    done = f"kubelet of {name} reports: {', '.join(troubles) or 'no trouble'}"
    return _on(data, name, lambda host: kubelet.report(host, troubles), done)


@net_app.command
def cut(name: Name, /, *, data: Data = HERE) -> int:
    """Pull all cables of a host: management network and bond."""
    done = f"host {name} is cut off; `cobalt lab net restore {name}` puts its cables back"
    return _on(data, name, lambda host: host.wire.cut(), done)


@net_app.command
def restore(name: Name, /, *, data: Data = HERE) -> int:
    """Put a host's cables back, without delay and loss; a broken bond stays as it is."""
    return _on(data, name, lambda host: host.wire.restore(), f"host {name} is connected")


@net_app.command
def delay(
    name: Name,
    milliseconds: Annotated[float, Parameter(help="Each way.")] = 50,
    /,
    *,
    loss: Annotated[float, Parameter(help="Percentage of frames lost, each way.")] = 0,
    data: Data = HERE,
) -> int:
    """Make a host's management network slow, and lossy if wanted."""
    done = f"host {name}: {milliseconds:g} ms and {loss:g} % loss each way"

    def worsen(host: Host) -> Awaitable[None]:
        try:
            late = timedelta(milliseconds=milliseconds)
        except (ValueError, OverflowError) as exc:
            raise LabRequestError(
                f"a cable's delay is 0 to 10000 ms, not {milliseconds:g} ms"
            ) from exc
        return host.wire.worsen(delay=late, loss_percent=loss)

    return _on(data, name, worsen, done)


@bmc_app.command
def fault(name: Name, kind: BoardFault, /, *, data: Data = HERE) -> int:
    """Have the BMC of a host fail in a way of your choice, or work again.

    Parameters
    ----------
    name
        Name of the host.
    kind
        `none`; `slow`: answers late; `conflict`: refuses orders; `denied`: has another password;
        `dead`: is silent; `dead-with-power`: is silent while the host is off; `lying`: reports Off
        and switches nothing.
    data
        Directory of the lab.
    """

    async def work() -> int:
        Lab.find(data).boards.fault(name).write(kind)
        screen.show(f"BMC of {name}: {kind}")
        return 0

    return run(work())
