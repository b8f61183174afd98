"""What code computes, as a digest: for code that has no file, and for functions that hold values."""

import copyreg
import dis
import functools
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from flcert.core.digest import digest, digest_arrays
from flcert.errors import InputError

PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, type(...), type(NotImplemented), range)
COMPILED = (
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
    *(types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType),
)
NO_PART_OF_IT = re.compile(  # places, caches, and what pydantic derives from the rest
    r"__(doc|annotations|dict|weakref|module|slotnames|firstlineno|static_attributes)__|_abc_impl"
    r"|__pydantic_(core_schema|validator|serializer)__"
)


def file_of(module: ModuleType) -> Path | None:
    """The file of a module; None for a notebook, ``python -c`` and a script that came through a pipe."""
    name = getattr(module, "__file__", None)
    return None if name is None or name.startswith("<") else Path(name)


def has_file(home: str) -> bool:
    """Whether the module of this name has a file or is a part of Python, so that its name says what is in it."""
    module = sys.modules.get(home)
    return module is not None and (getattr(module, "__spec__", None) is not None or file_of(module) is not None)


def found_by_name(value: FunctionType | type) -> bool:
    """Whether a class or function is what a module with a file has under its name."""
    found: Any = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value and has_file(value.__module__)


def code_digest(value: Any, other: Callable[[Any], Any] | None = None) -> str:
    """A digest of what a class or function computes, wherever it stands in its text.

    It covers the code, defaults, closures, class attributes and base classes. In code of a module that has no file, it
    also follows the global names that the code reads, once each, to functions, classes and values. Values enter by
    value, arrays and tensors by their bytes, and other objects by what pickle would keep of them. What can be imported
    enters by its name. Names that code looks up by text, as in ``globals()["a"]``, are not seen.

    Args:
        value: the class or function.
        other: what to digest in place of an object that is no plain value, container, array, class or function.

    Raises:
        InputError: the code uses an object that cannot be pickled, so that nobody could tell whether it has changed.
    """
    return digest(_Reader(value, other).tell(value), 16)


class _Reader:
    """Turns code into text; what it has met before is told by a number."""

    def __init__(self, root: Any, other: Callable[[Any], Any] | None) -> None:
        self._root, self._other = root, other
        self._seen: dict[int, tuple[int, Any]] = {}  # objects too, which keeps their ids from being used again

    def tell(self, value: Any) -> str:
        """A text that differs if what the value is or computes differs."""
        if type(value) in PLAIN:
            return f"{type(value).__name__} {value!r}"
        if id(value) in self._seen:
            return f"again {self._seen[id(value)][0]}"
        self._seen[id(value)] = len(self._seen), value
        return f"{type(value).__qualname__}({self._inside(value)})"

    def _all(self, *values: Any) -> str:
        return ", ".join(map(self.tell, values))

    def _inside(self, value: Any) -> str:
        match value:
            case ModuleType():
                return value.__name__
            case FunctionType():
                return self._function(value)
            case type():
                return self._class(value)
            case CodeType():
                return self._all(*_parts(value))
            case staticmethod() | classmethod() | MethodType():
                return self._all(value.__func__, getattr(value, "__self__", None))
            case property():
                return self._all(value.fget, value.fset, value.fdel)
            case functools.cached_property():
                return self.tell(value.func)
            case functools.partial():
                return self._all(value.func, value.args, value.keywords)
        return self._value(value)

    def _value(self, value: Any) -> str:
        if type(value) in (list, tuple):
            return self._all(*value)
        if type(value) in (set, frozenset):
            return self._all(*sorted(value, key=repr))
        if type(value) in (dict, MappingProxyType):
            return self._all(*(part for item in value.items() for part in item))
        if (type(value) is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
            return digest_arrays(np.asarray(value))
        if _is_tensor(value):
            torch = sys.modules["torch"]
            raw = value.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten().view(torch.uint8)
            return f"{value.dtype} {tuple(value.shape)} {value.requires_grad} {digest_arrays(raw.numpy())}"
        if isinstance(value, functools._lru_cache_wrapper):
            return self.tell(value.__wrapped__)
        if isinstance(value, COMPILED):
            return f"{_home(value)}.{value.__qualname__} {self.tell(getattr(value, '__self__', None))}"
        return self._object(value)

    def _in_root(self, value: FunctionType | type) -> bool:
        """Whether a class or function is the one that was asked for, or stands in it."""
        root = f"{_home(self._root)}:{getattr(self._root, '__qualname__', '')}."
        return f"{value.__module__}:{value.__qualname__}.".startswith(root)

    def _function(self, value: FunctionType) -> str:
        home = str(value.__globals__.get("__name__"))
        name = f"{home}.{value.__qualname__}"
        if found_by_name(value) and not self._in_root(value):
            return f"{value.__module__}.{value.__qualname__}"
        held = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
        what: list[Any] = [value.__code__, held, value.__defaults__, value.__kwdefaults__, vars(value)]
        if not has_file(home):
            reads = sorted(set(_globals_of(value.__code__)) & value.__globals__.keys())
            what.append({key: value.__globals__[key] for key in reads})
            what.append(value.__annotations__)  # by which options become numbers or texts
        return f"{name} {self._all(*what)}"

    def _class(self, value: type) -> str:
        name = f"{_home(value)}.{value.__qualname__}"
        if found_by_name(value) and not self._in_root(value):
            return name
        told = {key: part for key, part in sorted(vars(value).items()) if not NO_PART_OF_IT.fullmatch(key)}
        return f"{name} {self._all(type(value), value.__bases__, told)}"

    def _object(self, value: Any) -> str:
        if self._other:
            return self.tell(self._other(value))
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            kept = reduce(value) if reduce else value.__reduce_ex__(4)
            parts = [kept] if isinstance(kept, str) else kept
            return self._all(type(value), *(list(part) if isinstance(part, Iterator) else part for part in parts))
        except InputError:
            raise
        except Exception as error:  # a user's class may raise anything
            name = getattr(self._root, "__qualname__", type(self._root).__qualname__)
            raise InputError(
                f"{name!r} uses an object of {type(value).__qualname__}, and cannot be told from its older versions "
                f"({type(error).__name__}: {error}): put it into a module of its own"
            ) from None


def _is_tensor(value: Any) -> bool:
    """Whether a value is a tensor that has bytes; torch is not imported for it, since few commands need torch."""
    torch = sys.modules.get("torch")
    if torch is None or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return value.layout is torch.strided and not value.is_quantized and not value.is_meta


def _parts(code: CodeType) -> list[Any]:
    """Everything in a code object but the places in its text."""
    numbers = [code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    return [code.co_code, code.co_exceptiontable, *numbers, *names, code.co_consts]


def _globals_of(code: CodeType) -> Iterator[str]:
    """The global names that a code object and those inside it read."""
    for one in dis.get_instructions(code):
        if one.opname == "LOAD_NAME" or ("LOAD" in one.opname and "GLOBAL" in one.opname):
            yield str(one.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:  # of a name that has no value yet
        return False


def _home(value: Any) -> str:
    return str(getattr(value, "__module__", None))
