"""Layouts of images: where the channels stand among the axes of a batch of them.

`nhwc` and `nchw` name a layout for any number of spatial axes: what is `nhwc` for
images is `nwc` for sequences and `ndhwc` for volumes.
"""

IMAGE_LAYOUTS = ("nhwc", "nchw")
IMAGE_RANKS = (3, 4, 5)

_SPATIAL = "dhw"


def layout_of_rank(layout: str, rank: int) -> str:
    """Return an image layout for a rank, a letter per axis: `nhwc` of rank 3 is `nwc`.

    Args:
        layout: of `IMAGE_LAYOUTS`.
        rank: of `IMAGE_RANKS`.
    """
    spatial = _SPATIAL[-(rank - 2) :]
    return f"n{spatial}c" if layout == "nhwc" else f"nc{spatial}"


def layout_permutation(source: str, layout: str) -> tuple[int, ...]:
    """Return the axis permutation from one layout, given by letters, to another."""
    return tuple(source.index(axis) for axis in layout)
