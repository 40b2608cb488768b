"""The client of OpenStack's APIs by which tests call a cloud, real or simulated."""

from hypercobalt.lab.openstack.client import Account, Answer, Json, Session

__all__ = ["Account", "Answer", "Json", "Session"]
