"""What a person at a terminal reads when the API server cannot be used."""

from __future__ import annotations

import pytest

from hypercobalt.cli import api_command
from hypercobalt.cli.exit_codes import INVALID_REQUEST, UNAVAILABLE
from hypercobalt.errors import HypercobaltError, InvalidRequestError
from hypercobalt.runtime.client.errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    ForbiddenError,
    Status,
    UnauthorizedError,
)

SERVER = "; check that the API server runs, and `server` in the kubeconfig"


@pytest.mark.parametrize(
    ("error", "code", "way_out"),
    [
        (ConnectionFailedError("cannot connect"), UNAVAILABLE, SERVER),
        (DeadlineExceededError("no answer in 10 s"), UNAVAILABLE, SERVER),
        (
            UnauthorizedError("get Node a", Status(code=401, reason="Unauthorized")),
            UNAVAILABLE,
            "; the credentials in the kubeconfig are invalid, or have expired",
        ),
        (ForbiddenError("get Node a", Status(code=403, message="may not")), UNAVAILABLE, ""),
        (InvalidRequestError("there is no host x"), INVALID_REQUEST, ""),
    ],
)
def test_error_ends_with_its_remedy(
    error: HypercobaltError, code: int, way_out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fails() -> int:
        raise error

    assert api_command.run("explain", fails()) == code
    assert capsys.readouterr().err == f"cobalt explain: {error}{way_out}\n"
