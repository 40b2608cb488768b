"""`python -m hypercobalt.operator DESCRIPTOR`: the process that `cobalt operator` becomes."""

from __future__ import annotations

import sys

from hypercobalt.operator.process import run
from hypercobalt.operator.settings import OperatorSettings
from hypercobalt.runtime.process import main

if __name__ == "__main__":
    sys.exit(main(OperatorSettings, run))
