from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

class CelExtensionBase: ...

class Type:
    BOOL: ClassVar[Type]
    BYTES: ClassVar[Type]
    DOUBLE: ClassVar[Type]
    DURATION: ClassVar[Type]
    DYN: ClassVar[Type]
    ERROR: ClassVar[Type]
    INT: ClassVar[Type]
    NULL: ClassVar[Type]
    STRING: ClassVar[Type]
    TIMESTAMP: ClassVar[Type]
    def __init__(self, signature: str) -> None: ...
    def name(self) -> str: ...
    @staticmethod
    def List(element_type: Type) -> Type: ...  # noqa: N802
    @staticmethod
    def Map(key_type: Type, element_type: Type) -> Type: ...  # noqa: N802

class Value:
    def type(self) -> Type: ...
    def value(self) -> object: ...
    def plain_value(self) -> object: ...

class Activation: ...

class Expression:
    def eval(
        self, activation: Activation | None = ..., *, data: Mapping[str, object] = ...
    ) -> Value: ...
    def return_type(self) -> Type: ...
    def serialize(self) -> bytes: ...

class Overload:
    def __init__(
        self,
        *,
        id: str,
        return_type: Type,
        parameters: Sequence[Type],
        is_member: bool,
        impl: Callable[..., object],
    ) -> None: ...

class FunctionDecl:
    def __init__(self, name: str, overloads: Sequence[Overload]) -> None: ...

class Env:
    def Activation(self, data: Mapping[str, object]) -> Activation: ...  # noqa: N802
    def compile(self, expression: str, disable_check: bool = ...) -> Expression: ...
    def deserialize(self, serialized: bytes) -> Expression: ...

def NewEnv(  # noqa: N802
    *,
    descriptor_pool: object = ...,
    variables: Mapping[str, Type],
    extensions: Sequence[CelExtensionBase],
    functions: Sequence[FunctionDecl] = ...,
) -> Env: ...
