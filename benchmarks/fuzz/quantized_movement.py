"""Movement of bytes in random quantised entries: as numbers, or as they are."""

from __future__ import annotations

from dataclasses import replace

from .quantized_drawing import Levels, QuantizedEntry
from .weighted_forms import Shape

Form = tuple[str, Shape]


def movement(e: QuantizedEntry) -> None:
    """Add a step that reorders or reshapes a quantised tensor, perhaps requantised."""
    found = e.some_levels()
    if found is None:
        return
    source, shape = e.one_of([*_forms(e, found), *_images(e, found)])
    made = replace(found, name=f"q{len(e.lines)}", shape=shape)
    if e.chance(0.3):
        e.add_integers(made, source.format(found.name), found)
        return
    name = e.line(found.floats)
    if e.chance(0.5):
        made = replace(made, name=f"q{len(e.lines)}")
        e.add_levels(made, source.format(name), found)
    else:
        e.add(source.format(name), shape, found)


def _forms(e: QuantizedEntry, found: Levels) -> list[Form]:
    """Return (source, shape) of movements of any rank, with `{0}` for the tensor."""
    first, *rest = found.shape
    *leading, size = found.shape
    last, ahead = int(size), tuple(leading)
    order = (0, *(1 + int(n) for n in e.rng.permutation(len(rest))))
    moved: Shape = tuple(found.shape[axis] for axis in order)
    forms: list[Form] = [
        (f"np.transpose({{0}}, {order})", moved),
        ("{0}[..., ::-1]", found.shape),
        (f"{{0}}[..., :{(last + 1) // 2}]", (*ahead, (last + 1) // 2)),
        (f"{{0}}[..., {last % 2}::2]", (*ahead, len(range(last % 2, last, 2)))),
        ("np.take({0}, numpy.array([0, -1, 9]), axis=-1, mode='clip')", (*ahead, 3)),
        ("np.take({0}, numpy.array([0, 5, 9]), axis=-1, mode='wrap')", (*ahead, 3)),
        ("np.pad({0}, %s)" % ([(0, 0)] * len(rest) + [(1, 2)]), (*ahead, last + 3)),
        ("np.pad({0}, %s, mode='edge')" % ([(0, 0)] * len(rest) + [(2, 1)]),
         (*ahead, last + 3)),
        ("np.roll({0}, 2, axis=-1)", found.shape),
        ("np.repeat({0}, 2, axis=-1)", (*ahead, 2 * last)),
        ("np.concatenate([{0}, {0}[..., ::-1]], axis=-1)", (*ahead, 2 * last)),
        ("{0}.at[..., 0].set(1)", found.shape),
        ("np.where({0} > 1, {0}, {0}[..., ::-1])", found.shape),
        ("np.expand_dims({0}, 1)", (first, 1, *rest)),
    ]  # fmt: skip
    if e.chance(0.5):
        index = f"i{len(e.lines)}"
        e.inputs[index] = ("i32", (4,))
        taken = f"np.take({{0}}, {index}, axis=-1, mode='clip')"
        return [(taken, (*ahead, 4))]
    return [form for form in forms if form[1][-1] != 0 and len(form[1]) <= 4]


def _images(e: QuantizedEntry, found: Levels) -> list[Form]:
    """Return (source, shape) of movements of images, with `{0}` for the tensor."""
    first, *rest = found.shape
    if len(rest) != 3 or not all(isinstance(n, int) for n in rest):
        return []
    lines, columns, channels = (int(n) for n in rest)
    sizes = (lines + 2, 2 * columns)
    forms: list[Form] = [
        (f"np.reshape({{0}}, ({{0}}.shape[0], -1, {channels}))",
         (first, lines * columns, channels)),
        (f"np.astype(nn.resize(np.astype({{0}}, 'f32'), {sizes}, 'nearest'), "
         "{0}.dtype)", (first, *sizes, channels)),
        ("np.pad({0}, ((0, 0), (1, 1), (0, 2), (0, 0)), constant_values=3)",
         (first, lines + 2, columns + 2, channels)),
        ("{0}[:, ::2, ::-1]", (first, -(-lines // 2), columns, channels)),
    ]  # fmt: skip
    if not e.is_exact:
        linear = f"nn.resize(np.astype({{0}}, 'f32'), {sizes}, 'linear')"
        forms.append((f"np.astype({linear}, {{0}}.dtype)", (first, *sizes, channels)))
    if channels % 4 == 0:
        shape = (first, 2 * lines, 2 * columns, channels // 4)
        forms.append(("nn.depth_to_space({0}, 2)", shape))
    return forms
