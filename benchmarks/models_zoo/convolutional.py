"""Image networks, laid out as torchvision publishes them; U-Net as in its paper."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import GlobalMean


class ConvNorm(nn.Sequential):
    """Layer: convolution without bias, batch norm, and an optional activation."""

    def __init__(
        self,
        channels: int,
        out: int,
        size: int = 1,
        stride: int = 1,
        groups: int = 1,
        activation: type[nn.Module] | None = None,
        eps: float = 1e-5,
    ) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(
                channels, out, size, stride, size // 2, groups=groups, bias=False
            ),
            nn.BatchNorm2d(out, eps),
        ]
        super().__init__(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    """Layer: some layers plus a shortcut."""

    def __init__(
        self, layers: list[nn.Module], channels: int, out: int, stride: int
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers)
        same = channels == out and stride == 1
        self.shortcut = nn.Identity() if same else ConvNorm(channels, out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class Bottleneck(Residual):
    """ResNet block: 1×1, 3×3, 1×1 and a shortcut (He et al. 2015)."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        out = self.expansion * width
        layers: list[nn.Module] = [
            ConvNorm(channels, width, activation=nn.ReLU),
            ConvNorm(width, width, 3, stride, activation=nn.ReLU),
            ConvNorm(width, out),
        ]
        super().__init__(layers, channels, out, stride)


class GroupedBottleneck(Residual):
    """ResNeXt block: 1×1, grouped 3×3, 1×1 and a shortcut (Xie et al. 2017)."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        out, inner = self.expansion * width, 2 * width
        layers: list[nn.Module] = [
            ConvNorm(channels, inner, activation=nn.ReLU),
            ConvNorm(inner, inner, 3, stride, groups=32, activation=nn.ReLU),
            ConvNorm(inner, out),
        ]
        super().__init__(layers, channels, out, stride)


class BasicBlock(Residual):
    """ResNet block: 3×3, 3×3 and a shortcut (He et al. 2015)."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        layers: list[nn.Module] = [
            ConvNorm(channels, width, 3, stride, activation=nn.ReLU),
            ConvNorm(width, width, 3),
        ]
        super().__init__(layers, channels, width, stride)


def resnet18() -> nn.Module:
    """Return ResNet-18 (He et al. 2015), 1,000 classes."""
    return _resnet(BasicBlock, (2, 2, 2, 2))


def resnet50() -> nn.Module:
    """Return ResNet-50 (He et al. 2015), 1,000 classes."""
    return _resnet(Bottleneck, (3, 4, 6, 3))


def resnext50() -> nn.Module:
    """Return ResNeXt-50 32×4d (Xie et al. 2017), 1,000 classes."""
    return _resnet(GroupedBottleneck, (3, 4, 6, 3))


class Fire(nn.Module):
    """SqueezeNet block: 1×1 to few channels, then 1×1 beside 3×3 (Iandola et al.
    2016).
    """

    def __init__(self, channels: int, few: int, out: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, few, 1)
        self.pixels, self.windows = nn.Conv2d(few, out, 1), nn.Conv2d(few, out, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.pixels(x)), torch.relu(self.windows(x))], 1)


def squeezenet() -> nn.Module:
    """Return SqueezeNet 1.1 (Iandola et al. 2016), 1,000 classes."""

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        *(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool()),
        *(Fire(64, 16, 64), Fire(128, 16, 64), pool()),
        *(Fire(128, 32, 128), Fire(256, 32, 128), pool()),
        *(Fire(256, 48, 192), Fire(384, 48, 192)),
        *(Fire(384, 64, 256), Fire(512, 64, 256)),
        *(nn.Conv2d(512, 1000, 1), nn.ReLU(), GlobalMean()),
    )


def _resnet(
    block: type[BasicBlock | Bottleneck | GroupedBottleneck], counts: tuple[int, ...]
) -> nn.Module:
    """Return a ResNet of these blocks, with their number per stage."""
    blocks: list[nn.Module] = []
    channels = 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        for number in range(count):
            blocks.append(block(channels, width, 2 if stage and not number else 1))
            channels = block.expansion * width
    return nn.Sequential(
        ConvNorm(3, 64, 7, 2, activation=nn.ReLU),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        GlobalMean(),
        nn.Linear(channels, 1000),
    )


class InvertedResidual(nn.Module):
    """MobileNet block: expand, depthwise, squeeze-and-excite if asked, project.

    MobileNetV2 (Sandler et al. 2018) and EfficientNet (Tan and Le 2019).
    """

    def __init__(
        self,
        channels: int,
        out: int,
        expansion: int,
        size: int,
        stride: int,
        activation: type[nn.Module],
        excite: bool,
    ) -> None:
        super().__init__()
        wide = channels * expansion
        layers: list[nn.Module] = []
        if expansion > 1:
            layers.append(ConvNorm(channels, wide, activation=activation))
        layers.append(ConvNorm(wide, wide, size, stride, wide, activation))
        if excite:
            layers.append(SqueezeExcite(wide, channels // 4))
        self.body = nn.Sequential(*layers, ConvNorm(wide, out))
        self.residual = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y if self.residual else y


class SqueezeExcite(nn.Module):
    """Layer: scales each channel by a function of all channels' means."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.SiLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale(x)


def inverted_residuals(
    rows: tuple[tuple[int, int, int, int, int], ...],
    activation: type[nn.Module],
    excite: bool,
) -> nn.Module:
    """Return a network of rows (expansion, channels, count, stride, kernel size)."""
    layers: list[nn.Module] = [ConvNorm(3, 32, 3, 2, activation=activation)]
    channels = 32
    for expansion, out, count, stride, size in rows:
        for number in range(count):
            step = 1 if number else stride
            layers.append(
                InvertedResidual(
                    channels, out, expansion, size, step, activation, excite
                )
            )
            channels = out
    layers += [ConvNorm(channels, 1280, activation=activation), GlobalMean()]
    return nn.Sequential(*layers, nn.Linear(1280, 1000))


def mobilenet_v2() -> nn.Module:
    """Return MobileNetV2 (Sandler et al. 2018), width 1, 1,000 classes."""
    rows = (
        *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3)),
        *((6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)),
    )
    return inverted_residuals(rows, nn.ReLU6, excite=False)


def efficientnet_b0() -> nn.Module:
    """Return EfficientNet-B0 (Tan and Le 2019), 1,000 classes."""
    rows = (
        *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
        *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
    )
    return inverted_residuals(rows, nn.SiLU, excite=True)


class UNet(nn.Module):
    """U-Net (Ronneberger et al. 2015) with padding and batch norm, 2 classes."""

    def __init__(self) -> None:
        super().__init__()
        widths = (64, 128, 256, 512, 1024)
        self.down = nn.ModuleList(
            double(channels, width)
            for channels, width in zip((3, *widths), widths, strict=False)
        )
        ups = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in ups)
        self.up = nn.ModuleList(double(a, b) for a, b in ups)
        self.head = nn.Conv2d(widths[0], 2, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        skipped = []
        for level in self.down:
            x = level(self.pool(x) if skipped else x)
            skipped.append(x)
        skipped.pop()
        for grow, level in zip(self.grow, self.up, strict=True):
            x = level(torch.cat([skipped.pop(), grow(x)], 1))
        return self.head(x)


def double(channels: int, out: int) -> nn.Module:
    """Return a module of two 3×3 convolutions."""
    return nn.Sequential(
        ConvNorm(channels, out, 3, activation=nn.ReLU),
        ConvNorm(out, out, 3, activation=nn.ReLU),
    )
