"""`python -m hypercobalt.virt.handler DESCRIPTOR`: what `cobalt virt-handler` becomes."""

from __future__ import annotations

import sys

from hypercobalt.runtime.process import main
from hypercobalt.virt.handler.process import run
from hypercobalt.virt.handler.settings import VirtHandlerSettings

if __name__ == "__main__":
    sys.exit(main(VirtHandlerSettings, run))
