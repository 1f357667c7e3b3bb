"""XTR multi-vector retrieval in TensorFlow.

```python
import xtr_tf

model = xtr_tf.load()
index = model.index(["Baikal is 1,642 m deep.", "The Nile is 6,650 km long."])
index.search("How deep is Lake Baikal?", top_k=1)
```

`import xtr_tf` is fast: each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from xtr_tf.version import __version__ as __version__

if TYPE_CHECKING:
    from xtr_tf.api.index import Index as Index
    from xtr_tf.api.index import OpenedIndex as OpenedIndex
    from xtr_tf.api.live_index import LiveIndex as LiveIndex
    from xtr_tf.api.loading import load as load
    from xtr_tf.api.loading import open as open  # noqa: A004
    from xtr_tf.api.model import Model as Model
    from xtr_tf.api.results import Evaluation as Evaluation
    from xtr_tf.api.results import ExplainedHit as ExplainedHit
    from xtr_tf.api.results import Explanation as Explanation
    from xtr_tf.api.results import Hit as Hit
    from xtr_tf.api.results import Hits as Hits
    from xtr_tf.api.results import TokenMatch as TokenMatch
    from xtr_tf.api.training import train as train
    from xtr_tf.collections.document import Document as Document
    from xtr_tf.errors import InputError as InputError

_MODULES = {
    "Document": "collections.document",
    "Evaluation": "api.results",
    "ExplainedHit": "api.results",
    "Explanation": "api.results",
    "Hit": "api.results",
    "Hits": "api.results",
    "Index": "api.index",
    "InputError": "errors",
    "LiveIndex": "api.live_index",
    "Model": "api.model",
    "OpenedIndex": "api.index",
    "TokenMatch": "api.results",
    "load": "api.loading",
    "open": "api.loading",
    "train": "api.training",
}
__all__ = ["__version__", *sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
