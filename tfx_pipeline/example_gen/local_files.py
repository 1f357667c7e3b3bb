"""Files of any file system that Beam knows, as local ones: the readers of `xtr_tf` want real paths."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apache_beam.io.filesystems import FileSystems


@contextmanager
def local_files(base: str, patterns: list[str]) -> Iterator[Path]:
    """Gives a local folder with the files below `base` that match, copied there if they are remote.

    Args:
        base: A folder, local or such as `gs://bucket/folder`.
        patterns: Globs relative to `base`.
    """
    if "://" not in base:
        yield Path(base)
        return
    with tempfile.TemporaryDirectory() as folder:
        for pattern in patterns:
            (match,) = FileSystems.match([FileSystems.join(base, pattern)])
            for found in match.metadata_list:
                target = Path(folder, found.path[len(base) :].lstrip("/"))
                target.parent.mkdir(parents=True, exist_ok=True)
                with FileSystems.open(found.path) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
        yield Path(folder)
