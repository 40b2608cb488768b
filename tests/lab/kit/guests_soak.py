"""Instances that are created, deleted and struck at random, by a seed, with who serves them.

Each strike has one outcome. A guest that nothing has struck runs on in its one QEMU; one that has
lost its QEMU or its launcher has failed, and is never started again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from hypercobalt.drills.witness import emulators
from hypercobalt.lab import processes
from hypercobalt.lab.control import ROLE as API_SERVER
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.pods.actors import CONTROLLER, SCHEDULER
from hypercobalt.lab.pods.running.settings import HANDLER, SERVICE
from tests.lab.kit.guests import Guests, guest

ACTS: Final = {
    "create": 10,
    "delete": 4,
    "crash QEMU": 2,
    "kill launcher": 2,
    f"kill {HANDLER}": 2,
    f"kill {SERVICE}": 2,
    f"kill {CONTROLLER}": 2,
    f"kill {SCHEDULER}": 1,
    f"kill {API_SERVER}": 1,
}
"""What is done, and how often beside the others."""
_LONGEST: Final = 1.0
"""Seconds between two acts, at most: kills come at any moment of a start or an end."""
_LOOK: Final = 0.2
_FINISH: Final = 120.0
_LAST: Final = {"Succeeded", "Failed"}


@dataclass
class Soak:
    """See the module.

    Args:
        guests: of the host.
        seed: of the plan.
        most: instances at one time.

    Attributes:
        done: how often each act was done.
        struck: instances that lost QEMU or launcher.
        processes: of each instance's QEMU, by its UUID in libvirt.
    """

    guests: Guests
    seed: str
    most: int
    done: Counter[str] = field(default_factory=Counter[str])
    struck: set[str] = field(default_factory=set[str])
    deleted: set[str] = field(default_factory=set[str])
    created: list[str] = field(default_factory=list[str])
    processes: defaultdict[str, set[int]] = field(
        default_factory=lambda: defaultdict[str, set[int]](set)
    )

    @property
    def living(self) -> list[str]:
        """Instances that nothing has ended."""
        return [one for one in self.created if one not in self.struck | self.deleted]

    async def play(self, seconds: float) -> None:
        """Act at random, then see that each instance is as it has to be."""
        watching = asyncio.create_task(self._watch(), name="emulators")
        chance = random.Random(self.seed)  # noqa: S311  no secret
        end = monotonic() + seconds
        try:
            for _ in range(self.most // 2):
                await self._create(chance)
            while monotonic() < end:
                await self._act(chance)
                await asyncio.sleep(chance.uniform(0, _LONGEST))  # a moment of the plan
            await self._finish()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        twice = {uuid: pids for uuid, pids in self.processes.items() if len(pids) > 1}
        assert not twice, f"guests that ran in more than one QEMU: {twice}"

    async def _act(self, chance: random.Random) -> None:
        (act,) = chance.choices(list(ACTS), list(ACTS.values()))
        living = self.living
        if act == "create":
            if len(self.created) - len(self.deleted) >= self.most:
                act = "delete"
            else:
                await self._create(chance)
        if act == "delete":
            left = [one for one in self.created if one not in self.deleted]
            if not left:
                return
            name = chance.choice(left)
            self.deleted.add(name)
            await self.guests.delete(name)
        elif act == "crash QEMU":
            if not living or not await self._strike(chance.choice(living), launcher=False):
                return
        elif act == "kill launcher":
            if not living or not await self._strike(chance.choice(living), launcher=True):
                return
        elif act.startswith("kill "):
            await self._kill(act.removeprefix("kill "))
        self.done[act] += 1

    async def _create(self, chance: random.Random) -> None:
        name = f"soak-{len(self.created)}"
        self.created.append(name)
        sent = guest(name, chance.choice(("idle", "obey")), grace=chance.choice((0, 1, 2)))
        await self.guests.create(sent)

    async def _strike(self, name: str, *, launcher: bool) -> bool:
        """Kill a QEMU or a launcher, if it is there; whether it was."""
        guests = self.guests
        if launcher:
            vmi = guests.last.get(name)
            if vmi is None or not vmi.status.activePods:
                return False
            try:
                await guests.kill_launcher(name)
            except LabError:
                return False  # no unit yet
        else:
            found = await guests.emulators(name)
            # One that is starting has run nothing yet: it is started again, in another process.
            if not found or guests.last[name].status.phase != "Running":
                return False
            with suppress(LabError):
                await guests.host.run("kill", "-9", *found)
        self.struck.add(name)
        return True

    async def _kill(self, what: str) -> None:
        lab = self.guests.lab
        if what in {HANDLER, SERVICE}:
            await self.guests.kill(what)  # systemd starts it again
            return
        await processes.kill(lab.state.id, lambda one: one.role == what)
        await lab.control.start()
        await lab.actors.start()

    async def _finish(self) -> None:
        guests = self.guests
        await guests.are_gone(*self.deleted, within=_FINISH)
        for name in self.struck - self.deleted:
            assert await guests.ended(name, _FINISH) == "Failed", name
        for name in self.living:
            vmi = await guests.until(
                name, lambda vmi: vmi.status.phase in {"Running", *_LAST}, _FINISH
            )
            assert vmi.status.phase == "Running", f"{name} was not struck: {vmi.status}"
            assert len(await guests.emulators(name)) == 1, name

    async def _watch(self) -> None:
        prefix = self.guests.lab.state.prefix
        while True:
            for one in await asyncio.to_thread(lambda: tuple(emulators(prefix))):
                self.processes[one.uuid].add(one.pid)
            await asyncio.sleep(_LOOK)  # the kernel reports no new process
