"""Keeps the last valid document of the HA agent's ConfigMap over a restart: one small file.

JSON: the namespace and name of its ConfigMap, the document, and its hash, by which damage is found.
What cannot be read, is of another ConfigMap, or is not valid to this version counts as nothing.

A disk that fails takes nothing but that memory: errors are logged, and tried again. An older
document never stays where a newer one could not be written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.ha.incidents.config import KEY, HaConfig, InvalidConfigError, hash_of, parse
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents import state_file

log = get_logger(__name__)

NAME: Final = "ha-config.json"
LIMIT: Final = 4 << 20
"""Bytes of the file that are read, at most: a ConfigMap has up to 1 MiB, and JSON escapes."""


@dataclass(frozen=True, slots=True)
class Valid:
    """A valid document, as parsed and as written."""

    config: HaConfig
    document: str
    hash: str


class KeptConfig:
    """The file in a directory.

    Args:
        directory: None keeps nothing.
        about: namespace and name of the ConfigMap.
        sync: has what was written to a file descriptor reach the disk.
    """

    def __init__(
        self, directory: Path | None, about: str, *, sync: state_file.Sync = os.fdatasync
    ) -> None:
        self._path = directory / NAME if directory else None
        self._about, self._sync = about, sync
        self._content: bytes | None = None
        self._complaint = ""

    @property
    def failing(self) -> bool:
        """Whether the last attempt to read or write it has failed."""
        return bool(self._complaint)

    def read(self) -> Valid | None:
        """What was active before; None when nothing that counts was kept."""
        if self._path is None:
            return None
        try:
            with self._path.open("rb") as file:
                content = file.read(LIMIT)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain(error)
            return None
        try:
            valid = decode(content, self._about)
        except InvalidConfigError as error:
            log.warning("kept_config_ignored", file=str(self._path), error=str(error))
            return None
        self._content = content
        return valid

    def write(self, valid: Valid | None) -> None:
        """Keep a document from now on, or none."""
        if self._path is None:
            return
        try:
            if valid is None:
                state_file.remove(self._path, self._sync)
                self._content = None
            else:
                self._replace(self._path, valid)
        except OSError as error:
            self._content = None
            self._complain(error)
            self._remove(self._path)
        else:
            self._complaint = ""

    def _replace(self, path: Path, valid: Valid) -> None:
        content = encode(valid, self._about)
        if content != self._content:
            state_file.replace(path, content, self._sync)
            self._content = content

    def _remove(self, path: Path) -> None:
        try:
            state_file.remove(path, self._sync)
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning("config_not_kept", file=str(self._path), error=self._complaint)


def encode(valid: Valid, about: str) -> bytes:
    """The file's content."""
    return msgspec.json.encode(_Kept(about, valid.hash, valid.document))


def decode(content: bytes, about: str) -> Valid:
    """The document of a file.

    Raises:
        InvalidConfigError: it does not count.
    """
    try:
        found = msgspec.json.decode(content, type=_Kept)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise InvalidConfigError(f"damaged: {exc}") from exc
    if found.config != about:
        raise InvalidConfigError(f"of ConfigMap {found.config}")
    data = {KEY: found.document}
    if found.hash != hash_of(data):
        raise InvalidConfigError("damaged: its hash is another")
    return Valid(parse(data), found.document, found.hash)


class _Kept(msgspec.Struct, frozen=True):
    config: str
    hash: str
    document: str
