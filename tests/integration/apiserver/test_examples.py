"""The objects of examples/ are taken as they are, with nothing in them that would be dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hypercobalt.api import crd

from .conftest import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = [Path(__file__).resolve().parents[3] / "examples/hypervisor.yaml"]
PATHS = {
    kind.resource.kind: f"/apis/{kind.resource.api_version}/{kind.resource.plural}"
    for kind in crd.KINDS
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
async def test_an_example_can_be_applied(shared: Client, file: Path) -> None:
    given: dict[str, Any] = yaml.safe_load(file.read_bytes())
    path = f"{PATHS[given['kind']]}/{given['metadata']['name']}"
    answer = await shared.patch(
        path,
        content=file.read_bytes(),
        headers={"content-type": "application/apply-patch+yaml"},
        params={"fieldManager": "a-person", "fieldValidation": "Strict"},
    )
    assert answer.status_code == 201, answer.text
    kept = answer.json()["spec"]
    assert {name: kept.get(name) for name in given["spec"]} == given["spec"]
