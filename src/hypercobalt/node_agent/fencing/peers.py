"""Probes other hosts from this one for the operator, and reports which programs answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from hypercobalt.adapters.libvirt.greeting import greet
from hypercobalt.agent.text import clean
from hypercobalt.api.addresses import parse_host_address
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import PeerReport
from hypercobalt.api.peers import PeerProbe, probes
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.fencing.signs import greet_page
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Clock
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

ANSWER: Final = timedelta(seconds=3)
"""How long the programs of a host may take."""

_LONGEST: Final = 253  # characters of a Hypervisor's name
_LONGEST_REQUEST: Final = 128  # characters, of the schema

Check = Callable[[str], Awaitable[None]]
"""Has a program at an address answer; OSError or EOFError when it does not."""


def programs(agent_page: int | None) -> Mapping[str, Check]:
    """What a host runs that answers a client without credentials.

    Args:
        agent_page: port of the agents' health page, if they have one.
    """
    checks: dict[str, Check] = {
        "libvirt (TCP)": partial(greet, port=16509, tls=False),
        "libvirt (TLS)": partial(greet, port=16514, tls=True),
    }
    if agent_page is not None:
        checks["node agent"] = partial(greet_page, port=agent_page)
    return checks


class Peers:
    """Probes each host once for each request, and reports while the request exists.

    Args:
        hypervisor: the own one, which has the requests.
        board: takes `peerReports`.
        programs: what is probed at each host, by name.
        within: how long that may take.
    """

    def __init__(
        self,
        hypervisor: Latest[Hypervisor],
        board: Board,
        programs: Mapping[str, Check],
        *,
        clock: Clock,
        within: timedelta = ANSWER,
    ) -> None:
        self._hypervisor, self._board, self._programs = hypervisor, board, programs
        self._clock, self._within = clock, within
        self._reports: dict[PeerProbe, PeerReport] = {}

    async def run(self) -> None:
        """Follow the own Hypervisor until cancelled."""
        seen = self._hypervisor.value
        while True:
            if seen is not None:
                await self._answer(dict.fromkeys(probes(seen)))
            seen = await self._hypervisor.changed(seen)

    async def _answer(self, requested: Mapping[PeerProbe, None]) -> None:
        new = [probe for probe in requested if probe not in self._reports]
        reports = await asyncio.gather(*(self._report(probe) for probe in new))
        known = self._reports | dict(zip(new, reports, strict=True))
        self._reports = {probe: known[probe] for probe in requested}
        by_host = {report.host: report for report in self._reports.values()}
        self._board.put(replace(self._board.parts, peer_reports=tuple(by_host.values())))

    async def _report(self, probe: PeerProbe) -> PeerReport:
        answered, evidence = False, ""
        try:
            address = str(parse_host_address(probe.address))
        except ValueError as exc:
            evidence = f"not probed: address {exc}"
        else:
            answered, evidence = await self._any(address)
        log.info("peer_probed", peer=clean(probe.name), answers=answered, evidence=evidence)
        return PeerReport(
            host=clean(probe.name[:_LONGEST]),
            answers=answered,
            request=clean(probe.request[:_LONGEST_REQUEST]),
            evidence=clean(evidence),
            checkedAt=self._clock.now(),
        )

    async def _any(self, address: str) -> tuple[bool, str]:
        """Whether one answers, and which; else why none does."""
        failures: list[str] = []

        async def check(name: str, program: Check) -> str:
            try:
                async with asyncio.timeout(self._within.total_seconds()):
                    await program(address)
            except TimeoutError:
                failures.append(f"{name}: no answer within {self._within.total_seconds():g} s")
                raise
            except (OSError, EOFError) as exc:
                why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
                failures.append(f"{name}: {why}")
                raise
            return name

        checks = [asyncio.create_task(check(*program)) for program in self._programs.items()]
        try:
            for first in asyncio.as_completed(checks):
                with suppress(OSError, EOFError):
                    return True, f"{await first} answers at {address}"
        finally:
            for task in checks:
                task.cancel()
            await asyncio.gather(*checks, return_exceptions=True)
        return False, f"no program answers at {address}: {'; '.join(sorted(failures))}"
