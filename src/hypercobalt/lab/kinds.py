"""Which of our kinds a server serves, by its own discovery."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypercobalt.api.definition import CustomResourceDefinition
from hypercobalt.kubeconfig import load
from hypercobalt.runtime.client.kube import Kube


@dataclass(frozen=True, slots=True)
class ServedKind:
    """One custom kind that the server has established."""

    kind: str
    short_names: tuple[str, ...]
    api_version: str
    scope: str
    objects: str  # their name for kubectl


async def served_kinds(kubeconfig: Path) -> tuple[ServedKind, ...]:
    """Every established custom kind of the server that `kubeconfig` names, by kind.

    Raises:
        HypercobaltError: the server does not answer.
    """
    async with Kube(load(kubeconfig), field_manager="cobalt-lab") as kube:
        definitions = await kube.list(CustomResourceDefinition)
    return tuple(
        sorted((_served(definition) for definition in definitions.items), key=lambda k: k.kind)
    )


def _served(definition: CustomResourceDefinition) -> ServedKind:
    spec, names = definition.spec, definition.status.acceptedNames
    version = next((version.name for version in spec.versions if version.served), "")
    return ServedKind(
        names.kind, names.shortNames, f"{spec.group}/{version}", spec.scope, names.plural
    )
