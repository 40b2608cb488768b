"""The command line of `cobalt capture`."""

from __future__ import annotations

import pytest

from hypercobalt.cli import app


@pytest.mark.parametrize("flag", [("-w", "-"), ("--write", "-"), ("-w-",), ("-w", "file")])
def test_a_capture_goes_to_a_file_or_to_standard_output(flag: tuple[str, ...]) -> None:
    _, bound, _ = app.parse_args(["capture", "kvm-1", "tap1", *flag], exit_on_error=False)
    assert bound.arguments["write"] in {"-", "file"}


def test_a_capture_without_a_file_s_name_is_refused() -> None:
    with pytest.raises(Exception, match="requires an argument"):
        app.parse_args(["capture", "kvm-1", "tap1", "-w"], exit_on_error=False)
