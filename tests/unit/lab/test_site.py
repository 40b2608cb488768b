from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.apiserver.storage.database import Database
from hypercobalt.errors import ConfigurationError
from hypercobalt.lab.site import down


async def test_down_removes_the_data_of_an_up_that_served_the_api_alone(tmp_path: Path) -> None:
    api = tmp_path / "lab" / "api"
    database = Database(api)
    (api / "pki").mkdir()
    (api / "pki" / "ca.key").touch()
    with pytest.raises(ConfigurationError, match="is in use by process"):
        await down(tmp_path / "lab")
    database.start(lambda _: None)
    database.close()

    assert await down(tmp_path / "lab")

    assert not (tmp_path / "lab").exists()
    assert not await down(tmp_path / "lab")


async def test_down_keeps_an_api_directory_that_is_no_servers(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "notes").touch()
    assert not await down(tmp_path)
    assert (tmp_path / "api" / "notes").exists()
