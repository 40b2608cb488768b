"""Starts a domain again on its own host: one that is off is started, an active one is ended first.

It is started only if it cannot run elsewhere. That it ran here last is proof enough: libvirt then
has the reason of its end. Without that, after the host has booted, every other host has to answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.compute.direct import port_claims
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.outcome import HostView, ended_here, unanswered, why_not
from hypercobalt.compute.direct.site import Site, also_on
from hypercobalt.compute.errors import ComputeConflictError, MayRunElsewhereError
from hypercobalt.logs import get_logger

log = get_logger(__name__)


async def restart(site: Site, place: Place, domain: Domain) -> None:
    """Restart the domain.

    Args:
        site: see there.
        place: its host, whose daemon has been identified.
        domain: as its host has it, with its job.

    Raises:
        MayRunElsewhereError: a host that may run it is silent, and not proven dead.
        ComputeConflictError: it runs elsewhere, or is on its way.
        TransientError: libvirt or the network refuses, or does not answer.
    """
    await _check(site, place, domain)
    daemon, uuid = site.daemon(place), domain.uuid
    try:
        await port_claims.bind(site, domain, (place.name,))
    except port_claims.PortClaimedError as exc:
        raise ComputeConflictError(
            f"{domain.name} is not restarted on {place.name}: {exc}"
        ) from None
    log.info("restarting_instance", server=uuid, host=place.name)
    if domain.active:
        document = await daemon.document(uuid)
        await daemon.destroy(uuid)
        if await site.domain(place, uuid) is None:  # it was not persistent
            await daemon.define(document)
    await daemon.boot(uuid)


def is_foreign(copy: Domain) -> bool:
    """Whether a copy of a domain was left there by neither a move nor an evacuation."""
    return copy.evacuated is None


async def _check_silent(
    site: Site, domain: Domain, views: Mapping[str, HostView], refused: str
) -> None:
    """Check that no silent host has the domain, by what its agent has stored.

    Its own host's word starts a domain there, and takes the network from no other host's guest.

    Raises:
        MayRunElsewhereError: one has.
    """
    for host, view in sorted(views.items()):
        if view is HostView.SILENT and await site.witnesses.is_stored(domain.uuid, (host,)):
            raise MayRunElsewhereError(f"{refused}: {unanswered(host)}")


async def _check(site: Site, place: Place, domain: Domain) -> None:
    looked = await site.look_everywhere(domain.uuid, site.hosts.others(place.name))
    views = {one.name: view for one, view, _ in looked}
    here = {place.name: HostView.OFF}
    answers = {host: view for host, view in views.items() if view is not HostView.SILENT}
    refused = f"{domain.name} is not restarted on {place.name}"
    if why := why_not(answers | here, place.name):
        raise ComputeConflictError(f"{refused}: {why}")
    foreign = next((one for one, _, copy in looked if copy is not None and is_foreign(copy)), None)
    if domain.devices.ports and foreign is not None:
        raise ComputeConflictError(f"{refused}: {also_on(domain, foreign)}")
    if domain.active or ended_here(domain):
        if domain.devices.ports:
            await _check_silent(site, domain, views, refused)
        return
    if why := why_not(views | here, place.name):
        raise MayRunElsewhereError(f"{refused}: {why}")
