"""`python -m hypercobalt.virt.controller DESCRIPTOR`: what `cobalt virt-controller` becomes."""

from __future__ import annotations

import sys

from hypercobalt.runtime.process import main
from hypercobalt.virt.controller.process import VirtControllerSettings, run

if __name__ == "__main__":
    sys.exit(main(VirtControllerSettings, run))
