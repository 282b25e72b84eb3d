"""Calls of PyTorch modules: their signatures, and their tensors as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils import _pytree as torch_trees

from aotc.core import dtypes
from aotc.core.pytree import flatten
from aotc.errors import InputError
from aotc.importers.torch.tensors import PARTS, name_of_dtype, numpy_of
from aotc.importers.torch.trees import tree_of
from aotc.just_in_time.signature import CallSignature, StaticArgument

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)
_, _LEAF = flatten(0)


@dataclass(frozen=True)
class _TensorCallForm:
    """The static part of a call signature: argument tree, repeated tensors, default
    dtype.

    Args:
        tree: the containers of the arguments.
        repeated: for each tensor the first that it is.
        dtype: of new tensors.
    """

    tree: torch_trees.TreeSpec
    repeated: tuple[int, ...]
    dtype: torch.dtype

    def __repr__(self) -> str:
        positional, keywords = self.tree.children()
        names = [str(positional.num_children), *map(str, keywords.context)]
        return f"<{', '.join(names)}>"


def signature_of(
    names: Sequence[str], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> CallSignature:
    """Return the signature of a call, which selects its code.

    Tensors are the leaves. Static are the form of the arguments, the numbers and texts
    in them, which arguments are one tensor, and the default dtype.

    Args:
        names: of the positional parameters.
        args: of a call.
        kwargs: likewise.

    Raises:
        InputError: `input-type`: an argument is none that compiled code can take;
            `bad-call`: within torch.autocast.
    """
    if torch.is_autocast_enabled("cpu"):  # which torch.export leaves out
        raise InputError(
            "bad-call", "torch.autocast is on", hint="convert the module before it"
        )
    leaves, form = torch_trees.tree_flatten_with_path((args, kwargs))
    static, tensors = list[tuple[str, StaticArgument]](), []
    for path, leaf in leaves:
        name = _name_of(path, names)
        if isinstance(leaf, torch.Tensor):
            tensors.append((name, leaf))
        elif isinstance(leaf, _PLAIN):
            text = f"{type(leaf).__name__} {leaf!r}"  # -0.0 is not 0.0
            static.append((name, StaticArgument(text)))
        else:
            raise InputError(
                "input-type",
                f"expected tensors, numbers or texts in '{name}'; got "
                f"{type(leaf).__name__}",
                hint="give it as a tensor, or leave the module to PyTorch",
            )
    repeated = _repeated([leaf for _, leaf in tensors])
    whole = _TensorCallForm(form, repeated, torch.get_default_dtype())
    static.append(("arguments", StaticArgument(whole)))
    return CallSignature(
        tuple((name, _LEAF) for name, _ in tensors),
        tuple(_dtype_of(name, leaf) for name, leaf in tensors),
        (False,) * len(tensors),
        tuple(tuple(leaf.shape) for _, leaf in tensors),
        tuple(static),
    )


def _name_of(path: torch_trees.KeyPath, names: Sequence[str]) -> str:
    """Return an argument leaf's name in messages, such as `x` or `cache['keys']`."""
    group, key, *rest = path
    if group.idx == 1:
        own = str(key.key)
    else:
        own = names[key.idx] if key.idx < len(names) else f"args[{key.idx}]"
    return f"{own}{torch_trees.keystr(tuple(rest))}"


def _repeated(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Return, for each tensor, the number of the first identical one: modules ask
    `query is key`.
    """
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(x), number) for number, x in enumerate(tensors))


def _dtype_of(name: str, tensor: torch.Tensor) -> np.dtype:
    """Return a tensor's NumPy dtype; raise an InputError if compiled code cannot take
    it.
    """
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    is_dense = tensor.layout is torch.strided and tensor.device.type == "cpu"
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and not is_wrapped
    if not is_dense or not plain or tensor.is_quantized:
        raise InputError(
            "input-type",
            f"expected a dense tensor in the memory of the processor in '{name}'; got "
            f"{'a wrapped one' if is_wrapped else type(tensor).__name__} of "
            f"{tensor.layout}, {tensor.device}",
            hint="x.to_dense().cpu() is one",
        )
    known = name_of_dtype(tensor.dtype)
    return np.dtype(known) if known in PARTS else dtypes.to_numpy(known)


def arrays_of(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> list[np.ndarray]:
    """Return the tensors of a call as arrays, in the order of its entry's inputs.

    Args:
        args: of the call.
        kwargs: likewise, in the order of the call that was exported.
    """
    found = list[np.ndarray]()
    for argument in (*args, *kwargs.values()):
        leaves, form = torch_trees.tree_flatten(argument)
        arrays = [numpy_of(x) if isinstance(x, torch.Tensor) else None for x in leaves]
        found += flatten(tree_of(form, iter(arrays)))[0]
    return found
