"""Random damage to good requests, from a fixed seed: a Status below 500, and the server goes on."""

from __future__ import annotations

import pytest

from .conftest import Client
from .damage import Damage, check, prepare, request

pytestmark = pytest.mark.timeout(180)  # 1,200 requests, beside two other rings

ROUNDS = 1200


@pytest.mark.parametrize("seed", [1, 2])
async def test_damaged_requests_get_a_status_below_500(api: Client, seed: int) -> None:
    damage = Damage(seed)
    await prepare(api)
    codes: dict[int, int] = {}
    for number in range(ROUNDS):
        method, path, rest = request(damage)
        answer = await api.request(method, path, **rest)
        codes[answer.status_code] = codes.get(answer.status_code, 0) + 1
        about = f"seed {seed}, request {number}: {method} {path} {rest} -> {answer.text[:400]}"
        if answer.status_code >= 500 and answer.status_code not in (501, 504):
            # Some errors of a client kube-apiserver answers with 500 and no reason, and so do we.
            assert "reason" not in answer.json(), about
        if answer.status_code >= 400 and answer.text != "404 page not found\n":
            assert answer.json()["kind"] == "Status", about
            assert answer.json()["code"] == answer.status_code, about
        if number % 100 == 0:
            await check(api)
    await check(api)
    assert codes[200] > ROUNDS / 10, codes  # enough of it got through to do harm
    assert codes[201] > ROUNDS / 50, codes
