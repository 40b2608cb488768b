"""Kubeconfig files for the server's clients. A file that holds anything else is left as it is."""

from __future__ import annotations

import base64
import errno
from pathlib import Path

import msgspec
import yaml

from hypercobalt.errors import ConfigurationError
from hypercobalt.pki import Pair, write_secret

NAME = "cobalt"  # of the cluster, the user and the context


class _Entry(msgspec.Struct, frozen=True):
    name: str


class _Config(msgspec.Struct, frozen=True):
    clusters: tuple[_Entry, ...] | None = None
    users: tuple[_Entry, ...] | None = None
    contexts: tuple[_Entry, ...] | None = None


def render(server: str, ca: bytes, client: Pair) -> bytes:
    """A kubeconfig with everything in it, for kubectl and for our own processes."""
    pair = {"client-certificate": client.certificate, "client-key": client.key}
    return _render(server, ca, {f"{name}-data": _packed(data) for name, data in pair.items()})


def render_token(server: str, ca: bytes, token_file: str, namespace: str = "default") -> bytes:
    """A kubeconfig for a process whose token is in a file, from the kubeconfig's own folder."""
    return _render(server, ca, {"tokenFile": token_file}, namespace)


def _render(server: str, ca: bytes, user: dict[str, str], namespace: str = "default") -> bytes:
    cluster = {"server": server, "certificate-authority-data": _packed(ca)}
    context = {"cluster": NAME, "user": NAME, "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": context}],
        "current-context": NAME,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


def write(path: Path, data: bytes) -> None:
    """Write what `render` made, where there is nothing or something that it made before.

    A symbolic link stays one.

    Raises:
        ConfigurationError: the file cannot be written, or what is in it is not ours.
    """
    try:
        old = _read(path)
        if old == data:
            return
        if foreign := _foreign(old):
            raise ConfigurationError(
                f"kubeconfig {path} is not replaced: {foreign}; "
                "name another file with --kubeconfig, or remove this one"
            )
        write_secret(path.resolve(), data)
    except OSError as error:
        why = f"kubeconfig {path} cannot be written: {error.strerror}"
        raise ConfigurationError(f"{why}; name another file with --kubeconfig") from error


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _foreign(data: bytes) -> str:
    """What a file has that is not ours; empty if nothing."""
    if not data.strip():
        return ""
    try:
        config = msgspec.convert(yaml.safe_load(data), _Config)
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError):
        return "it is not a kubeconfig"
    for part, entries in (
        ("cluster", config.clusters),
        ("user", config.users),
        ("context", config.contexts),
    ):
        for entry in entries or ():
            if entry.name != NAME:
                return f"it has the {part} {entry.name!r}"
    return ""
