"""The oracle: a real etcd and a real kube-apiserver on free ports, stopped by process id.

Used by the conformance suite, by `scripts/extract-openapi` and by the benchmarks.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "conformance-admin"
TOKENS = f'{TOKEN},admin,admin-uid,"system:masters"\nconformance-bob,bob,bob-uid,"devs,ops"\n'
# Admission that prepares objects for a scheduler, kubelets and controllers, none of which run here
CLUSTER_POLICIES = (
    "ServiceAccount",
    "Priority",
    "DefaultTolerationSeconds",
    "TaintNodesByCondition",
)
_COLLECT_LATE = {"GOGC": "400"}
"""Go frees memory at five times what is in use, not at twice: a fifth less CPU, 110 MiB more."""
READY_SECONDS = 120  # a busy two-core machine needs 15, and one with three other rings over 60


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server and what a client needs to reach it."""

    name: str
    url: str
    ca_file: Path
    kubeconfig: Path
    pids: tuple[int, ...]
    ready_seconds: float
    etcd_url: str = ""  # of the real one

    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))


class StartError(Exception):
    """A server did not come up; the message carries the end of its log."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(
    command: list[str],
    log: Path,
    stop: signal.Signals = signal.SIGTERM,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `command` with its output in `log`; it is gone when the block ends."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
    try:
        yield child
    finally:
        child.send_signal(stop)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(10)


def wait_ready(child: subprocess.Popen[bytes], url: str, ca_file: Path, log: Path) -> float:
    """Poll `url`/readyz until it answers ok, and return how many seconds that took."""
    began = time.monotonic()
    request = urllib.request.Request(f"{url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})  # noqa: S310
    while time.monotonic() - began < READY_SECONDS:
        if child.poll() is not None:
            break
        try:
            context = ssl.create_default_context(cafile=str(ca_file))
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:  # noqa: S310
                if answer.status == 200:
                    return time.monotonic() - began
        except OSError:  # not there yet, not ready yet (an HTTPError), or its CA not written yet
            pass
        time.sleep(0.02)
    tail = log.read_text(errors="replace")[-2000:]
    raise StartError(f"{url} was not ready in {READY_SECONDS} s; its log ends:\n{tail}")


def write_kubeconfig(path: Path, url: str, ca_file: Path, token: str = TOKEN) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [
            {"name": "it", "cluster": {"server": url, "certificate-authority": str(ca_file)}}
        ],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "admin"}}],
        "users": [{"name": "admin", "user": {"token": token}}],
    }
    path.write_text(yaml.safe_dump(config))


def built(script: str) -> str:
    """Return the cached binary that `scripts/SCRIPT` names, and builds when it is missing."""
    done = subprocess.run(
        [ROOT / "scripts" / script], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip().splitlines()[-1]


def _write_certificates(directory: Path) -> tuple[Path, Path, Path]:
    authority = trustme.CA()
    served = authority.issue_cert("127.0.0.1", "localhost")
    ca_file, cert, key = (directory / name for name in ("ca.crt", "tls.crt", "tls.key"))
    authority.cert_pem.write_to_path(str(ca_file))
    cert.write_bytes(b"".join(blob.bytes() for blob in served.cert_chain_pems))
    served.private_key_pem.write_to_path(str(key))
    return ca_file, cert, key


def _write_signing_key(path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


@contextmanager
def real_server(
    directory: Path,
    *,
    as_in_production: bool = False,
    watch_cache: bool = True,
    more: Mapping[str, object] | None = None,
) -> Iterator[Server]:
    """Start etcd and kube-apiserver with their data under `directory`.

    Args:
        directory: an existing empty directory.
        as_in_production: with durable writes, and freeing memory as there; tests need neither.
        watch_cache: answer from memory where possible; without, a compaction of etcd shows at once.
        more: flags of the kube-apiserver, without their dashes.
    """
    directory.chmod(0o700)
    ca_file, cert, key = _write_certificates(directory)
    _write_signing_key(directory / "sa.key")
    (directory / "tokens.csv").write_text(TOKENS)
    etcd_url, peer_url = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    etcd = [
        *(
            built("build-etcd"),
            "--data-dir",
            str(directory / "etcd"),
            "--listen-client-urls",
            etcd_url,
        ),
        *("--advertise-client-urls", etcd_url, "--listen-peer-urls", peer_url),
        *([] if as_in_production else ["--unsafe-no-fsync"]),
    ]
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    flags = {
        "etcd-servers": etcd_url,
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-signing-key-file": directory / "sa.key",
        "service-account-key-file": directory / "sa.key",
        "service-cluster-ip-range": "10.0.0.0/24",
        "token-auth-file": directory / "tokens.csv",
        "client-ca-file": ca_file,
        "authorization-mode": "RBAC",
        "cert-dir": directory / "certs",
        "tls-cert-file": cert,
        "tls-private-key-file": key,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "enable-admission-plugins": "NodeRestriction",
        "disable-admission-plugins": ",".join(CLUSTER_POLICIES),
        "watch-cache": str(watch_cache).lower(),
        **(more or {}),
    }
    apiserver = [built("build-kube-apiserver"), *(f"--{flag}={it}" for flag, it in flags.items())]
    env = {} if as_in_production else _COLLECT_LATE
    with ExitStack() as stack:
        began = time.monotonic()
        etcd_log, log = directory / "etcd.log", directory / "apiserver.log"
        store = stack.enter_context(process(etcd, etcd_log, signal.SIGKILL, env))
        child = stack.enter_context(process(apiserver, log, signal.SIGKILL, env))
        wait_ready(child, url, ca_file, log)
        ready = time.monotonic() - began
        kubeconfig = directory / "kubeconfig"
        write_kubeconfig(kubeconfig, url, ca_file)
        yield Server("real", url, ca_file, kubeconfig, (child.pid, store.pid), ready, etcd_url)
