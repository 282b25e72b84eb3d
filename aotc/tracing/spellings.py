"""Spellings in aotc of names from NumPy, PyTorch and JAX.

Tables of names, and a search by likeness for what is in no table. Messages quote them;
nothing is renamed silently, because arguments and defaults differ as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module

# Public modules in the order of likelihood.
MODULES = (
    "aotc.numpy", "aotc.nn", "aotc.linalg", "aotc.random", "aotc.special", "aotc.fft",
    "aotc.optim", "aotc.control", "aotc.debug", "aotc.complexes", "aotc",
)  # fmt: skip

# keyword → parameters of the same meaning; the first that a function has is meant
KEYWORDS: dict[str, tuple[str, ...]] = {
    "dim": ("axis", "axes"),
    "dims": ("axis", "axes", "shape"),
    "axis": ("axes",),
    "axes": ("axis",),
    "keepdim": ("keepdims",),
    "keep_dims": ("keepdims",),
    "input": ("x", "a", "logits", "ar"),
    "other": ("x2", "y", "b"),
    "p": ("rate",),
    "eps": ("epsilon",),
    "epsilon": ("eps",),
    "kernel_size": ("window",),
    "stride": ("strides",),
    "weight": ("kernel", "scale", "table", "weights"),
    "lr": ("learning_rate",),
    "correction": ("ddof",),
    "size": ("shape",),
    "target": ("labels", "targets"),
}

# keyword → why it has no counterpart
NO_KEYWORD = {
    "inplace": "arrays never change and results are new ones",
    "out": "arrays never change and results are new ones",
    "device": "the target is chosen by the build: aotc build --target",
    "requires_grad": "aotc.grad says what is differentiated",
    "training": "call the function in the training step only",
    "generator": "random functions take a key first: aotc.random.key(0)",
    "rng": "random functions take a key first: aotc.random.key(0)",
}

_NO_GRAPH = "there is no recorded graph: aotc.grad differentiates functions"
_NO_VALUE = "a traced array has no value yet; return it, or aotc.debug.print it"
_NO_DEVICE = "leave it out: the target is chosen by the build, aotc build --target"
_REASONS = {_NO_GRAPH, _NO_VALUE, _NO_DEVICE}

# attribute of an array → what to write; {} stands for the array
ATTRIBUTES = {
    "unsqueeze": "aotc.numpy.expand_dims({}, axis)",
    "permute": "{}.transpose(axes)",
    "view": "{}.reshape(shape)",
    "reshape_as": "{}.reshape(other.shape)",
    "flatten": "{}.reshape(shape)",
    "size": "{}.shape[axis], or {}.shape for all sizes",
    "dim": "{}.ndim",
    "numel": "{}.size",
    "mm": "{} @ other",
    "bmm": "{} @ other",
    "mv": "{} @ other",
    "t": "{}.T",
    "mT": "aotc.numpy.matrix_transpose({})",
    "H": "{}.T",
    "expand": "aotc.numpy.broadcast_to({}, shape)",
    "expand_as": "aotc.numpy.broadcast_to({}, other.shape)",
    "masked_fill": "aotc.numpy.where(mask, value, {})",
    "gather": "aotc.numpy.take_along_axis({}, indices, axis)",
    "scatter": "{}.at[indices].set(values)",
    "scatter_add": "{}.at[indices].add(values)",
    "index_select": "aotc.numpy.take({}, indices, axis)",
    "index_add": "{}.at[indices].add(values)",
    "chunk": "aotc.numpy.split({}, sections, axis)",
    "clamp": "aotc.numpy.clip({}, min, max)",
    "type": "{}.astype(dtype)",
    "to": "{}.astype(dtype)",
    "float": '{}.astype("f32")',
    "half": '{}.astype("f16")',
    "bfloat16": '{}.astype("bf16")',
    "double": '{}.astype("f64")',
    "int": '{}.astype("i32")',
    "long": '{}.astype("i64")',
    "bool": '{}.astype("bool")',
    "fill": "aotc.numpy.full_like({}, value)",
    "sort": "aotc.numpy.sort({})",
    "copy": "{} itself: arrays never change",
    "clone": "{} itself: arrays never change",
    "contiguous": "{} itself: the compiler chooses layouts",
    "detach": "aotc.nn.stop_gradient({})",
    "norm": "aotc.linalg.norm({})",
    "backward": _NO_GRAPH,
    "grad": _NO_GRAPH,
    "requires_grad": _NO_GRAPH,
    "requires_grad_": _NO_GRAPH,
    "numpy": _NO_VALUE,
    "block_until_ready": _NO_VALUE,
    "cpu": _NO_DEVICE,
    "cuda": _NO_DEVICE,
    "device": _NO_DEVICE,
}

# name of a function or class → what to write
FUNCTIONS = {
    "cat": "aotc.numpy.concatenate(arrays, axis)",
    "unsqueeze": "aotc.numpy.expand_dims(x, axis)",
    "permute": "aotc.numpy.transpose(x, axes)",
    "clamp": "aotc.numpy.clip(x, min, max)",
    "mm": "aotc.numpy.matmul(x, y)",
    "bmm": "aotc.numpy.matmul(x, y)",
    "gather": "aotc.numpy.take_along_axis(x, indices, axis)",
    "masked_fill": "aotc.numpy.where(mask, value, x)",
    "tensor": "aotc.numpy.asarray(values, dtype)",
    "from_numpy": "aotc.numpy.asarray(values)",
    "randn": "aotc.random.normal(key, shape), with key = aotc.random.key(0)",
    "rand": "aotc.random.uniform(key, shape), with key = aotc.random.key(0)",
    "manual_seed": "key = aotc.random.key(seed), given to each random function",
    "seed": "key = aotc.random.key(seed), given to each random function",
    "PRNGKey": "aotc.random.key(seed)",
    "default_rng": "key = aotc.random.key(seed), given to each random function",
    "Linear": "aotc.nn.dense(x, kernel, bias); layers are functions",
    "linear": "aotc.nn.dense(x, kernel, bias), kernel: (inputs, outputs)",
    "Dense": "aotc.nn.dense(x, kernel, bias); layers are functions",
    "Embedding": "aotc.nn.embedding(table, indices); layers are functions",
    "Dropout": "aotc.nn.dropout(key, x, rate); layers are functions",
    "Sequential": "a function that calls one layer after the other",
    "Module": "a function of (weights, x); aotc.from_torch takes a torch.nn.Module",
    "functional": "aotc.nn itself: its layers are functions",
    "Parameter": "aotc.Weights in an entry, aotc.State where it is trained",
    "compile": "aotc.entry: aotc build compiles every entry; aotc.jit when called",
    "no_grad": "aotc.nn.stop_gradient(x)",
    "tree_map": "a dict comprehension, or aotc.optim for parameters",
    "lax": "aotc.control, which has scan, cond, while_loop, fori_loop",
    "newaxis": "None as an index: x[:, None]",
}

# names of submodules that other packages have
SUBMODULES = {
    "random": "from aotc import random",
    "linalg": "from aotc import linalg",
    "fft": "from aotc import fft",
    "nn": "from aotc import nn",
}


def keyword_advice(keyword: str, parameters: Sequence[str]) -> str:
    """Return advice on a keyword argument that a function does not take, or ""."""
    for name in KEYWORDS.get(keyword, ()):
        if name in parameters:
            return f"write {name}= for {keyword}="
    if keyword in NO_KEYWORD:
        return f"leave out {keyword}=, as {NO_KEYWORD[keyword]}"
    close = get_close_matches(keyword, parameters, n=1)
    return f"did you mean {close[0]}=?" if close else ""


def attribute_advice(name: str, array: str) -> str:
    """Return advice on an attribute that arrays lack, or ""."""
    if name in ATTRIBUTES:
        instead = ATTRIBUTES[name].replace("{}", array)
        return instead if instead in _REASONS else f"write {instead}"
    found = exact_names(name)
    if found:
        return f"write {found[0]}({array})"
    plain = name.rstrip("_")
    if plain != name and not name.startswith("_"):
        return f"arrays never change: write {array} = {plain}({array}, …)"
    return ""


def name_advice(name: str, module: str) -> str:
    """Return advice on a name that a public module lacks, or ""."""
    if name in SUBMODULES:
        return f"write {SUBMODULES[name]}"
    if name in FUNCTIONS:
        return f"write {FUNCTIONS[name]}"
    found = exact_names(name)
    if found:
        return f"write {found[0]}"
    close = _alike(name, module)
    return f"did you mean {' or '.join(close)}?" if close else ""


def exact_names(name: str) -> list[str]:
    """Return the full names of public functions of this name, such as
    `aotc.numpy.exp`.
    """
    return [f"{module}.{name}" for module in MODULES if name in _public(module)]


@cache
def _public(module: str) -> tuple[str, ...]:
    """Return the public names of a module."""
    return tuple(import_module(module).__all__)


def _alike(name: str, module: str) -> list[str]:
    """Return up to three public names like `name`, those of `module` first."""
    modules = [module, *(other for other in MODULES if other != module)]
    by_plain: dict[str, str] = {}
    for home in modules:
        for public in _public(home):
            by_plain.setdefault(_plain(public), f"{home}.{public}")
    if _plain(name) in by_plain:
        return [by_plain[_plain(name)]]
    own = {_plain(public): f"{module}.{public}" for public in _public(module)}
    for names in (own, by_plain):
        if close := get_close_matches(_plain(name), names, n=3, cutoff=0.75):
            return [names[plain] for plain in close]
    return []


def _plain(name: str) -> str:
    """Return a name in lower case without underscores, for comparison."""
    return name.lower().replace("_", "")


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of some names, or None if none is similar."""
    found = get_close_matches(name, list(names), n=1, cutoff=0.5)
    return found[0] if found else None
