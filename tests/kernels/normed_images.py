"""Norms of images and their derivatives, which the tests beside it build."""

import aotc
import aotc.numpy as np
from aotc import nn

_CHANNELS = 17  # a vector and an element of the next


def _loss(scale, bias, x, weight):
    """A loss of a norm that others read, too, and that a comparison hides in part."""
    known = np.astype(scale, "f64" if x.dtype == "f64" else "f32")
    y, mean, variance = nn.batch_norm_training(
        x, known, known, scale, bias, momentum=0.0
    )
    h = np.tanh(y)  # in bf16, what is compared may be another way round
    if x.dtype != "bf16":
        h = nn.leaky_relu(np.maximum(y, -0.5) + 0.1 * x)
    return np.sum(h * weight), (y, mean, variance)


def _step(scale, bias, x, weight):
    grad = aotc.value_and_grad(_loss, argnums=(0, 1, 2), has_aux=True)
    (value, kept), grads = grad(scale, bias, x, weight)
    return value, *kept, *grads


def _of(*shape, dtype="f32"):
    vector = aotc.Spec(shape[-1:], dtype)
    images = aotc.Spec(shape, dtype)
    return aotc.entry(scale=vector, bias=vector, x=images, weight=images)


@_of(9, 6, 5, _CHANNELS)
def batch(scale, bias, x, weight):
    """Statistics of each image, put together."""
    return _step(scale, bias, x, weight)


@_of(1, 40, 30, 8)
def one_image(scale, bias, x, weight):
    """Statistics of its lines, and half a vector of channels."""
    return _step(scale, bias, x, weight)


@_of(300, 16)
def rows(scale, bias, x, weight):
    """One matrix."""
    return _step(scale, bias, x, weight)


@_of(4, 3, 5, 6, _CHANNELS)
def volumes(scale, bias, x, weight):
    """Three spatial axes."""
    return _step(scale, bias, x, weight)


_images = aotc.Dim("images", min=1, max=64)


@_of(_images, 6, 5, _CHANNELS)
def any_batch(scale, bias, x, weight):
    """Normalize as many images as a call says."""
    return _step(scale, bias, x, weight)


@_of(9, 6, 5, _CHANNELS, dtype="bf16")
def narrow(scale, bias, x, weight):
    """Normalize images of bf16, whose statistics and sums are f32."""
    return _step(scale, bias, x, weight)


@_of(9, 6, 5, _CHANNELS, dtype="f64")
def wide(scale, bias, x, weight):
    """Normalize images of f64, of which there are no kernels."""
    return _step(scale, bias, x, weight)


@_of(3, 8, 6, 24)
def groups(scale, bias, x, weight):
    """Group and instance norms, whose channels are put together or not."""

    def loss(x):
        y = nn.group_norm(x, 4, scale, bias) * nn.instance_norm(x, scale)
        return np.sum(y * weight)

    return aotc.value_and_grad(loss)(x)


@_of(130, 16)
def curved(scale, bias, x, weight):
    """A second derivative, in which some joined sums are read on the way to others."""

    def loss(scale, bias, x):
        y, *_ = nn.batch_norm_training(x, bias, bias, scale, bias)
        return np.sum(np.tanh(y) * weight)

    def slope(scale, bias, x):
        grads = aotc.grad(loss, argnums=(0, 1, 2))(scale, bias, x)
        return sum([np.sum(each**2) for each in grads])

    value, grads = aotc.value_and_grad(slope, argnums=(0, 1, 2))(scale, bias, x)
    return value, *grads


@_of(9, 6, 5, _CHANNELS)
def extremes(scale, bias, x, weight):
    """Other reductions over all but the last axis, and chosen elements."""
    axes = (0, 1, 2)
    chosen = np.where(x > weight, x * scale, weight)
    least = np.min(chosen, axes)
    return (
        np.max(x, axes),
        least + bias,
        np.sum(chosen, axes),
        np.prod(1 + x / 99, axes),
    )


@aotc.entry(x=aotc.Spec((16, 12, 11, 5), "f32"), dy=aotc.Spec((16, 12, 11, 24), "f32"))
def kernel_gradient(x, dy):
    """The gradient of a kernel by images that do not stay in a small cache."""

    def loss(kernel):
        return np.sum(nn.conv2d(x, kernel, padding="SAME") * dy)

    return aotc.grad(loss)(np.zeros((3, 3, 5, 24), "f32"))


@aotc.entry(
    x=aotc.Spec((3, 21, 18, 24), "f32"),
    kernel=aotc.Spec((3, 3, 24, 32), "f32"),
    one=aotc.Spec((1, 1, 24, 32), "f32"),
    dy=aotc.Spec((3, 11, 9, 32), "f32"),
)
def strided(x, kernel, one, dy):
    """The gradients of convolutions with steps of 2: no zeros are multiplied."""

    def loss(x, kernel, one):
        y = nn.conv2d(x, kernel, strides=2, padding="SAME")
        z = nn.conv2d(x, kernel, strides=2, padding=((1, 2), (2, 1)))[:, :, :9]
        return np.sum((y + z + nn.conv2d(x, one, strides=2, padding="SAME")) * dy)

    return aotc.grad(loss, argnums=(0, 1, 2))(x, kernel, one)
