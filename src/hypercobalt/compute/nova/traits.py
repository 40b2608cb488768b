"""Traits of resource providers. Reading is one call, writing is one where all traits exist."""

from __future__ import annotations

from typing import Final

import msgspec

from hypercobalt.adapters.openstack.request import Answer
from hypercobalt.compute.model import ProviderTraits
from hypercobalt.compute.nova.calls import PLACEMENT, Calls, refused

CUSTOM: Final = "CUSTOM_"
_VERSION = (1, 39)
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
        answer = await self._put(provider, traits, _BAD_REQUEST)
        if answer.code == _BAD_REQUEST:
            missing = [name for name in traits.names if name in answer.words and _custom(name)]
            if not missing:
                raise refused(answer, PLACEMENT)
            for name in missing:
                about = f"make trait {name}"
                await self._calls(about, PLACEMENT, "PUT", f"/traits/{name}", version=_VERSION)
            answer = await self._put(provider, traits)
        return _traits(answer)

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


def _custom(name: str) -> bool:
    return name.startswith(CUSTOM)


def _traits(answer: Answer) -> ProviderTraits:
    read = answer.read(_Traits)
    return ProviderTraits(tuple(sorted(read.traits)), read.resource_provider_generation)


class _Traits(msgspec.Struct, frozen=True):
    traits: tuple[str, ...]
    resource_provider_generation: int
