from __future__ import annotations

import subprocess
import sys


def test_openstack_is_loaded_only_by_an_operator_that_uses_it() -> None:
    code = (
        "import sys; import hypercobalt.cli, hypercobalt.compute.connect;"
        "print(sorted({'openstack', 'keystoneauth1', 'requests'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
