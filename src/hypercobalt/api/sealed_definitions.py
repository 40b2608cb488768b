"""SealedDefinitions: the sealed definitions of one host's domains (`kvm.cloud.sap/v1alpha1`).

The host's node agent writes it under the name of its Node; the operator opens it when the host is
dead. See `definitions` for the content and `sealing` for who can read it. Namespaced, in the
agents' namespace; ours, not upstream's.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from hypercobalt.api.meta import ResourceInfo, Struct
from hypercobalt.api.schema import Column, CustomObject, Definition, Field, Limits

MOST_BYTES: Final = 900 * 1024
"""Sealed. In base64 with the rest of the object it stays below the 1.5 MiB that etcd takes
(`--max-request-bytes`)."""

MOST_CHARACTERS: Final = (MOST_BYTES + 2) // 3 * 4


class SealedDefinitionsSpec(Struct, frozen=True):
    """What the node agent has sealed."""

    key: Annotated[
        str,
        Field(
            "Id of the key that the content is sealed for: the first 16 digits of the SHA-256 of "
            "the public key in the Hypervisor's `status.definitionsKey`.",
            limits=Limits(pattern="^[0-9a-f]{16}$", max_length=16),
        ),
    ]
    hypervisorUID: Annotated[
        str,
        Field(
            "UID of the host's Hypervisor, which the content is bound to.",
            limits=Limits(max_length=64),
        ),
    ]
    sealed: Annotated[
        str,
        Field(
            "Base64 of the definitions, compressed and sealed (HPKE, RFC 9180).",
            limits=Limits(max_length=MOST_CHARACTERS),
        ),
    ]


class SealedDefinitions(CustomObject, frozen=True, kw_only=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "kvm.cloud.sap", "v1alpha1", "SealedDefinitions", "sealeddefinitions", "Namespaced"
    )
    definition: ClassVar[Definition] = Definition(
        "The definitions of a host's domains, sealed for the operator.",
        columns=(
            Column("Key", "string", ".spec.key"),
            Column("Age", "date", ".metadata.creationTimestamp"),
        ),
        root_required=("spec",),
    )

    spec: Annotated[SealedDefinitionsSpec, Field("What the node agent has sealed.")]

    def __repr__(self) -> str:
        meta, spec = self.metadata, self.spec
        size = len(spec.sealed)
        return f"SealedDefinitions({meta.namespace}/{meta.name}, {spec.key}, {size} characters)"
