"""Which traffic of the compute service `direct` is encrypted; the rest is reported."""

from __future__ import annotations

import logging

import pytest
from prometheus_client import CollectorRegistry

from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.compute.direct.connecting import report_exposures
from hypercobalt.compute.direct.settings import (
    CLEAR_STREAMS,
    EXPOSURES,
    PLAIN_LIBVIRT,
    DirectSettings,
)
from hypercobalt.compute.direct.tls_errors import CONTROL, STREAMS, explained

PLAIN = "qemu+tcp://{ip}/system"


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        (DirectSettings(), []),
        (DirectSettings(tls=False), [CLEAR_STREAMS]),
        (DirectSettings(control=PLAIN), [PLAIN_LIBVIRT]),
        (DirectSettings(migration=PLAIN), [PLAIN_LIBVIRT]),
        (DirectSettings(PLAIN, PLAIN, tls=False), [CLEAR_STREAMS, PLAIN_LIBVIRT]),
    ],
)
def test_traffic_in_clear_is_logged_and_counted_at_start(
    settings: DirectSettings, kinds: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    with caplog.at_level(logging.WARNING):
        report_exposures(settings, registry)
    lines = [r.getMessage() for r in caplog.records if "migration_traffic_exposed" in str(r.msg)]
    assert len(lines) == len(kinds)
    for kind in EXPOSURES:
        value = registry.get_sample_value("hypercobalt_direct_exposed", {"kind": kind})
        assert value == (1.0 if kind in kinds else 0.0)


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("Unable to access credentials /etc/pki/qemu/ca-cert.pem: No such file", STREAMS),
        ("host migration TLS directory not configured", STREAMS),
        ("Certificate does not match the hostname 10.0.0.2", STREAMS),
        ("The certificate hasn't got a known issuer", STREAMS),
        ("TLS handshake failed: The TLS connection was non-properly terminated.", STREAMS),
        ("unable to connect to server at '10.0.0.2:16514': Connection refused", CONTROL),
        ("libvirt did not accept our TLS certificate: no reason given", CONTROL),
        ("Cannot read CA certificate '/etc/pki/CA/cacert.pem': No such file", CONTROL),
        (
            "Failed to connect to remote libvirt URI qemu+tls://10.0.0.2/system: "
            "authentication failed: TLS handshake failed",
            CONTROL,
        ),
        ("Certificate [session] owner does not match the hostname 10.0.0.2", CONTROL),
        ("authentication failed: Failed to verify peer's certificate", CONTROL),
    ],
)
def test_an_error_of_tls_names_what_must_be_set_up(text: str, way: str) -> None:
    assert explained(LibvirtError(text)) == f"{text}. {way}"


@pytest.mark.parametrize(
    "text", ["guests of qemu+tls://10.0.0.2/system: libvirt did not answer", "no such domain"]
)
def test_other_errors_stay_as_they_are(text: str) -> None:
    assert explained(LibvirtError(text)) == text
