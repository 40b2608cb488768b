"""The embedded API server, empty but for the kinds that the operator needs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.prepare import install_definitions, own_definitions
from tests.conformance.targets import embedded_server
from tests.integration.cert_manager import CERT_MANAGER


@contextmanager
def empty_server() -> Iterator[Path]:
    """Run an API server as a process, and yield its administrator's kubeconfig."""
    with (
        tempfile.TemporaryDirectory() as directory,
        embedded_server(Path(directory)) as server,
    ):
        install_definitions(server, [*own_definitions(), CERT_MANAGER])
        yield server.kubeconfig
