"""The encoders that come with xtr-tf: in the installed package, or in `models/` of a checkout."""

from __future__ import annotations

from pathlib import Path

from xtr_tf.model.folder import MANIFEST_FILE

#: What `xtr_tf.load()` loads.
DEFAULT_MODEL = "mxtr_tiny"

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "shipped", _PACKAGE.parent / "models")


def shipped_models() -> dict[str, Path]:
    """The encoders' directories by name."""
    found: dict[str, Path] = {}
    for place in _PLACES:
        for manifest in sorted(place.glob(f"*/{MANIFEST_FILE}")):
            found.setdefault(manifest.parent.name, manifest.parent)
    return found
