"""Settings of the process that runs pods, as the unit that starts it passes them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

import msgspec

from hypercobalt.errors import ConfigurationError

IMAGES: Final = "/var/lib/hypercobalt/images"
"""In a host: a directory for each image, by the last part of its name."""
KUBELET: Final = "/var/lib/kubelet"
"""In a host: where kubelets keep their pods."""
CAPABILITIES: Final = "/var/lib/hypercobalt/capabilities"
"""In a host: what libvirt has found out about QEMU; each pod gets a copy."""

SERVICE: Final = "hypercobalt-pods.service"
"""In a host: what runs its pods."""
HANDLER: Final = "hypercobalt-virt-handler.service"
"""In a host: what ends the guests of its pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSettings:
    """One host.

    Attributes:
        node: name of its Node.
        address: of the host.
        server: URL of the API server.
        network: addresses of the pods, with their gateway, such as 100.64.0.64/26.
        credentials: directory with `ca.crt`, `client.crt` and `client.key`.
        programs: paths of the host that pods see, besides /usr: our own code.
        kubelet: directory of the pods' volumes.
        images: directory of images.
        capabilities: directory of libvirt's capability cache.
        log_level: the lowest that is logged, as `logging` counts.
    """

    node: str
    address: str
    server: str
    network: str
    credentials: str
    programs: tuple[str, ...] = ()
    kubelet: str = KUBELET
    images: str = IMAGES
    capabilities: str = CAPABILITIES
    log_level: int = logging.INFO


def encode_settings(settings: RunningSettings) -> str:
    """Write settings as the argument of the process; they hold no secret."""
    return msgspec.json.encode(settings).decode()


def decode_settings(text: str) -> RunningSettings:
    """Read what `encode_settings` wrote.

    Raises:
        ConfigurationError: it did not.
    """
    try:
        return msgspec.json.decode(text, type=RunningSettings)
    except msgspec.DecodeError as exc:
        raise ConfigurationError(f"settings {text[:64]!r}: {exc}") from exc
