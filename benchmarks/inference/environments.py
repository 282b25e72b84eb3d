"""Virtual environments of the edge install, the peers and the plot, made once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "aotc": (str(ROOT),),  # without extras: what a device needs to run bundles
    "torch": ("torch==2.13.0", "onnx==1.23.2", "onnxscript==0.7.2", "numpy==2.4.6"),
    "onnxruntime": ("onnxruntime==1.31.*", "numpy==2.4.6"),
    "openvino": ("openvino==2026.4.*", "numpy==2.4.6"),
    "jax": ("jax==0.10.2", "optax==0.2.8", "numpy==2.4.6"),
    "matplotlib": ("matplotlib==3.11.2", "numpy==2.4.6"),
}


def python_of(name: str, folder: Path) -> Path:
    """Return the Python of an environment below `folder`, installing it if needed.

    Raises:
        subprocess.CalledProcessError: pip cannot install it.
    """
    home = folder / name
    python, stamp = home / "bin" / "python", home / "packages.txt"
    wanted = "\n".join(PACKAGES[name])
    if name == "aotc":  # whose requirements count, and not each change of its sources
        wanted += f"\n{(ROOT / 'pyproject.toml').read_text()}"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {', '.join(PACKAGES[name])} into {home}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES[name]], check=True)
    stamp.write_text(wanted)
    return python
