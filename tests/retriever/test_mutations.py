"""Every mistake in an export is refused, by the answers that it must change; a good export is not."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

#: One of each sort; `make gate-trial` goes through all, for every kind of index.
MISTAKES = {
    "scann": (
        "1% noise on encoder_variables/*",
        "encoder_variables/* transposed",
        "ids of two documents exchanged",
        "a token given to the next document",
        "two blocks of codes exchanged",
        "leaves moved by one",
        "two codewords exchanged",
        "two centres exchanged",
        "lower-casing off",
        "another vocabulary",
        "another default of k' in the graph",
        "another default of k' in the signature",
        "another k' of serving_default",
        "an op of no library",
        "a truncated variable",
    ),
    "exact": ("index of another encoder", "languages moved by one"),
    "core": ("leaves moved by one vector", "1% noise on the scales"),
}


@pytest.fixture(scope="module")
def mutations(repository: Path) -> ModuleType:
    path = repository / "benchmarks" / "gate" / "mutations.py"
    spec = importlib.util.spec_from_file_location("gate_mutations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in MISTAKES.items() for name in names]
)
def test_a_mistake_is_refused(published, mutations, tmp_path, kind, name):
    good = published[kind]
    mutation = next(found for found in mutations.mutations_of(kind, good) if fnmatch(found.name, name))
    copy = Path(shutil.copytree(good, tmp_path / "1"))
    mutation.apply(copy)
    problem = mutations.refusal(copy, mutation)
    assert problem is not None
    assert mutation.signature in problem


def test_a_missing_op_library_is_refused(published):
    script = (
        "import sys; from xtr_tf.runtime import SavedModelSession\n"
        "try: SavedModelSession(sys.argv[1], op_libraries=[])\n"
        "except Exception as error: print(error)"
    )
    command = [sys.executable, "-c", script, str(published["scann"])]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "cannot load the model: Op type not registered" in printed
