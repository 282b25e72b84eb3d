"""Sizes that values decide, in PyTorch modules: masks, routing to experts, item()."""

import iree.runtime as iree
import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.backend import compile_targets
from aotc.core.pytree import flatten
from aotc.errors import InputError
from aotc.importers.common.padded.sizes import is_data_dependent
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.pipeline import lower
from aotc.tracing.assembly import trace

torch = pytest.importorskip("torch")

from aotc.importers.torch import ops  # noqa: E402
from aotc.importers.torch.ops.padded import PADDED  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order_of_tests():
    torch.manual_seed(0)


torch.manual_seed(0)
MIXED = torch.randn(5, 3)
ALL, NONE, ONE = MIXED.abs(), -MIXED.abs(), -MIXED.abs()
ONE[2] = 1.0
ODD = torch.tensor([[3.0, torch.nan, 0], [torch.inf, 1, 1], [2, -torch.inf, 2]])
SOME = (MIXED, ALL, ONE)
ANY = (*SOME, NONE, torch.randn(7, 3), torch.zeros(1, 3))


class Call(torch.nn.Module):
    """A module that calls a function, with a matrix if it takes one."""

    def __init__(self, function, with_weight=False):
        super().__init__()
        self.function = function
        if with_weight:
            self.weight = torch.nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        return self.function(x, *self.parameters())


class Expert(torch.nn.Module):
    """A gated perceptron."""

    def __init__(self):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(8, 6, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(6, 8, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(torch.nn.Module):
    """A block of experts as the architectures of `transformers` write it."""

    def __init__(self, experts=3, k=2):
        super().__init__()
        self.router, self.k = torch.nn.Linear(8, experts, bias=False), k
        self.experts = torch.nn.ModuleList(Expert() for _ in range(experts))
        for weight in self.parameters():
            torch.nn.init.normal_(weight)

    def forward(self, hidden):
        batch, length, width = hidden.shape
        rows = hidden.view(-1, width)
        weights = F.softmax(self.router(rows), dim=1, dtype=torch.float)
        weights, chosen = torch.topk(weights, self.k, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(rows.dtype)
        final = torch.zeros((batch * length, width), dtype=rows.dtype)
        mask = F.one_hot(chosen, num_classes=len(self.experts)).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            idx, top_x = torch.where(mask[number])
            current = rows[None, top_x].reshape(-1, width)
            current = expert(current) * weights[top_x, idx, None]
            final.index_add_(0, top_x, current.to(rows.dtype))
        return final.reshape(batch, length, width)


def sums(x):
    y = x[x[:, 0] > 0]
    truths = (y > 1).any(0), (y > -1).all(), torch.count_nonzero(y)
    spread = *torch.var_mean(y, 0), y.std(), y.mean(), y.norm()
    return (x[x > 0].sum(), y.mean(0), y.prod(), y.shape[0], *truths, *spread)


def extremes(x):
    y = x[x[:, 0] > 0]
    return y.amax(0), y.max(), y.argmax(), y.min(0)[1], y[0], y[-1], x[x > 0].topk(1)[0]


def rows(x):
    y = x[x[:, 0] > 0]
    both = y.T @ y, (y @ y.T).sum(), F.layer_norm(y, (3,)).sum(0)
    across = torch.softmax(y, 0).square().sum(0), torch.softmax(y, 1).square().sum(0)
    scans = y.cumsum(0).sum(0), torch.log_softmax(y, 0).sum(0)
    outer = torch.einsum("ni,nj->ij", y, y), (y @ x[x[:, 1] > 0].T).sum()
    return (*both, *across, *scans, *outer, x.sum() / y.shape[0])


def shapes(x):
    y = x[x[:, 0] > 0]
    joined = torch.cat([y, x, x[x[:, 1] > 0]]).cumsum(0).mean(0)
    beside = torch.cat([y, y], 1).sum(0), torch.stack([y, y * 2]).sum((0, 1))
    moved = y.T.contiguous().sum(1), y.flip(1).sum(0), y.repeat(1, 2).sum(0)
    wide = y.unsqueeze(1).expand(-1, 2, 3).sum((0, 1)), y.reshape(-1).sum()
    within = torch.stack([y, y * 2], 1).reshape(-1, 3).cumsum(0).sum(0)
    cut = y[:2].sum(0), y[1:].sum(0), y[:, 1:].sum(0), y[:-1].sum(0)
    columns = x[:, (x[0] > 0).nonzero()[:, 0]].sum(1)
    chosen_twice = y[y[:, 1] > 0].sum(0), y[y > 1].sum()
    return (joined, *beside, *moved, *wide, within, *cut, columns, *chosen_twice)


def writes(x):
    y = x.clone()
    y[x > 0] = x[x > 0] * 2
    idx, column = torch.where(x > 0)
    rows, _ = torch.where(x[:, :1] > 0)
    inside = x[rows].mul_(2)
    inside[:, 0] = inside[:, 1] + 1
    return (
        y,
        inside.sum(0),
        torch.zeros_like(x).index_add_(0, rows, x[rows] * 2),
        torch.zeros_like(x).index_put((idx, column), x[idx, column], accumulate=True),
        torch.zeros_like(x).scatter_add(0, rows[:, None].expand(-1, 3), x[rows]),
        x.index_fill(0, rows, 7.0),
        x.masked_scatter(x > 0, x[x > 0] + 1),
        x.new_zeros(9, 3).index_copy(0, torch.arange(rows.shape[0]), x[rows]),
        torch.argwhere(x > 0).float().sum(0),
        x.masked_select(x > 0).mean(),
        rows.shape[0],
    )


def loss(x):
    target = torch.where(x[:, 0] > 0, (x[:, 1] > 0).long(), -1)
    kept = target != -1
    return F.cross_entropy(x[kept], target[kept])


def counted(x):
    n = (x[:, 0] > 0).sum().item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    return x[:n].sum(0), torch.zeros(n, 3).sum(0) + torch.arange(n).sum(), x * n


def repeated(x):
    y = x.repeat_interleave((x[:, 0] > 0) * 2, dim=0)
    torch._check(y.shape[0] <= 14)
    return y.sum(0), y.cumsum(0).sum(0), y.shape[0]


def distinct(x):
    values, which, counts = torch.unique(
        x[x > 0].round(), return_inverse=True, return_counts=True
    )
    return values.sum(), (values * counts).sum(), which.sum(), values[which].sum()


def distinct_nan(x):
    y = torch.where(x > 0, torch.nan, x)[x[:, 0] > 0]
    values, counts = torch.unique(y, return_counts=True)
    return values.shape[0], values.nan_to_num(9.0).sum(), counts.sum()


def ordered(x):
    y = x[x[:, 0] > 0]
    up, places = y.sort(0)
    down, _ = torch.sort(y, dim=0, descending=True, stable=True)
    line = torch.arange(y.shape[0])
    parts = (up, down, y.sort(1)[0], y[places[:, 0]])
    return tuple(torch.zeros_like(x).index_copy(0, line, part) for part in parts)


def numbers(x):
    kept = x[x[:, 0] > 0]
    which = (kept[:, 0] * 3).long().clamp(0, 9)
    counts = torch.bincount(which, minlength=3)
    torch._check(counts.shape[0] <= 10)
    weighted = torch.bincount(which, kept[:, 1], minlength=10)
    torch._check(weighted.shape[0] <= 10)
    return (counts * counts).sum(), counts.shape[0], weighted.square().sum()


def sampled(x):
    places = x[x[:, 0] > 0][:, :2]
    image = x[:, None].expand(-1, 4, 3)[None, :1] * torch.arange(1.0, 5)[:, None]
    y = F.grid_sample(image, places[None, :, None], align_corners=False)
    least = torch.sym_max(places.shape[0], 3)
    return y.sum((2, 3)), least, torch.sym_max(least, 2)


def others(x):
    """Functions that have no rule but those of their ops."""
    y = x[x[:, 0] > 0]
    line, places = torch.cat([y, x[:1]]).T[None], (y[:, 0] * 2).long().clamp(0, 2)
    return (
        F.conv1d(line, torch.ones(2, 3, 3), padding=1).sum(2),
        F.avg_pool1d(line, 3, 1, 1).sum(2),
        F.one_hot(places, 3).sum(0),
        F.embedding(places, x[:1].T @ x[:1]).sum(0),
        F.pad(y, (1, 1)).tril().sum(0),
        y.logcumsumexp(0).sum(0),
        y.quantile(0.5, dim=1).sum(),
        torch.zeros(3, 3).index_reduce(0, places, y, "amax"),
        torch.cat([y, x]).gather(0, torch.zeros(1, 3, dtype=torch.long)),
    )


def of_at_most_four(x):
    (idx,) = torch.where(x[:, 0] > 0)
    torch._check(idx.shape[0] <= 4)
    return x[idx].sum(0)


CASES = {
    "sums": (sums, ANY),
    "extremes": (extremes, SOME),
    "rows": (rows, ANY),
    "shapes": (shapes, ANY),
    "writes": (writes, ANY),
    "loss": (loss, ANY),
    "counted": (counted, ANY),
    "repeated": (repeated, ANY),
    "distinct": (distinct, ANY),
    "distinct_nan": (distinct_nan, (*ANY, ODD)),
    "ordered": (ordered, (*ANY, ODD)),
    "numbers": (numbers, SOME),  # of none torch gives weights as integers
    "sampled": (sampled, ANY),
    "others": (others, SOME),
}


def network(module, x, **limits):
    batch = torch.export.Dim("batch", **limits)
    return aotc.from_torch(module, (x,), dynamic_shapes=({0: batch},))


def evaluated(net, x):
    """What the graph of a network computes."""
    program = net.program()
    stored = [] if net.weights is None else flatten(net.weights.tree)[0]
    return reference.evaluate(program.module, "main", [*stored, x.numpy()])


def require_equal(found, expected):
    """Compare results with those of PyTorch, shapes and dtypes included."""
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for ours, theirs in zip(found, wanted, strict=True):
        theirs = torch.as_tensor(theirs).detach().numpy()
        ours = np.asarray(ours)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_pytorch_however_many_elements_there_are(name):
    function, inputs = CASES[name]
    net = network(Call(function), inputs[0], max=9)
    for x in inputs:
        require_equal(evaluated(net, x), function(x))
        require_equal(flatten(net(x.numpy()))[0], function(x))


@pytest.mark.parametrize("name", CASES)
def test_nothing_depends_on_what_padding_holds(name, bad_padding):
    bad_padding("aotc.importers.common.padded", "aotc.importers.torch.ops.padded")
    function, inputs = CASES[name]
    net = network(Call(function), inputs[0], max=9)
    for x in (MIXED, ONE):
        require_equal(evaluated(net, x), function(x))


def test_a_mixture_of_experts_is_that_of_pytorch():
    module, batch = Mixture(), torch.export.Dim("batch", max=64)
    shapes = {"hidden": {0: batch}}
    x = torch.randn(2, 3, 8)
    net = aotc.from_torch(module, (x,), dynamic_shapes=shapes)
    for each in (x, torch.ones(3, 3, 8), torch.randn(1, 3, 8)):
        require_equal(evaluated(net, each), module(each))


def test_compiled_code_computes_what_the_graph_says():
    nets = {"kept": network(Call(loss), MIXED), "first": network(Call(counted), MIXED)}
    program = trace([net.entry(name) for name, net in nets.items()], {})
    inputs = [x.numpy() for x in (MIXED, NONE, ONE)]
    expected = {
        name: [reference.evaluate(program.module, name, [x]) for x in inputs]
        for name in nets
    }
    target = Target.parse("cpu")
    (variant,) = compile_targets(lower(program, target), [target])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    module = iree.load_vm_module(code, config)
    for name, wanted in expected.items():
        for x, results in zip(inputs, wanted, strict=True):
            found = module[name](x)
            several = found if isinstance(found, (list, tuple)) else [found]
            for ours, theirs in zip(several, results, strict=True):
                ours = np.asarray(ours)
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


# ---- derivatives --------------------------------------------------------------------


def routed(x, weight):
    (idx,) = torch.where(x[:, 0] > 0)
    y = torch.log1p(torch.relu(x[idx] @ weight))
    return torch.zeros_like(x).index_add_(0, idx, y).square().sum()


def routed_logarithm(x, weight):
    (idx,) = torch.where(x[:, 0] > 0)
    y = torch.log(x[idx][:, :1]) * weight[0]
    return torch.zeros_like(x).index_add_(0, idx, y).sum()


def sorted_and_scaled(x, w):
    y = x[x[:, 0] > 0]
    up, down = y.sort(0)[0], y.sort(0, descending=True)[0]
    return (up * w[0]).sum() + (up @ w).square().sum() + F.linear(down, w).tanh().sum()


def scaled(x, w):
    """Functions that are not finite of 0, times what is trained."""
    y, chosen = x[x[:, 0] > 0], x[x > 0]
    parts = (
        chosen.log() * w[0, 0],
        (chosen + w[0, 0].square()).log(),
        chosen ** w[0, 1].abs(),
        chosen / (w[0, 2] - w[0, 2].detach() + chosen.sum()),
        1 / torch.relu(y[:, :1]) * w[0],
        torch.log_softmax(y, 0) * w[1],
        y[:, 0].log().half() * w[1, 1],
    )
    return sum(part.sum().float() for part in parts)


def multiplied(x, w):
    y, z = x[x[:, 0] > 0], x[x[:, 1] > 0][:, 1]
    log = y[:, :1].log()
    wide = log.expand(-1, 3)
    parts = (
        log @ w[:1],
        F.linear(y[:, :1].sqrt().expand(-1, 3), w, w[0]).square(),
        torch.einsum("ni,ij->nj", wide, w),
        torch.einsum("nm,m->n", torch.outer(log[:, 0], z), z.log() * w[0, 0]),
        (y - y.mean(0)) / y.square().mean(0) @ w,
    )
    return sum(part.sum() for part in parts)


def normalized(x, w):
    y = x[x[:, 0] > 0][:, :1].log() * torch.arange(1.0, 4)
    parts = (
        F.layer_norm(y, (3,), w[0], w[1]),
        F.layer_norm(x[x[:, 0] > 0], (3,), w[0], w[1], eps=0.0),
        F.rms_norm(y, (3,), w[2]),
    )
    return sum((part * w[0]).sum() for part in parts)


def windowed(x, w):
    y = x[x[:, 0] > 0]
    line = torch.cat([y.log(), x[:1]])[:, :1].T[None]
    parts = (
        F.conv1d(line, w[:, None], w[0], padding=1).square(),
        F.conv1d(y.log()[:, None], w[:, None], w[0], padding=1).square(),
        F.avg_pool1d(line, 3, 1, 1) * w[0, 0],
        (y * w[0]).logcumsumexp(0).tanh(),
        y.cumprod(0) * w[1],
        torch.tril(y[:, :1].log() * w[2]),
        torch.cat([y, x])[y.shape[0] :] @ w,
        y.sort(0)[0].cumsum(0) * w[2],
    )
    return sum(part.sum() for part in parts)


LEARNED = {
    "windowed": windowed,
    "routed": routed,
    "routed logarithm": routed_logarithm,
    "sorted and scaled": sorted_and_scaled,
    "scaled": scaled,
    "multiplied": multiplied,
    "normalized": normalized,
    "logarithm": lambda x, w: x[x > 0].log().sum() + w.sum(),
    "product": lambda x, w: (x[x[:, 0] > 0] @ w).abs().log().sum(),
    "softmax": lambda x, w: torch.softmax(x[x[:, 0] > 0] @ w, 0).square().sum(),
    "length": lambda x, w: (
        (y := x[x[:, 0] > 0]) @ w / y.square().sum(1, keepdim=True).sqrt()
    ).sum(),
    "joined": lambda x, w: (torch.cat([x[x[:, 0] > 0], x]).cumsum(0) @ w).tanh().sum(),
}


@pytest.mark.parametrize("name", LEARNED)
def test_derivatives_are_those_of_autograd_also_of_no_element(name):
    require_equal_derivatives(LEARNED[name])


@pytest.mark.parametrize("name", LEARNED)
def test_no_derivative_depends_on_what_padding_holds(name, bad_padding):
    bad_padding("aotc.importers.common.padded", "aotc.importers.torch.ops.padded")
    require_equal_derivatives(LEARNED[name])


def require_equal_derivatives(function):
    """Compare the derivatives by a matrix and the input with those of autograd."""
    module = Call(function, with_weight=True)
    net = network(module, MIXED, max=9)

    @aotc.entry(w=aotc.Spec((3, 3)), x=aotc.Spec((5, 3)))
    def slopes(w, x):
        return aotc.grad(lambda w, x: net({"weight": w}, x), (0, 1))(w, x)

    program = trace([slopes], {})
    run_passes(program.module, ["autodiff", "inline"])
    for x in (MIXED, NONE, ONE, torch.zeros(5, 3)):
        x = x.clone().requires_grad_()
        module.weight.grad = None
        module(x).backward()
        given = [module.weight.detach().numpy(), x.detach().numpy()]
        found = reference.evaluate(program.module, "slopes", given)
        for ours, theirs in zip(found, (module.weight.grad, x.grad), strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)


# ---- what is held to, and refused ---------------------------------------------------


@pytest.mark.parametrize(
    ("function", "broken", "message"),
    [
        (of_at_most_four, ALL, "at most 4 elements, as the model promises"),
        (lambda x: x[x > 0].max(), NONE, "at least one element"),
        (lambda x: x[x[:, 0] > 0][1], ONE, "u0 >= 2"),
        (
            lambda x: (x[x[:, 0] > 0] * x[x[:, 1] > 1]).sum(),
            ALL,
            "must be equal|Eq",
        ),
    ],
)
def test_calls_are_held_to_what_the_module_takes_for_granted(function, broken, message):
    net = network(Call(function), MIXED)
    if function is of_at_most_four:
        require_equal(evaluated(net, MIXED), function(MIXED))
    with pytest.raises(InputError, match=message) as caught:
        evaluated(net, broken)
    assert caught.value.code == "assertion-failed"


REFUSED = {
    "a result": (lambda x: x[x > 0], "which depends on values"),
    "a branch": (
        lambda x: torch.cond(
            x.sum() > 0, lambda y: y.sum(), lambda y: -y.sum(), (x[x[:, 0] > 0],)
        ),
        "no rule for their padding",
    ),
    "padding among elements": (
        lambda x: x[x[:, 0] > 0].T.reshape(-1).cumsum(0).sum(),
        r"'reshape' works along axes of f32.3, u0. whose sizes depend on values",
    ),
    "a size without a bound": (
        lambda x: x.repeat_interleave(x[:, 0].long(), 0).sum(),
        "nothing says how large it can be",
    ),
    "mixing along padding": (
        lambda x: x[x[:, 0] > 0].T.flip(1).sum(1),
        "'reverse' works along axes of f32.3, u0. whose sizes depend on values",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_has_no_rule_for_padding(name):
    function, message = REFUSED[name]
    with pytest.raises(InputError, match=message) as caught:
        network(Call(function), MIXED).program()
    assert caught.value.where is None or "test_torch_sizes.py:" in caught.value.where
    assert caught.value.hint


def test_each_rule_is_of_an_op_that_is_imported():
    assert not PADDED.keys() - ops.OPS.keys()


def test_sizes_of_inputs_are_not_taken_for_those_that_values_decide():
    assert not is_data_dependent(3)
    net = network(Call(lambda x: x * x.shape[0]), MIXED)
    require_equal(evaluated(net, ALL), ALL * 5)
