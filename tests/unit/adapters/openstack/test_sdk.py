"""openstacksdk's configuration is imported without its proxies; each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FULL = """
import sys
import hypercobalt.adapters.openstack.sdk as sdk
left = [name for name in sys.modules if name.startswith("openstack.")]
assert "openstack.connection" not in left, left
assert not [name for name in left if name.endswith("._proxy")], left
"""


def run(program: str, path: Path | None = None) -> None:
    front = f"import sys; sys.path.insert(0, {str(path)!r})\n" if path else ""
    done = subprocess.run(
        [sys.executable, "-c", front + program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nothing_but_the_configuration_is_imported() -> None:
    run(FULL)


@pytest.mark.parametrize(
    "later",
    [
        "import openstack; assert callable(openstack.connect)",
        "from openstack import connection; connection.Connection",
        "from openstack import *; assert callable(connect)",
        "import openstack.connection; openstack.connection.Connection; openstack.connect",
        "import openstack.compute.v2.server as one; one.Server",
    ],
)
def test_who_imports_openstacksdk_later_gets_all_of_it(later: str) -> None:
    run(
        f"{FULL}{later}\nimport openstack.config.loader as found\n"
        "assert found.OpenStackConfig is sdk.OpenStackConfig\n"
        "import openstack; assert openstack.config.OpenStackConfig is sdk.OpenStackConfig\n"
        "from openstack import exceptions\n"
        "assert exceptions.ConfigException is sdk.ConfigException"
    )


def test_a_package_that_is_looked_at_is_not_executed() -> None:
    run(
        f"{FULL}import openstack\nassert not hasattr(openstack, '__warningregistry__')\n"
        "assert 'openstack.connection' not in sys.modules"
    )


def test_openstacksdk_that_is_imported_already_stays() -> None:
    run(
        "import openstack\nimport hypercobalt.adapters.openstack.sdk as sdk\n"
        "assert openstack.config.OpenStackConfig is sdk.OpenStackConfig\n"
        "assert '__getattr__' not in vars(openstack)"
    )


def test_a_configuration_that_needs_its_package_is_imported_as_usual(tmp_path: Path) -> None:
    config = tmp_path / "openstack" / "config"
    config.mkdir(parents=True)
    (tmp_path / "openstack" / "__init__.py").write_text("needed = object\n")
    (tmp_path / "openstack" / "exceptions.py").write_text("class ConfigException(Exception): ...\n")
    (config / "__init__.py").write_text("")
    (config / "loader.py").write_text("class OpenStackConfig: ...\n")
    (config / "cloud_region.py").write_text(
        "import openstack\nclass CloudRegion(openstack.needed): ...\n"
    )
    run(
        "import hypercobalt.adapters.openstack.sdk as sdk, openstack\n"
        "assert sdk.CloudRegion.__mro__[1] is openstack.needed",
        tmp_path,
    )
