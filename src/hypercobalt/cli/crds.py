"""`cobalt crds`: print the CustomResourceDefinitions."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from hypercobalt.api import crd
from hypercobalt.cli.exit_codes import report_error
from hypercobalt.errors import ConfigurationError


def crds(*, kind: Annotated[str | None, Parameter(name=("--kind", "-k"))] = None) -> int:
    """Print the CustomResourceDefinitions as YAML, ready for `kubectl apply --server-side -f -`.

    Parameters
    ----------
    kind
        Print this one only: Hypervisor, Eviction, Migration, OVSNode or SealedDefinitions; the
        plural and the short name do too, in any case.
    """
    try:
        kinds = crd.KINDS if kind is None else (crd.kind_named(kind),)
    except ConfigurationError as exc:
        return report_error("crds", exc)
    for each in kinds:
        sys.stdout.write(crd.to_yaml(crd.manifest(each)))
    return 0
