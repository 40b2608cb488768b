"""Where services are: the catalogue that comes with a token, and what the configuration sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from keystoneauth1 import exceptions as keystone
from keystoneauth1.identity.base import BaseIdentityPlugin
from keystoneauth1.session import Session

from hypercobalt.adapters.openstack.errors import NoEndpointError
from hypercobalt.adapters.openstack.sdk import CloudRegion

_MOST: Final = 8  # regions that a message names


class Catalogue:
    """Endpoints as one session sees them. What was found is kept for as long as its token.

    Args:
        region: of the configuration.
        session: its tokens bring the catalogue.
        who: the account, for messages.
    """

    def __init__(self, region: CloudRegion, session: Session, who: str) -> None:
        self._region, self._session, self._who = region, session, who
        self._known: tuple[str | None, dict[str, str]] = (None, {})

    def endpoint(self, service: str) -> str:
        """Where a service is, without a slash at the end.

        Raises:
            NoEndpointError: it is not in the catalogue, or not in the region.
        """
        token, (of, known) = self._session.get_token(), self._known
        if token != of:
            known = {}
            self._known = (token, known)
        if service not in known:
            known[service] = self._find(service)
        return known[service]

    def _find(self, service: str) -> str:
        region = self._region
        try:
            found = region.get_endpoint(service) or self._session.get_endpoint(
                service_type=region.get_service_type(service),
                service_name=region.get_service_name(service),
                region_name=region.get_region_name(service),
                interface=region.get_interface(service),
                skip_discovery=True,
            )
        except keystone.CatalogException:
            found = None
        if not found:
            raise NoEndpointError(self._missing(service))
        return found.rstrip("/")

    def _missing(self, service: str) -> str:
        region = self._region
        where = region.get_region_name(service)
        interface = region.get_interface(service)
        known = self._regions(service)
        elsewhere = f"it is in {_listed(known)}" if known else "it is in no region"
        return (
            f"the catalogue of {self._who} has no endpoint of the service {service!r} in region "
            f"{where or '(any)'}, interface {interface}; {elsewhere}: check OS_REGION_NAME and "
            "OS_INTERFACE, or region_name and interface in clouds.yaml"
        )

    def _regions(self, service: str) -> dict[str, set[str]]:
        """The interfaces that the service has in each region."""
        auth = self._session.auth
        if not isinstance(auth, BaseIdentityPlugin):
            return {}
        found: dict[str, set[str]] = {}
        type_ = self._region.get_service_type(service)
        catalog = auth.get_access(self._session).service_catalog
        for endpoints in catalog.get_endpoints_data(service_type=type_).values():
            for one in endpoints:
                found.setdefault(str(one.region_name), set()).add(str(one.interface))
        return found


def _listed(regions: dict[str, set[str]]) -> str:
    def words() -> Iterable[str]:
        for region in sorted(regions)[:_MOST]:
            yield f"{region} ({', '.join(sorted(regions[region]))})"
        if len(regions) > _MOST:
            yield f"{len(regions) - _MOST} more"

    return ", ".join(words())
