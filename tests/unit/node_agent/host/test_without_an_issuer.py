"""An agent that has a directory for certificates, and no issuer to request them from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from hypercobalt.adapters.host.fake import FakeUnits
from hypercobalt.cli.node_agent import NodeAgentFlags
from hypercobalt.node_agent.agent import _certificates
from hypercobalt.node_agent.host.tls_files import installer
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import SystemClock


def test_it_starts_and_reports_that_none_is_requested(tmp_path: Path) -> None:
    board, nothing = Board(SystemClock()), cast("Any", None)
    given = NodeAgentFlags().settings({"PKI_PATH": str(tmp_path)}, "kvm-a")
    _certificates(given, nothing, nothing, installer(tmp_path, FakeUnits(), board), nothing)
    found = board.parts.conditions["TLSCertificateInstalled"]
    assert found
    assert (found.status, found.reason) == ("False", "RequestFailed")
    assert "ISSUER_NAME is not set" in found.message
    assert list(tmp_path.iterdir()) == []
