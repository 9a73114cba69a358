"""A value of any result type, with something in every field: what can be printed is seen without computing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

PLAIN: dict[type, Any] = {
    inspect.IntType: 3,
    inspect.FloatType: 0.5,
    inspect.StrType: "text",
    inspect.BoolType: True,
    inspect.BytesType: b"bytes",
    inspect.AnyType: "anything",
    inspect.NoneType: None,
}


def example(kind: Any) -> Any:
    """A struct (or any other type that msgspec knows) whose collections have one item, and whose options are set."""
    return _value(inspect.type_info(kind))


def _value(info: inspect.Type) -> Any:
    match info:
        case inspect.Metadata():
            return _value(info.type)
        case inspect.StructType():
            return info.cls(**{field.name: _value(field.type) for field in info.fields})
        case inspect.UnionType():
            return _value(next(one for one in info.types if not isinstance(one, inspect.NoneType)))
        case inspect.DictType():
            return {_value(info.key_type): _value(info.value_type)}
        case inspect.VarTupleType():
            return (_value(info.item_type),)
        case inspect.TupleType():
            return tuple(map(_value, info.item_types))
        case inspect.ListType():
            return [_value(info.item_type)]
        case inspect.LiteralType():
            return info.values[0]
        case inspect.EnumType():
            return next(iter(info.cls))
        case inspect.DataclassType():
            return info.cls(**{field.name: _value(field.type) for field in info.fields})
        case inspect.CustomType(cls=cls) if issubclass(cls, Path):
            return cls("a/path")
    assert type(info) in PLAIN, f"no example of {info}"
    return PLAIN[type(info)]


def is_like(kind: Any, text: str) -> bool:
    """Whether this is JSON with every field of a struct."""
    found = msgspec.json.decode(text)
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}
    return isinstance(found, dict) and fields <= found.keys()
