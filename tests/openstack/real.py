"""The real OpenStack of this ring, and as the cloud of a test."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.lab.openstack import seed
from hypercobalt.lab.openstack.site import OpenStack, up
from hypercobalt.lab.progress import Report
from tests.openstack.cloud import Cloud

HOSTS: Final = ("kvm-1", "kvm-2")
_NODE_GRACE: Final = timedelta(seconds=4)  # as in drills: waits that do not matter here are short


async def start(data: Path, report: Report) -> OpenStack:
    """Start OpenStack and its computes, without Kubernetes.

    Raises:
        HypercobaltError: a step failed; the message has the end of its log.
    """
    return await up(data, report, hosts=HOSTS, api_port=0, node_grace=_NODE_GRACE)


def cloud_of(openstack: OpenStack) -> Cloud:
    """What a test needs of it."""
    return Cloud(
        admin=openstack.admin,
        tester=openstack.tester,
        names=seed.NAMES,
        hosts=tuple(host.name for host in openstack.hosts),
        crash=lambda name: openstack.lab.host(name).crash(),
        restore=openstack.restore,
        add_image=lambda name, words: seed.add_image(openstack.place, name, words),
        hinder=openstack.hinder,
        share_disks=lambda shared: openstack.share_disks(shared=shared),
    )
