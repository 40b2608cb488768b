"""What every ring of tests needs."""

from __future__ import annotations

import signal

# A shell makes its background jobs ignore Ctrl-C, and what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
