"""ConfigMaps that tests of the server write."""

from __future__ import annotations

from pathlib import Path

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def flip(file: Path, text: bytes) -> None:
    """Change one bit wherever the text stands in the file."""
    data = file.read_bytes()
    assert text in data
    file.write_bytes(data.replace(text, text[:-1] + bytes([text[-1] ^ 1])))
