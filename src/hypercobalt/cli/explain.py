"""`cobalt explain`: why an object is where it is, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.cli import asking
from hypercobalt.cli.asking import AskedWronglyError, Kubeconfig
from hypercobalt.operator.eviction.explain import explain as in_words

_NAMES: Final = {"eviction", "evictions", "evi"}


def explain(
    what: Annotated[str, Parameter(help="eviction/NAME; the name is mostly the host's.")],
    /,
    *,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Say in words why an Eviction is where it is, what it waits for and what to do.

    Exit codes: 0 said; 1 the API is not there or refuses; 2 there is no such object.
    """
    return asking.run("explain", _explain(what, kubeconfig))


async def _explain(what: str, kubeconfig: Path | None) -> int:
    kind, _, name = what.partition("/")
    if kind.lower() not in _NAMES or not name:
        raise AskedWronglyError(f"{what!r}: say eviction/NAME")
    async with asking.client(kubeconfig) as kube:
        eviction = await kube.get(Eviction, name)
        if eviction is None:
            known = sorted(one.metadata.name for one in (await kube.list(Eviction)).items)
            there = f"there are: {', '.join(known[:20])}" if known else "there are none"
            raise AskedWronglyError(f"there is no Eviction {name}; {there}")
        host = await kube.get(Hypervisor, eviction.spec.hypervisor)
    print("\n".join(in_words(eviction, host, datetime.now(UTC))))
    return 0
