"""The flags of `cobalt virt-api`, and the settings that they become."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hypercobalt.api.address import Address
from hypercobalt.cli.virt_flags import VirtFlags
from hypercobalt.errors import ConfigurationError
from hypercobalt.launch import decode_settings, encode_settings
from hypercobalt.virt.api.handler_address import HandlerNetwork
from hypercobalt.virt.api.process import VirtAPISettings
from hypercobalt.vmi.cluster import ClusterConfig


def test_cluster_is_what_the_flags_set() -> None:
    assert VirtFlags().cluster() == ClusterConfig()
    made = VirtFlags(virt_namespace="virt", use_emulation=True).cluster()
    assert made == ClusterConfig(namespace="virt", use_emulation=True)
    with pytest.raises(ConfigurationError, match="--virt-namespace"):
        VirtFlags(virt_namespace="a/b").cluster()


def test_settings_reach_the_process_as_they_are() -> None:
    settings = VirtAPISettings(Address("127.0.0.1", 8443), cluster=ClusterConfig(namespace="virt"))
    full = replace(
        settings, files=Path("/files"), kubeconfig=Path("/kube"), certificate=3, register=False
    )
    network = HandlerNetwork(9190, ("10.0.0.0/16",))
    served = replace(settings, subresources=Address("", 8445), handlers=network)
    for one in (settings, full, served):
        assert decode_settings(encode_settings(one), VirtAPISettings) == one
