"""Loops of small steps, each of which is one kernel."""

import aotc
import aotc.numpy as np
from aotc import control, nn

WIDTH = 24


def cell(h, x, w):
    """A step of a plain recurrent layer."""
    h = np.tanh(h @ w + x)
    return h, h


any_w = aotc.Spec((WIDTH, WIDTH))
steps, batch = aotc.Dim("steps", min=0), aotc.Dim("batch", min=0)
any_xs = aotc.Spec((steps, batch, WIDTH))
any_h = aotc.Spec((batch, WIDTH))


@aotc.entry(w=any_w, h=any_h, xs=any_xs)
def forwards(w, h, xs):
    return control.scan(lambda h, x: cell(h, x, w), h, xs)


@aotc.entry(w=any_w, h=any_h, xs=any_xs)
def backwards(w, h, xs):
    return control.scan(lambda h, x: cell(h, x, w), h, xs, reverse=True)


def of_lengths(w, xs, lengths):
    """Steps behind the end of a sequence change nothing."""

    def step(carried, x):
        h, number = carried
        new, _ = cell(h, x, w)
        is_inside = np.broadcast_to((number < lengths)[:, None], h.shape)
        h = np.where(is_inside, new, h)
        return (h, number + 1), (h, number)

    start = np.zeros(xs.shape[1:]), np.asarray(0, "i32")
    return control.scan(step, start, xs)


@aotc.entry(w=any_w, xs=any_xs, lengths=aotc.Spec((batch,), "i32"))
def masked(w, xs, lengths):
    return of_lengths(w, xs, lengths)


@aotc.entry(w=any_w, h=any_h, xs=any_xs)
def gradients(w, h, xs):
    def loss(w, h, xs):
        last, ys = control.scan(lambda h, x: cell(h, x + w[0], w), h, xs)
        return (ys**2).sum() + last.sum()

    return aotc.value_and_grad(loss, (0, 1, 2))(w, h, xs)


@aotc.entry(w=any_w, xs=aotc.Spec((6, 3, WIDTH)))
def recomputed(w, xs):
    def loss(w):
        step = lambda h, x: cell(h, x, w)  # noqa: E731
        start = np.zeros((3, WIDTH))
        return control.scan(step, start, xs, checkpoint_every=4)[0].sum()

    return aotc.grad(loss)(w)


@aotc.entry(xs=aotc.Spec((7, 5, 40)), weights=aotc.Spec((40, 4 * 40)))
def lstm(xs, weights):
    kernel, recurrent = weights * 0.5, weights
    return nn.lstm(xs, kernel, recurrent, np.zeros(160))


@aotc.entry(a=aotc.Spec(("n",)), b=aotc.Spec(("n",)))
def swapped(a, b):
    """Carried values change places, and one of them is returned twice."""

    def step(carried, _):
        a, b = carried
        return (b, a + b), (a, a, b)

    return control.scan(step, (a, b), None, length=5)


@aotc.entry(y=aotc.Spec((3,), "f64"))
def equation(y):
    def slope(y):
        return np.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1]])

    def step(y, _):
        k = slope(y)
        return y + 0.005 * (k + slope(y + 0.01 * k)), y

    return control.scan(step, y, None, length=50)


@aotc.entry(x=aotc.Spec(("n", 17), "bf16"))
def narrow(x):
    def step(total, x):
        total = total * np.asarray(0.75, "bf16") + x
        return total, (np.astype(total, "f32"), np.astype(total * 8, "i8"))

    return control.scan(step, np.zeros(17, "bf16"), x)


@aotc.entry(x=aotc.Spec((9, 6)), t=aotc.Spec((6, 6)))
def sums(x, t):
    """Steps that add up, take means, and read columns, rows and constants."""
    table = np.asarray([[1.0, 2.0, 0.5, -1.0, 3.0, 0.25]])

    def step(h, x):
        h = np.log(np.exp(t + h[:, None]).sum(0)) - x.mean()
        signs = 1 / (np.abs(x) * np.asarray([0.0, -0.0] * 3))  # not one number
        others = h.max(), (table * h)[0], np.concatenate([h[:2], x[3:]])
        return h[::-1], (*others, signs)

    return control.scan(step, np.zeros(6), x)


@aotc.entry(
    xs=aotc.Spec((3, 2, 5)), w=aotc.Spec((37, 5)), narrow=aotc.Spec((37,), "bf16")
)
def rows(xs, w, narrow):
    """Steps that combine along the rows of what they compute, and down its columns."""

    def step(h, x):
        table = np.tanh(x[:, None, :] * w + h[:, None, None])
        wide = np.swapaxes(table, 1, 2) * 0.5 - 1
        combined = wide.max(2), wide.min(2), np.prod(wide[..., :6], 2)
        best = (wide.astype("bf16") * narrow).max(2)
        return h + wide.mean((1, 2)), (*combined, best, wide.sum(1), wide.sum(0))

    return control.scan(step, np.zeros(2), xs)


@aotc.entry(xs=aotc.Spec((4, 3)), hidden=aotc.Spec((1, 83)), out=aotc.Spec((83, 1)))
def equation_gradients(xs, hidden, out):
    """A network as the slope, whose gradients are sums over rows and columns."""

    def loss(hidden, out):
        def step(y, x):
            y = y + 0.1 * np.tanh(y @ hidden) @ out + x[:, None]
            return y, y

        return (control.scan(step, np.zeros((3, 1)), xs)[1] ** 2).sum()

    return aotc.value_and_grad(loss, (0, 1))(hidden, out)


@aotc.entry(xs=aotc.Spec((6, 9)), w=aotc.Spec((9, 9)), b=aotc.Spec((12,)))
def shared(xs, w, b):
    """Values, parts, numbers and conditions that several sums of a step read."""

    def step(h, x):
        table = np.tanh(np.exp(np.sin(h)[:, None] * w) + b[3:])
        rows, columns = table.sum(1), table.sum(0)
        is_larger = rows > columns
        first = np.where(is_larger, rows, b[:9])
        best = (first[:, None] * table).max(1)
        second = np.where(is_larger, best, -1.0)
        h = np.tanh(x - 0.1 * (second[:, None] + table).mean(0))
        return h, (first, np.broadcast_to(second[:, None], (9, 4)), b[3:])

    return control.scan(step, np.zeros(9), xs)


@aotc.entry(xs=aotc.Spec((5, 40, 24)))
def accumulated(xs):
    """Sums that steps add to, of which one reads the old value once more."""

    def step(carried, x):
        products, means, other = carried
        new = products + x.T @ x
        total = other + x.T @ np.tanh(x)
        means = means * 0.5 + x.mean(0)
        return (new, means, total), (new[1], means, other[2] + means)

    start = np.ones((24, 24)), np.zeros(24), np.zeros((24, 24))
    return control.scan(step, start, xs)


@aotc.entry(
    w=aotc.Spec((64, 64)),
    h=aotc.Spec((batch, 64)),
    xs=aotc.Spec((steps, batch, 64)),
)
def added(w, h, xs):
    """Sums of rows that a call decides the number of."""
    return control.scan(lambda h, x: (h + np.tanh(x) @ w, None), h, xs)[0]


@aotc.entry(x=aotc.Spec((24,)))
def constants(x):
    """A loop of constants alone."""
    steps = np.linspace(0.0, 1.0, 24 * 9, dtype="f32").reshape(9, 24)
    return control.scan(lambda y, t: (0.9 * y + t, y), np.zeros(24), steps)[1] @ x


@aotc.entry(matrices=aotc.Spec((5, 4, 4)), x=aotc.Spec((4,)))
def iterated(matrices, x):
    """Elementwise ops, a product of their results, and a reshape with more of them."""

    def step(x, matrix):
        y = matrix @ x
        y = y / np.sqrt((y * y).sum())
        return y, (y @ x, np.outer(x, y))

    return control.scan(step, x, matrices)


@aotc.entry(x=aotc.Spec((4, 5, 12)))
def nested(x):
    """A loop in each step of a loop."""

    def outer(total, rows):
        def inner(h, row):
            h = 0.5 * h + row
            return h, h.sum()

        h, ys = control.scan(inner, total, rows)
        return h + ys[0], ys

    return control.scan(outer, np.zeros(12), x)


@aotc.entry(x=aotc.Spec((8,)))
def until(x):
    """A loop that ends by a condition, with one of known length in its steps."""

    def step(carried):
        count, x = carried
        return count + 1, control.fori_loop(0, 3, lambda _, y: 0.9 * y, x)

    def is_large(carried):
        return np.abs(carried[1]).max() > 0.01

    return control.while_loop(is_large, step, (np.asarray(0, "i32"), x))


@aotc.entry(x=aotc.Spec((0, 5)), h=aotc.Spec((5,)))
def empty(x, h):
    return control.scan(lambda h, x: (h + x, h * x), h, x)
