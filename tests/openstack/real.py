"""The real OpenStack as the cloud of a test."""

from __future__ import annotations

from hypercobalt.lab.openstack import seed
from hypercobalt.lab.openstack.site import OpenStack
from tests.openstack.cloud import Cloud


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
