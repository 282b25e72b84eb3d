"""ATen ops that are not imported, with the reason and an alternative."""

from __future__ import annotations

DEFAULT = ("aotc has no such op", "replace it, or compute it outside of the model")
NOT_COMPLEX = ("aotc has it for real numbers only", "compute with the parts")

RANDOM = (
    "it draws random numbers from a hidden state",
    "call .eval() on the module, or take the random numbers as an input",
)
_BY_VALUES = (
    "the shape of its result depends on values",
    "compute a result of fixed shape, for instance with torch.where",
)
PADDED = (
    "sizes of its operands depend on values, and aotc has no rule for their padding",
    "bring them to a known size before it, as sum, mean and index_add do",
)
_DERIVATIVE = (
    "it belongs to a derivative that PyTorch took",
    "import the model itself, and take derivatives with aotc.grad",
)
_PACKED = (
    "its integers lie as the device that packed them reads them",
    "quantise with IntxWeightOnlyConfig(torch.int4, PerGroup(32)) of torchao, which "
    "keeps them in order",
)
_SPARSE = ("aotc has dense arrays only", "convert it with to_dense()")

_FAMILIES: dict[tuple[str, str], tuple[str, ...]] = {
    RANDOM: (
        "aten.rand",
        "aten.rand_like",
        "aten.randn",
        "aten.randn_like",
        "aten.randint",
        "aten.randint_like",
        "aten.randperm",
        "aten.normal",
        "aten.normal_functional",
        "aten.bernoulli",
        "aten.multinomial",
        "aten.poisson",
        "aten.exponential",
        "prims.uniform",
        "prims.normal",
    ),
    _BY_VALUES: (
        "aten.unique_dim",
        "aten.unique_consecutive",
    ),
    _DERIVATIVE: (
        "aten.convolution_backward",
        "aten._adaptive_avg_pool2d_backward",
        "aten.avg_pool2d_backward",
    ),
    _PACKED: (
        "aten._weight_int4pack_mm",
        "aten._weight_int4pack_mm_for_cpu",
        "aten._dyn_quant_matmul_4bit",
    ),
    _SPARSE: (
        "aten._to_sparse",
        "aten.sparse_sampled_addmm",
        "aten._sparse_mm_reduce_impl",
    ),
}

REFUSED = {name: why for why, names in _FAMILIES.items() for name in names}
