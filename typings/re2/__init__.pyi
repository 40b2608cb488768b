from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T", str, bytes)

class error(Exception): ...  # noqa: N801, N818

class Options:
    log_errors: bool

class Match(Generic[T]):
    def group(self) -> T: ...

class Regexp(Generic[T]):
    @property
    def pattern(self) -> T: ...
    def search(self, text: T) -> Match[T] | None: ...
    def finditer(self, text: T) -> Iterator[Match[T]]: ...

def compile(pattern: T, options: Options | None = ...) -> Regexp[T]: ...
