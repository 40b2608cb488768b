"""Run the unit tests of each module of rules on each of its mutants: `make mutants`.

    python -m tests.mutants [MODULE…]

It takes the processors that it may: `taskset -c 0` leaves it one.

`modules.toml` names the modules, their tests, and the mutants that may live with the reason why.
Ends with 1 when less than 90 % of a module's mutants are killed, when one that is not argued lives,
or when one that is argued is dead.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.machinery
import os
import signal
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.mutants.in_place import in_place
from tests.mutants.mutate import Mutant, mutants
from tests.pages import ROOT
from tests.unit.messages import decide_once

AIM: Final = 0.9
_SECONDS: Final = 60
"""Seconds for the tests of one mutant; a mutant that hangs is dead."""
_WARM: Final = ("hypothesis", "pytest_asyncio", "looptime", "cryptography.x509", "httpx2")


_QUICK: Final = ("-xqs", "--tb=no", "--assert=plain", "-Wignore::pytest.PytestAssertRewriteWarning")


class Survivor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant that may live: where, which, and why no test can or need detect it."""

    place: str
    change: str
    why: str


class Module(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A module of rules, below `src/hypercobalt`, and its tests, below `tests/unit`."""

    path: str
    tests: tuple[str, ...]
    survivors: tuple[Survivor, ...] = ()

    @property
    def source(self) -> Path:
        return ROOT / "src/hypercobalt" / self.path

    @property
    def name(self) -> str:
        return "hypercobalt." + self.path.removesuffix(".py").replace("/", ".")


def modules() -> tuple[Module, ...]:
    """What `modules.toml` lists."""
    text = Path(__file__).with_name("modules.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["module"], tuple[Module, ...])


class Trial:
    """Runs the tests of a module on each of its mutants, in a process each: a plugin of pytest.

    What pytest needs before it imports the first test is made once.
    """

    def __init__(self, module: Module, trees: Iterable[Mutant]) -> None:
        self._module, self._trees = module, trees
        self.alive: list[Mutant] = []
        self.is_child = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool | None:
        """Try each mutant; None in its process, which then collects and runs the tests."""
        running: dict[int, Mutant] = {}
        waiting, at_once = iter(self._trees), len(os.sched_getaffinity(0))
        decide_once(pytest.MonkeyPatch())
        gc.freeze()  # pytest collects garbage at its end: of a process that is shared, all of it
        while True:
            while len(running) < at_once and (mutant := next(waiting, None)):
                pid = os.fork()
                if not pid:
                    self._become(mutant)
                    return None
                running[pid] = mutant
            if not running:
                return True
            pid, status = os.wait()
            ended = running.pop(pid)
            if status == 0:
                self.alive.append(ended)

    def _become(self, mutant: Mutant) -> None:
        self.is_child = True
        signal.alarm(_SECONDS)
        module, tree = self._module, mutant.tree
        if not in_place(importlib.import_module(module.name), module.source, tree):
            _load_instead(module, tree)


def living(module: Module, trees: Iterable[Mutant]) -> list[Mutant]:
    """The mutants that pass the tests, in the order of the source."""
    trial, code = Trial(module, trees), 2
    tests = (str(ROOT / "tests/unit" / one) for one in module.tests)
    off = [f"-pno:{plugin}" for plugin in ("randomly", "cacheprovider", "xdist")]
    try:
        with _silent():
            code = pytest.main([*_QUICK, *off, *tests], [trial])
    finally:
        if trial.is_child:
            os._exit(code)
    return sorted(trial.alive, key=lambda one: one.line)


@contextmanager
def _silent() -> Iterator[None]:
    """Print nothing."""
    sys.stdout.flush()
    kept, null = [os.dup(stream) for stream in (1, 2)], os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        yield
    finally:
        for stream, one in enumerate(kept, start=1):
            os.dup2(one, stream)
            os.close(one)
        os.close(null)


def _load_instead(module: Module, tree: ast.Module) -> None:
    """Have whatever imports the module from now on load a tree of it."""
    for name in [one for one in sys.modules if one.split(".")[0] == "hypercobalt"]:
        del sys.modules[name]
    loader = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> object:
        if self.path == str(module.source):
            return compile(tree, self.path, "exec", dont_inherit=True)
        return original(self, fullname)

    loader.get_code = get_code  # type: ignore[method-assign, assignment]


def _warm(module: Module) -> None:
    """Import what the tests import of the package: once here, not once for each mutant."""
    for test in module.tests:
        text = (ROOT / "tests/unit" / test).read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hypercobalt"):
                importlib.import_module(node.module or "")


def judge(module: Module) -> list[str]:
    """Print the results of a module's mutants; return the faults."""
    began = time.monotonic()
    _warm(module)
    source = module.source.read_text(encoding="utf-8")
    if not living(module, [Mutant("", "", 0, ast.parse(source))]):
        return [f"{module.path}: its tests fail without any change"]
    every = list(mutants(source))
    alive = living(module, every)
    share = 1 - len(alive) / len(every)
    argued = {(one.place, one.change) for one in module.survivors}
    found = {(one.place, one.change) for one in alive}
    took = time.monotonic() - began
    print(f"{module.path}: {share:.0%} of {len(every)} killed, {took:.0f} s", flush=True)  # noqa: T201
    faults = [f"{module.path}: {share:.1%} killed, not {AIM:.0%}"] if share < AIM else []
    faults += [
        f"{module.path}:{one.line} {one.place}: {one.change} lives"
        for one in alive
        if (one.place, one.change) not in argued
    ]
    faults += [
        f"{module.path} {place}: {change} is argued, and dead"
        for place, change in sorted(argued - found)
    ]
    return faults


def main(wanted: list[str]) -> int:
    for name in _WARM:
        with suppress(ImportError):
            __import__(name)  # once here, not once for each mutant
    chosen = [one for one in modules() if not wanted or one.path in wanted]
    found = False
    for module in chosen:
        for fault in judge(module):
            print(f"  {fault}", flush=True)  # noqa: T201
            found = True
    return 1 if found or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
