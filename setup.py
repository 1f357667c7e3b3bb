"""Puts the encoders of `models/` into the wheel, as `xtr_tf/shipped/`; everything else is in pyproject.toml.

They are outside the package because they are not code; an editable installation finds them there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithModels(build_py):
    """Copies the models next to the modules."""

    def run(self) -> None:
        """Builds; an editable installation needs no copies."""
        super().run()
        if self.editable_mode:
            return
        for manifest in sorted(Path("models").glob("*/encoder.json")):
            folder = manifest.parent
            target = Path(self.build_lib) / "xtr_tf" / "shipped" / folder.name
            shutil.copytree(folder, target, dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithModels})
