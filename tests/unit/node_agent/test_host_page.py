"""docs/host.md and the code name the same flags, defaults and variables of the node agent."""

from __future__ import annotations

import re

from tests.pages import ROOT, flag_rows, flags, section, shown

from hypercobalt.cli.node_agent import NodeAgentFlags, node_agent

PAGE = (ROOT / "docs/host.md").read_text()
NO_EFFECT = {
    "--leader-elect",
    "--enable-http2",
    "--zap-devel",
    "--zap-stacktrace-level",
    "--zap-time-encoding",
}


def test_flags_are_those_of_the_code_with_their_defaults() -> None:
    known, named = flags(node_agent), set[str]()
    for cells in flag_rows(section(PAGE, "## Flags")):
        here = re.findall(r"`(--[a-z0-9-]+)`", cells[0])
        named.update(here)
        if len(here) > 1:
            assert set(here) == NO_EFFECT
            continue
        assert cells[1].strip("`") == shown(known[here[0]][0]), here
    assert named == set(known)


def test_variables_are_those_that_are_read() -> None:
    read: set[str] = set()

    class Recorded(dict[str, str]):
        def get(self, key: str, default: object = None) -> None:  # type: ignore[override]
            read.add(key)

    NodeAgentFlags().settings(Recorded(), "kvm-1")
    text = section(PAGE, "## Flags")
    assert read
    assert {name for name in read if f"`{name}`" not in text} == set()
