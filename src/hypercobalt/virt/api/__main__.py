"""`python -m hypercobalt.virt.api DESCRIPTOR`: what `cobalt virt-api` becomes."""

from __future__ import annotations

import sys

from hypercobalt.runtime.process import main
from hypercobalt.virt.api.process import VirtAPISettings, run

if __name__ == "__main__":
    sys.exit(main(VirtAPISettings, run))
