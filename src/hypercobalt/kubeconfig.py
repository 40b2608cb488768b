"""Address of the API server and our identity: kubeconfig files, in-cluster service account.

The result is a `Connection`: everything checked, paths absolute, inline data decoded. What kubectl
merges is merged ($KUBECONFIG with several files; the first to name an entry wins).

Source: k8s.io/client-go, tools/clientcmd/api/v1 and loader.go; rest.InClusterConfig.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from hypercobalt.errors import ConfigurationError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_FILE = Path("~/.kube/config")


class _Wire(msgspec.Struct, frozen=True, rename="kebab"):
    pass


class ClusterEntry(_Wire, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class ExecVariable(_Wire, frozen=True):
    name: str
    value: str


class ExecEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints credentials."""

    command: str
    api_version: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserEntry(_Wire, frozen=True):
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: ExecEntry | None = None
    auth_provider: dict[str, object] | None = None


class ContextEntry(_Wire, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Wire, frozen=True):
    name: str
    cluster: ClusterEntry = ClusterEntry()


class _NamedUser(_Wire, frozen=True):
    name: str
    user: UserEntry | None = None


class _NamedContext(_Wire, frozen=True):
    name: str
    context: ContextEntry = ContextEntry()


class _File(_Wire, frozen=True):
    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM text: in a file that may be replaced while we run, or given inline."""

    path: Path | None = None
    data: bytes = b""

    def read(self) -> bytes:
        """The text as it is now.

        Raises:
            ConfigurationError: the file cannot be read.
        """
        if self.path is None:
            return self.data
        try:
            return self.path.read_bytes()
        except OSError as exc:
            raise ConfigurationError(f"{self.path}: {exc.strerror}") from exc


@dataclass(frozen=True, slots=True)
class Connection:
    """One API server and one identity. Its repr shows no secret."""

    server: str  # https://host:port
    namespace: str = "default"
    authority: Pem | None = None
    verify: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    user: Identity | None = None

    def __repr__(self) -> str:
        return f"Connection(server={self.server!r}, namespace={self.namespace!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """Who we are to the API server. Its repr shows no secret."""

    token: str = ""
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    certificate: Pem | None = None
    key: Pem | None = None
    exec: ExecEntry | None = None
    folder: Path = Path()  # relative commands of exec plugins start here


def load(
    path: Path | None = None,
    *,
    context: str | None = None,
    env: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Find the connection as kubectl and in-cluster clients do.

    Order: `path`, $KUBECONFIG, the service account of this pod, ~/.kube/config.

    Args:
        path: a kubeconfig file, from a flag.
        context: name of the context; None takes the file's current one.
        env: the process's environment; None reads os.environ.
        service_account: folder with token, ca.crt and namespace.

    Raises:
        ConfigurationError: nothing found, or what was found is unusable.
    """
    variables = os.environ if env is None else env
    if path is not None:
        return from_files([path], context=context)
    if listed := variables.get("KUBECONFIG"):
        files = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
        present = [file for file in files if file.exists()]
        return from_files(present or files, context=context)
    if variables.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return from_service_account(service_account, variables)
    default = DEFAULT_FILE.expanduser()
    if not default.exists():
        raise ConfigurationError(
            f"no API server is configured: give --kubeconfig or set KUBECONFIG ({default} does not "
            "exist)"
        )
    return from_files([default], context=context)


def clean_token(text: str, about: str) -> str:
    """A token without the white space around it, fit for a header.

    Raises:
        ConfigurationError: it is empty, or has characters that no header carries; the message does
            not show it.
    """
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable():
        what = "has characters that no token has" if token else "is empty"
        raise ConfigurationError(f"{about}: {what}")
    return token


def from_files(paths: Sequence[Path], *, context: str | None = None) -> Connection:
    """The connection of one context of kubeconfig files, merged as kubectl merges them.

    Raises:
        ConfigurationError: unreadable, not a kubeconfig, or the context is incomplete.
    """
    files = [(path.absolute(), _read(path)) for path in paths]
    name = context or next((f.current_context for _, f in files if f.current_context), None)
    where = ", ".join(str(path) for path in paths)
    if not name:
        raise ConfigurationError(
            f"{where}: has no current-context; `kubectl config use-context NAME` sets one"
        )
    _, chosen = _find(
        [(p, c.name, c.context) for p, f in files for c in f.contexts or ()], "context", name, where
    )
    folder, cluster = _find(
        [(p, c.name, c.cluster) for p, f in files for c in f.clusters or ()],
        "cluster",
        chosen.cluster,
        where,
    )
    user = None
    if chosen.user:
        users = [(p, u.name, u.user or UserEntry()) for p, f in files for u in f.users or ()]
        user_folder, entry = _find(users, "user", chosen.user, where)
        user = _user(entry, user_folder, chosen.user)
    return _connection(cluster, folder, user, chosen)


def from_service_account(folder: Path, env: Mapping[str, str]) -> Connection:
    """The connection that a pod has; its token is read again as the kubelet rotates it.

    Raises:
        ConfigurationError: not in a pod.
    """
    try:
        host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
        namespace = (folder / "namespace").read_text().strip()
    except KeyError as exc:
        raise ConfigurationError(f"not in a pod: {exc.args[0]} is not set") from exc
    except OSError as exc:
        raise ConfigurationError(f"{folder}/namespace: {exc.strerror}") from exc
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace,
        authority=Pem(folder / "ca.crt"),
        user=Identity(token_file=folder / "token"),
    )


def _read(path: Path) -> _File:
    try:
        return msgspec.convert(yaml.load(path.read_text(), Loader=yaml.CSafeLoader) or {}, _File)
    except OSError as exc:
        raise ConfigurationError(f"kubeconfig {path}: {exc.strerror}") from exc
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as exc:
        # A YAML error quotes the line, which may hold a token: its place is enough.
        mark = getattr(exc, "problem_mark", None)
        what = f"line {mark.line + 1} is not YAML" if mark else f"no kubeconfig: {exc}"
        raise ConfigurationError(f"kubeconfig {path}: {what}") from None


_Entry = TypeVar("_Entry")


def _find(
    entries: list[tuple[Path, str, _Entry]], kind: str, name: str, where: str
) -> tuple[Path, _Entry]:
    for path, known, entry in entries:
        if known == name:
            return path.parent, entry
    names = ", ".join(sorted({known for _, known, _ in entries})) or "none"
    raise ConfigurationError(f"{where}: {kind} {name!r} is not there; there are: {names}")


def _connection(
    cluster: ClusterEntry, folder: Path, user: Identity | None, context: ContextEntry
) -> Connection:
    if not cluster.server.startswith(("https://", "http://")):
        raise ConfigurationError(
            f"cluster {context.cluster!r}: server {cluster.server!r} must be an http(s) URL"
        )
    return Connection(
        server=cluster.server.rstrip("/"),
        namespace=context.namespace or "default",
        authority=_pem(
            cluster.certificate_authority,
            cluster.certificate_authority_data,
            folder,
            f"cluster {context.cluster!r}: certificate-authority",
        ),
        verify=not cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name or None,
        proxy=cluster.proxy_url or None,
        user=user,
    )


def _user(entry: UserEntry, folder: Path, name: str) -> Identity:
    if entry.auth_provider:
        raise ConfigurationError(
            f"user {name!r}: auth-provider is gone from Kubernetes since 1.26; use an exec plugin"
        )
    about = f"user {name!r}: client-"
    certificate = _pem(
        entry.client_certificate, entry.client_certificate_data, folder, f"{about}certificate"
    )
    key = _pem(entry.client_key, entry.client_key_data, folder, f"{about}key")
    if (certificate is None) != (key is None):
        raise ConfigurationError(f"{about}certificate and client-key are needed together")
    return Identity(
        token=entry.token,
        token_file=folder / entry.token_file if entry.token_file else None,
        username=entry.username,
        password=entry.password,
        certificate=certificate,
        key=key,
        exec=entry.exec,
        folder=folder,
    )


def _pem(path: str, data: str, folder: Path, about: str) -> Pem | None:
    if data:
        try:
            return Pem(data=base64.b64decode(data, validate=True))
        except binascii.Error as exc:
            raise ConfigurationError(f"{about}-data is not base64: {exc}") from None
    return Pem(folder / path) if path else None
