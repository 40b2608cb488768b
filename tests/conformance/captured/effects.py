"""What an attack must not bring about: power, domains, services, files, Secrets, objects of others.

A deed is judged at once, by what is true at that moment; objects are compared with what they were
before the attack. Hosts that a fault has befallen are compared no more: but they are recovered in
time, and never before their power is off.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.conformance.captured import arrangements, guests, objects
from tests.conformance.captured.doubles import Deed
from tests.conformance.captured.site import CAPTURED, EVENTS, HOSTS, HYPERVISORS, OTHERS, Site
from tests.conformance.wire import Json

IN_TIME: Final = 420.0
"""Seconds after its last fault, or the operator's, within which a silent host is recovered; more
than twice what it takes by itself."""
_REST: Final = 15.0
"""Seconds without a change: longer than any period of an honest host, or of the HA service."""
_LOOKS: Final = 20

_OWNERS: Final = {guests.guest(host, number): host for host in HOSTS for number in range(2)}
_DISKS: Final = {
    guests.image(guests.name(host, number)): guests.guest(host, number)
    for host in OTHERS
    for number in range(2)
}
"""Files of the other hosts' guests, and whose each is."""
_OF_GUESTS: Final = frozenset(
    {
        *("define", "undefine", "boot", "destroy", "migrate"),
        *("restart", "evacuate", "live_migrate", "cold_migrate"),
    }
)
_DOCUMENTED: Final = frozenset({"HostClaimed", "InstanceClaimed", "RegisteredClaimed"})
"""Events of a host whose name, or whose instance, another one claims: docs/security.md."""


class EffectError(AssertionError):
    """An attack has an effect that it must not have."""


def _coded(text: str) -> tuple[str, ...]:
    """A text, and what base64 makes of it at any offset."""
    found = [text]
    for offset in range(3):
        coded = base64.b64encode(b"\0" * offset + text.encode()).decode()
        found.append(coded[4 if offset else 0 : -4])
    return tuple(found)


SECRETS: Final = {
    "the password of the boards": _coded(arrangements.PASSWORD),
    "a private key": _coded("-----BEGIN PRIVATE KEY-----"),
    **{
        f"the definitions of {host}": _coded(arrangements.CONSOLE.format(host=host))
        for host in OTHERS
    },
}

_BLOCKS: Final = {"RecoveryBlocked", "Evicting"}
_SEEN: Final = {"AgentReporting", "NodeHealthy", "Ready"}


@dataclass(slots=True)
class Effects:
    """The judge of one run.

    Attributes:
        befallen: hosts that a fault has befallen.
        drained: hosts that an administrator has emptied.
        claimed: the captured host has claimed another's address or UUID, which shows on both.
        hidden: it has changed its own address or name, and is silent to the operator for that.
        ran: hosts whose guest ran there when they failed last.
        homes: where each guest has run last, and in which boot of that host, by its UUID.
        copied: UUIDs of others' guests of which the captured host has made a domain of its own.
    """

    site: Site
    befallen: set[str] = field(default_factory=set[str])
    drained: set[str] = field(default_factory=set[str])
    claimed: bool = False
    hidden: bool = False
    copied: set[str] = field(default_factory=set[str])
    ran: set[str] = field(default_factory=set[str])
    homes: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    found: list[str] = field(default_factory=list[str])
    before: dict[str, Json] = field(default_factory=dict[str, Json])

    async def begin(self) -> None:
        """Take note of how everything is once it stays so; judge from here on.

        A host in service is noted down by more than one controller, one pass after the other.
        """
        now = await objects.of_others(self.site.rest)
        for _ in range(_LOOKS):
            self.before = now
            await asyncio.sleep(_REST)
            now = await objects.of_others(self.site.rest)
            if now == self.before:
                break
        self._follow_guests()
        changed = {key for key in {*self.before, *now} if self.before.get(key) != now.get(key)}
        assert not changed, f"not at rest before the attack: {sorted(changed)}"
        self.site.deeds.judge = self.judge

    def check(self) -> None:
        """Raise what was found until now, and note where guests are before anything else befalls.

        Between two deeds a guest may arrive on a host, and end there with it.
        """
        self._follow_guests()
        if self.found:
            raise EffectError("; ".join(dict.fromkeys(self.found)))

    # -- deeds ---------------------------------------------------------------------------------

    def judge(self, deed: Deed) -> None:
        """Judge a deed of the operator."""
        self._follow_guests()
        owner = _OWNERS.get(deed.about, CAPTURED)
        if why := self._why_wrong(deed, owner):
            self.found.append(why)

    def _follow_guests(self) -> None:
        """Note where each guest runs; one that was stopped is where it ran last."""
        for uuid in _OWNERS:
            hosts = [
                (host.name, host.boot)
                for host in self.site.hosts.values()
                if (one := self.site.machines.at(host.uri).here.get(uuid)) and one.active
                if host.name != CAPTURED or self._was_brought(uuid)
            ]
            if len(hosts) == 1:
                self.homes[uuid] = hosts[0]

    def _why_wrong(self, deed: Deed, owner: str) -> str:
        return (
            self._of_power(deed)
            or self._of_service(deed)
            or self._of_guest(deed, owner)
            or self._of_definition(deed)
        )

    def _of_power(self, deed: Deed) -> str:
        if deed.what == "login" and arrangements.PASSWORD in deed.text:
            return f"the password of the boards was given to {deed.host}"
        switched = deed.what in {"off", "on"} and deed.host != CAPTURED
        if switched and self.site.hosts[deed.host].reports:
            return f"the power of {deed.host}, which reports, was switched {deed.what}"
        return ""

    def _of_service(self, deed: Deed) -> str:
        removed = deed.what in {"remove", "remove_provider"}
        changed = deed.what in {"disable", "enable", "force_down", "take_back"}
        if deed.host in OTHERS and (removed or (changed and deed.host not in self.befallen)):
            return f"{deed.what} of the compute service of {deed.host}"
        return ""

    def _of_guest(self, deed: Deed, owner: str) -> str:
        home, boot = self.homes.get(deed.about, (owner, self.site.hosts[owner].boot))
        # A host that has booted since runs nothing of what it ran before.
        runs_on = self.site.has_power(home) and self.site.hosts[home].boot == boot
        if deed.what == "boot" and deed.host != home and runs_on:
            done = [(one.host, one.what) for one in self.site.deeds.done if one.about == deed.about]
            text = f"a guest of {home}, whose power is on, was started on {deed.host}"
            return f"{text}; done to it: {done[-8:]}"
        ended = deed.host == CAPTURED and deed.what in {"undefine", "destroy"}
        if ended and not self._was_brought(deed.about):
            return ""  # the copy that the captured host has made: its own harm
        if deed.what == "undefine" and owner != CAPTURED and self._is_last(deed):
            return f"the only definition of a guest of {owner} was undefined on {deed.host}"
        if deed.what in _OF_GUESTS and owner != CAPTURED and owner not in self.befallen:
            return f"{deed.what} on {deed.host} of a guest of {owner}, which no fault has befallen"
        return ""

    def _is_last(self, deed: Deed) -> bool:
        """Whether no other host has the guest, but for copies that the captured host has made."""
        return not any(
            deed.about in self.site.machines.at(host.uri).here
            for host in self.site.hosts.values()
            if host.name != deed.host and (host.name != CAPTURED or self._was_brought(deed.about))
        )

    def _of_definition(self, deed: Deed) -> str:
        if deed.what == "define" and deed.host != CAPTURED and guests.CAPTURED in deed.text:
            return f"{deed.host} was given a hostile definition: {deed.text[:600]}"
        given = deed.what == "migrate" or (deed.what == "define" and deed.host != CAPTURED)
        for path, uuid in _DISKS.items() if given else ():
            if path in deed.text and deed.about != uuid:
                return f"{path}, of another guest, was opened by {deed.what} on {deed.host}"
        if deed.what == "delete_file" and ".hypercobalt-" not in deed.about:
            return f"{deed.about} was deleted by way of {deed.host}"
        return ""

    # -- answers -------------------------------------------------------------------------------

    def read(self, request: str, answer: str) -> None:
        """Judge what the attacker has been answered."""
        for what, texts in SECRETS.items():
            if any(text in answer for text in texts):
                self.found.append(f"{what} were read by {request}")
        if "of-another-host" in answer:
            self.found.append(f"the Eviction of another host was read by {request}")

    # -- objects -------------------------------------------------------------------------------

    async def compare(self) -> None:
        """Compare the objects of others with what they were."""
        self.found += await objects.faults(self.site.rest)
        now = await objects.of_others(self.site.rest)
        for key in sorted({*self.before, *now}):
            before, found = self.before.get(key), now.get(key)
            if before != found and not self._may_change(key, before, found):
                self.found.append(f"{key}: {objects.difference(before, found)}")
        self.check()

    def _may_change(self, key: str, before: Json, now: Json) -> bool:
        host, kind = key.split(" ")[:2]
        if host in self.befallen or (self.claimed and kind in {"Hypervisor", "Event"}):
            return True
        if kind != "Event" or before is not None:
            return False
        return bool(now["type"] == "Normal" or now["reason"] in _DOCUMENTED)

    # -- recovery ------------------------------------------------------------------------------

    def is_recovered(self, name: str) -> bool:
        """Whether what ran on a silent host runs elsewhere."""
        site = self.site
        if site.compute == "nova":
            return not any(one.running for one in site.nova.moves.on(name))
        uuid = guests.guest(name, 0)
        if name in self.drained and site.hosts[name].reports:
            return not self._runs_on(name)
        if name not in self.ran:
            return True  # it was off, or elsewhere, when its host failed
        for host in site.hosts.values():
            found = site.machines.at(host.uri).here.get(uuid) if host.name != name else None
            if found is None:
                continue
            # What was started on the captured host is its own to stop; its own copies are nothing,
            # and neither is what it has refused to start.
            given = uuid in site.machines.at(host.uri).given
            runs = found.active and (host.name != CAPTURED or uuid not in self.copied)
            if runs or (given and host.name == CAPTURED):
                return True
        return False

    def fails(self, name: str) -> None:
        """Note what a host that fails now has running."""
        (self.ran.add if self._runs_on(name) else self.ran.discard)(name)

    def _runs_on(self, name: str) -> bool:
        there = self.site.machines.at(self.site.hosts[name].uri).here
        found = there.get(guests.guest(name, 0))
        return found is not None and found.active

    def _was_brought(self, uuid: str) -> bool:
        """Whether the operator has brought a guest to the captured host."""
        booted = any(
            (one.host, one.what, one.about) == (CAPTURED, "boot", uuid)
            for one in self.site.deeds.done
        )
        return booted or uuid not in self.copied

    async def _accounted(self, names: Iterable[str]) -> bool:
        """Whether each host is recovered, or its guest is named as one that another host has."""
        late = [name for name in names if not self.is_recovered(name)]
        if not late or self.found:
            return True
        if any(guests.guest(name, 0) not in self.copied for name in late):
            return False
        events = (await self.site.rest.good("GET", EVENTS))["items"]
        named = {
            (one["regarding"]["name"], uuid)
            for one in events
            for uuid in self.copied
            if one["reason"] == "InstanceClaimed" and uuid in one["note"]
        }
        return all((name, guests.guest(name, 0)) in named for name in late)

    async def recovered_in_time(self) -> None:
        """Wait for every host that is silent to be recovered, or that is drained to be empty."""
        silent = {name for name in OTHERS if not self.site.hosts[name].reports}
        waits = sorted({*silent, *self.drained})
        done = await self.site.until(lambda: self._accounted(waits), IN_TIME)
        self.check()
        if not done:
            late = [name for name in waits if not self.is_recovered(name)]
            told = [await self.site.object(f"{HYPERVISORS}/{name}") for name in late]
            why = {
                one["metadata"]["name"]: (
                    one["status"].get("recovery"),
                    [c["message"] for c in one["status"]["conditions"] if c["type"] in _BLOCKS],
                    [c for c in one["status"]["conditions"] if c["type"] in _SEEN],
                )
                for one in told
                if one is not None
            }
            raise EffectError(f"not recovered within {IN_TIME:.0f} s: {why}")

    async def back_in_time(self, name: str) -> None:
        """Wait for a host that reports again to be taken back."""
        was_fenced = any((deed.host, deed.what) == (name, "off") for deed in self.site.deeds.done)

        async def is_back() -> bool:
            found = await self.site.object(f"{HYPERVISORS}/{name}")
            held = found is not None and found["spec"].get("maintenance")
            if found is None or (held and name not in self.drained):
                return False
            phase = found["status"].get("fencing", {}).get("phase")
            if phase is None:
                return not was_fenced  # it was back before its silence was noticed
            return bool(phase == "Released")

        done = await self.site.until(is_back, IN_TIME)
        self.check()
        if not done:
            told = await self.site.object(f"{HYPERVISORS}/{name}")
            status = told["status"] if told is not None else {"conditions": []}
            why = (
                status.get("fencing"),
                [
                    (c["message"] if c["type"] in _BLOCKS else c)
                    for c in status["conditions"]
                    if c["type"] in _BLOCKS | _SEEN
                ],
            )
            raise EffectError(f"{name} not taken back within {IN_TIME:.0f} s: {why}")
