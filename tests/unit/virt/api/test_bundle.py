"""The CA in the webhook configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.webhooks import (
    MutatingWebhookConfiguration,
    RegisteredWebhook,
    WebhookClientConfig,
)
from hypercobalt.errors import ConfigurationError
from hypercobalt.runtime.client.patch import diff
from hypercobalt.virt.api.bundle import Authority, with_bundle
from hypercobalt.virt.api.webhooks import MUTATING, MUTATOR


def configuration(**bundles: bytes | None) -> MutatingWebhookConfiguration:
    webhooks = tuple(
        RegisteredWebhook(name=name, clientConfig=WebhookClientConfig(caBundle=bundle))
        for name, bundle in bundles.items()
    )
    return MutatingWebhookConfiguration(metadata=ObjectMeta(name=MUTATING), webhooks=webhooks)


def test_ca_is_written_to_the_webhooks_of_virt_api_alone() -> None:
    old = configuration(**{"other.example.com": None, MUTATOR.name: b"old"})
    new = with_bundle(old, b"new")
    assert [one.clientConfig.caBundle for one in new.webhooks] == [None, b"new"]
    assert diff(old, new) == [
        {"op": "replace", "path": "/webhooks/1/clientConfig/caBundle", "value": "bmV3"}
    ]


def test_ca_that_is_there_is_not_written() -> None:
    found = configuration(**{MUTATOR.name: b"ca"})
    assert with_bundle(found, b"ca") == found


def test_ca_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with pytest.raises(ConfigurationError, match=r"ca\.crt cannot be read"):
        authority.bundle()
    for text in (b"one", b"two"):
        (tmp_path / "ca.crt").write_bytes(text)
        assert authority.bundle() == text
    assert Authority(b"own").bundle() == b"own"
