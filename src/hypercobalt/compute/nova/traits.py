"""Traits of resource providers. Reading is one call, writing is one where all traits exist."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from hypercobalt.adapters.openstack.request import Answer
from hypercobalt.compute.errors import RefusedError
from hypercobalt.compute.model import ProviderTraits
from hypercobalt.compute.nova.calls import PLACEMENT, Calls, read, refused

CUSTOM: Final = "CUSTOM_"
_VERSION = (1, 39)
_NAME = re.compile(r"[A-Z0-9_]{1,255}", re.ASCII)
_BAD_REQUEST, _NOT_FOUND = 400, 404


class Traits:
    """See `hypercobalt.compute.port.Traits`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def get(self, provider: str) -> ProviderTraits | None:
        path = f"/resource_providers/{provider}/traits"
        about = f"read the traits of provider {provider}"
        answer = await self._calls(
            about, PLACEMENT, "GET", path, version=_VERSION, allow={_NOT_FOUND}
        )
        return _traits(answer) if answer.ok else None

    async def put(self, provider: str, traits: ProviderTraits) -> ProviderTraits:
        """See the port. Placement refuses a trait that nobody has made; it is made only then."""
        if wrong := [name for name in traits.names if not _NAME.fullmatch(name)]:
            raise RefusedError(
                f"set the traits of provider {provider}: {', '.join(map(repr, wrong))} cannot be "
                "traits: capital letters, digits and _ only, CUSTOM_ first",
                reason="InvalidTrait",
            )
        answer = await self._put(provider, traits, _BAD_REQUEST)
        if answer.code == _BAD_REQUEST:
            missing = [name for name in await self._unmade(traits) if name.startswith(CUSTOM)]
            if not missing:
                raise refused(answer, PLACEMENT)
            for name in missing:
                about = f"make trait {name}"
                await self._calls(about, PLACEMENT, "PUT", f"/traits/{name}", version=_VERSION)
            answer = await self._put(provider, traits)
        return _traits(answer)

    async def _unmade(self, traits: ProviderTraits) -> list[str]:
        """Those which Placement does not know; its refusal names them in its own words only."""
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


class _Names(msgspec.Struct, frozen=True):
    traits: tuple[str, ...]
