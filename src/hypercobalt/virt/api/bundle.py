"""Keeps the CA of virt-api's certificate in the webhook configurations and in its APIService.

An API server verifies a webhook, and the server of a group, by `caBundle`. A chart cannot know it,
and an upgrade of the chart may take it away: so this process follows these objects, and writes it
where it differs. Nothing else of them is written.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from hypercobalt.api.apiservices import APIService
from hypercobalt.api.kubevirt.console import API_SERVICE
from hypercobalt.api.meta import Object
from hypercobalt.api.webhooks import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
    WebhookConfiguration,
)
from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Controller, Informer, Kube, Manager, Result
from hypercobalt.runtime.controller import primary
from hypercobalt.virt.api.webhooks import MUTATING, VALIDATING, WEBHOOKS

log = get_logger(__name__)

T = TypeVar("T", bound=WebhookConfiguration)
K = TypeVar("K", bound=Object)

CA_FILE: Final = "ca.crt"
AGAIN: Final = timedelta(minutes=5)
"""Until the file is read again: a renewed Secret has no event. A CA is renewed weeks ahead."""

_OURS: Final = frozenset(one.name for one in WEBHOOKS)


class Authority:
    """The CA that API servers verify virt-api by.

    Args:
        source: directory that has it as `ca.crt`; or the certificate itself, which signs itself.
    """

    def __init__(self, source: Path | bytes) -> None:
        self._source = source

    def bundle(self) -> bytes:
        """The CA as it is now, in PEM form.

        Raises:
            ConfigurationError: the file cannot be read.
        """
        if isinstance(self._source, bytes):
            return self._source
        file = self._source / CA_FILE
        try:
            return file.read_bytes()
        except OSError as error:
            text = f"{file} cannot be read, and API servers verify virt-api by it: {error}"
            raise ConfigurationError(text) from error


def with_bundle(configuration: T, bundle: bytes) -> T:
    """The configuration with the CA in each webhook of virt-api."""
    webhooks = tuple(
        replace(one, clientConfig=replace(one.clientConfig, caBundle=bundle))
        if one.name in _OURS
        else one
        for one in configuration.webhooks
    )
    return replace(configuration, webhooks=webhooks)


def service_with_bundle(service: APIService, bundle: bytes) -> APIService:
    """The APIService with the CA in it."""
    return replace(service, spec=replace(service.spec, caBundle=bundle))


class BundleReconciler(Generic[K]):
    """Writes the CA into one object where it differs.

    Args:
        kube: writes.
        informer: of the object.
        authority: the CA.
        wanted: the object with it.
    """

    def __init__(
        self,
        kube: Kube,
        informer: Informer[K],
        authority: Authority,
        wanted: Callable[[K, bytes], K],
    ) -> None:
        self._kube, self._informer, self._authority = kube, informer, authority
        self._wanted = wanted

    async def reconcile(self, key: str) -> Result:
        """See `Reconciler`."""
        found = self._informer.cache.by_key(key)
        if found is None:
            return Result()
        wanted = self._wanted(found, self._authority.bundle())
        if wanted != found:
            await self._kube.patch(found, wanted)
            log.info("ca_bundle_written", kind=found.resource.kind, configuration=key)
        return Result(requeue_after=AGAIN)


def add_bundles(manager: Manager, authority: Authority) -> None:
    """Have a manager keep the CA in both configurations."""
    _add(manager, authority, MutatingWebhookConfiguration, MUTATING, with_bundle)
    _add(manager, authority, ValidatingWebhookConfiguration, VALIDATING, with_bundle)


def add_service_bundle(manager: Manager, authority: Authority) -> None:
    """Have a manager keep the CA in the APIService; the embedded API server has no such kind."""
    _add(manager, authority, APIService, API_SERVICE, service_with_bundle)


def _add(
    manager: Manager,
    authority: Authority,
    kind: type[K],
    name: str,
    wanted: Callable[[K, bytes], K],
) -> None:
    informer = manager.informer(kind, fields=f"metadata.name={name}")
    reconciler = BundleReconciler(manager.kube, informer, authority, wanted)
    manager.add(Controller(name, reconciler, watches=(primary(informer),), concurrency=1))
