"""Permissions of virt-api that it uses only where it serves consoles."""

from __future__ import annotations

from tests.conformance.charts import NAMESPACE
from tests.conformance.permitted import Grant

OF_CONSOLES: set[Grant] = {
    ("list", "apiregistration.k8s.io", "apiservices", ""),
    ("watch", "apiregistration.k8s.io", "apiservices", ""),
    ("patch", "apiregistration.k8s.io", "apiservices", ""),
    ("get", "kubevirt.io", "virtualmachineinstances", ""),
    ("get", "", "nodes", ""),
    ("create", "", "serviceaccounts/token", NAMESPACE),
    ("list", "", "configmaps", "kube-system"),
    ("watch", "", "configmaps", "kube-system"),
}
"""`test_consoles.py` uses them all."""
