"""Run the unit tests of each module of rules on each of its mutants: `make mutants`.

    python -m tests.mutants [MODULE…]

`modules.toml` names the modules, their tests, and the mutants that may live with the reason why.
Ends with 1 when less than 90 % of a module's mutants are killed, when one that is not argued lives,
or when one that is argued is dead.
"""

from __future__ import annotations

import ast
import importlib.machinery
import os
import signal
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.mutants.mutate import Mutant, mutants
from tests.pages import ROOT

AIM: Final = 0.9
_SECONDS: Final = 60
"""For the tests of one mutant; one that hangs is dead."""
_WARM: Final = ("hypothesis", "pytest_asyncio", "looptime", "cryptography.x509", "httpx2")


class Survivor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant that may live: where, which, and why no test can or need tell it."""

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


def modules() -> tuple[Module, ...]:
    """What `modules.toml` lists."""
    text = Path(__file__).with_name("modules.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["module"], tuple[Module, ...])


def passes(module: Module, tree: ast.Module) -> int:
    """Run the module's tests on a tree of it; ends this process, with pytest's code."""
    loader = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> object:
        if self.path == str(module.source):
            return compile(tree, self.path, "exec", dont_inherit=True)
        return original(self, fullname)

    loader.get_code = get_code  # type: ignore[method-assign, assignment]
    tests = (str(ROOT / "tests/unit" / one) for one in module.tests)
    off = [f"-pno:{plugin}" for plugin in ("randomly", "cacheprovider", "xdist")]
    imported_before = "-Wignore::pytest.PytestAssertRewriteWarning"
    return pytest.main(["-xq", imported_before, *off, *tests])


def begin(module: Module, tree: ast.Module) -> int:
    """Start the tests in a process of their own; gives its id."""
    if pid := os.fork():
        return pid
    code = 2
    try:
        signal.alarm(_SECONDS)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        code = passes(module, tree)
    finally:
        os._exit(code)


def living(module: Module, trees: Iterable[Mutant]) -> Iterator[Mutant]:
    """The mutants that pass the tests."""
    running: dict[int, Mutant] = {}
    waiting = iter(trees)
    while True:
        while len(running) < (os.cpu_count() or 1) and (mutant := next(waiting, None)):
            running[begin(module, mutant.tree)] = mutant
        if not running:
            return
        pid, status = os.wait()
        ended = running.pop(pid)
        if status == 0:
            yield ended


def judge(module: Module) -> list[str]:
    """Print what becomes of a module's mutants; gives the faults."""
    began = time.monotonic()
    source = module.source.read_text(encoding="utf-8")
    _, status = os.waitpid(begin(module, ast.parse(source)), 0)
    if status:
        return [f"{module.path}: its tests fail without any change"]
    every = list(mutants(source))
    alive = sorted(living(module, every), key=lambda one: one.line)
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
