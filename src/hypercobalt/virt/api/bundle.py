"""Keeps the CA of virt-api's certificate in the webhook configurations.

An API server verifies a webhook by `caBundle`. A chart cannot know it, and an upgrade of the chart
may take it away: so this process follows its two configurations, and writes it where it differs.
Nothing else of them is written.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from msgspec.structs import replace

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


class BundleReconciler:
    """Writes the CA into one configuration where it differs."""

    def __init__(self, kube: Kube, informer: Informer[T], authority: Authority) -> None:
        self._kube, self._informer, self._authority = kube, informer, authority

    async def reconcile(self, key: str) -> Result:
        """See `Reconciler`."""
        found = self._informer.cache.by_key(key)
        if found is None:
            return Result()
        wanted = with_bundle(found, self._authority.bundle())
        if wanted != found:
            await self._kube.patch(found, wanted)
            log.info("ca_bundle_written", kind=found.resource.kind, configuration=key)
        return Result(requeue_after=AGAIN)


def add_bundles(manager: Manager, authority: Authority) -> None:
    """Have a manager keep the CA in both configurations."""
    kinds: tuple[tuple[type[WebhookConfiguration], str], ...] = (
        (MutatingWebhookConfiguration, MUTATING),
        (ValidatingWebhookConfiguration, VALIDATING),
    )
    for kind, name in kinds:
        informer = manager.informer(kind, fields=f"metadata.name={name}")
        reconciler = BundleReconciler(manager.kube, informer, authority)
        watches = (primary(informer),)
        manager.add(Controller(name, reconciler, watches=watches, concurrency=1))
