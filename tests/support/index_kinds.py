"""The kinds of index that tests are parametrised with."""

from __future__ import annotations

import pytest

KINDS = ("exact", "scann", "core")
# The others take as long again, and differ in what other tests look at.
ONE_FAST = [pytest.param(kind, marks=[] if kind == "scann" else [pytest.mark.slow]) for kind in KINDS]
