"""Traits of resource providers.

Reading is one call, writing is one where all traits exist. Traits are kept after a read: Placement
increments a provider's generation with each change of its traits, and one listing of all providers
shows the generations. They also move with inventories and allocations, so a provider that is listed
as changed is read again, and no more than that.

Source: placement, objects/resource_provider.py, `_set_traits` (`rp.increment_generation()`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import msgspec

from hypercobalt.adapters.openstack.request import Answer
from hypercobalt.compute.errors import RefusedError
from hypercobalt.compute.model import ProviderTraits
from hypercobalt.compute.nova.calls import LONG, PLACEMENT, Calls, read
from hypercobalt.compute.nova.trait_pace import AT_ONCE, TraitPace

CUSTOM: Final = "CUSTOM_"
_VERSION = (1, 39)
_NAME = re.compile(r"[A-Z0-9_]{1,255}", re.ASCII)
_BAD_REQUEST, _NOT_FOUND = 400, 404
KEPT_SECONDS: Final = 900.0
"""How long traits are kept without a listing that confirms them."""


class NovaTraits:
    """See `hypercobalt.compute.port.Traits`."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls, self._clock = calls, clock
        self._kept: dict[str, _Kept] = {}
        """Kept traits by provider; the ones read longest ago come first."""
        self._absent: set[str] = set()
        self._pace = TraitPace()

    async def get(self, provider: str, *, fresh: bool = False) -> ProviderTraits | None:
        kept = self._kept.get(provider)
        if kept and not fresh and self._clock() - kept.confirmed < KEPT_SECONDS:
            return kept.traits
        path = f"/resource_providers/{provider}/traits"
        about = f"read the traits of provider {provider}"
        answer = await self._calls(
            about, PLACEMENT, "GET", path, version=_VERSION, allow={_NOT_FOUND}
        )
        if not answer.ok:
            self._forget(provider)
            self._absent.add(provider)
            return None
        return self._keep(provider, _traits(answer))

    async def changed(self, *, also: int = 0) -> Collection[str]:
        """Make one call, however many providers there are."""
        requested = self._clock()
        listed = await self._generations()
        changed = {*list(self._kept)[:also], *(self._absent & listed.keys())}
        for provider, kept in self._kept.items():
            if listed.get(provider) == kept.traits.generation:
                kept.confirmed = requested
            else:
                changed.add(provider)
        for provider in changed:
            self._forget(provider)
        return changed

    async def put(self, provider: str, traits: ProviderTraits) -> ProviderTraits:
        """Create a trait only after Placement refused it as missing."""
        if wrong := [name for name in traits.names if not _NAME.fullmatch(name)]:
            raise RefusedError(
                f"set the traits of provider {provider}: {', '.join(map(repr, wrong))} cannot be "
                "traits: capital letters, digits and _ only, CUSTOM_ first",
                reason="InvalidTrait",
            )
        answer = await self._put(provider, traits, _BAD_REQUEST)
        if answer.code == _BAD_REQUEST:
            unmade = await self._unmade(traits)
            await self._create(provider, [name for name in unmade if name.startswith(CUSTOM)])
            # If none is missing, another pass has created it meanwhile; or this call is refused as
            # well.
            answer = await self._put(provider, traits)
        return self._keep(provider, _traits(answer))

    async def _create(self, provider: str, names: list[str]) -> None:
        if not self._pace.take(provider, len(names), self._clock()):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise RefusedError(
                f"set the traits of provider {provider}: Placement lacks {names[0]}{more}, and the "
                f"operator creates {AT_ONCE} traits for a host, then one an hour; create them by "
                "`openstack trait create`",
                reason="TooManyNewTraits",
            )
        for name in names:
            about = f"create trait {name}"
            await self._calls(about, PLACEMENT, "PUT", f"/traits/{name}", version=_VERSION)

    def _keep(self, provider: str, traits: ProviderTraits) -> ProviderTraits:
        self._forget(provider)
        self._kept[provider] = _Kept(traits, self._clock())
        return traits

    def _forget(self, provider: str) -> None:
        self._kept.pop(provider, None)
        self._absent.discard(provider)

    async def _generations(self) -> dict[str, int]:
        answer = await self._calls(
            "list the resource providers",
            PLACEMENT,
            "GET",
            "/resource_providers",
            version=_VERSION,
            deadline=LONG,
        )
        return {one.uuid: one.generation for one in read(answer, _Providers).resource_providers}

    async def _unmade(self, traits: ProviderTraits) -> list[str]:
        """Return the traits that Placement lacks; its refusal names them only in its message."""
        query = (("name", f"in:{','.join(traits.names)}"),)
        about = "list the traits that exist"
        answer = await self._calls(
            about, PLACEMENT, "GET", "/traits", query=query, version=_VERSION
        )
        return sorted({*traits.names} - {*read(answer, _Names).traits})

    async def _put(self, provider: str, traits: ProviderTraits, *allow: int) -> Answer:
        return await self._calls(
            f"set the traits of provider {provider}",
            PLACEMENT,
            "PUT",
            f"/resource_providers/{provider}/traits",
            body={
                "traits": list(traits.names),
                "resource_provider_generation": traits.generation,
            },
            version=_VERSION,
            allow=allow,
        )


def _traits(answer: Answer) -> ProviderTraits:
    found = read(answer, _Traits)
    return ProviderTraits(tuple(sorted(found.traits)), found.resource_provider_generation)


class _Traits(msgspec.Struct, frozen=True):
    traits: tuple[str, ...]
    resource_provider_generation: int


@dataclass(slots=True)
class _Kept:
    """Traits that were read, and when they were last known to be current."""

    traits: ProviderTraits
    confirmed: float


class _Provider(msgspec.Struct, frozen=True):
    uuid: str
    generation: int


class _Providers(msgspec.Struct, frozen=True):
    resource_providers: tuple[_Provider, ...]


class _Names(msgspec.Struct, frozen=True):
    traits: tuple[str, ...]
