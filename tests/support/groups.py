"""Which tests run in the same worker, and which begin first.

A worker runs the tests of a group one after the other, so that what they share in memory is made once.
A group is one file, unless several files share something that takes long.
"""

from __future__ import annotations

from pathlib import PurePath

from xdist.scheduler import LoadScopeScheduling

# Files or folders below tests/ whose tests share something in memory, by the name of their group.
SHARED = {
    "api": "api",  # the shipped model, and an index made with it
    "tfx_pipeline": "tfx_pipeline",  # TFX, which takes long to import, and one run of the whole DAG
    "retriever/test_bad_requests": "signatures",  # the traced signatures of one retriever
    "retriever/test_explain_signature": "signatures",
    "retriever/test_exporter": "signatures",
    "retriever/test_hybrid": "signatures",
    "retriever/test_search_signatures": "signatures",
    "retriever/test_text_signatures": "signatures",
    "serving/test_playground": "retriever_server",  # one server process with real models
    "serving/test_query_command": "retriever_server",
    "serving/test_search_api": "retriever_server",
    "serving/test_sharded_client": "retriever_server",
}
# The longest begin first, so that no worker is left with one of them at the end.
FIRST = (
    "signatures",
    "tfx_pipeline",
    "retriever/test_searcher_kinds",
    "evaluation/test_evaluate",
    "training/test_train",
    "training/test_distribution",
)


class GroupScheduling(LoadScopeScheduling):
    """Gives a worker one group after the other, in the order of the tests.

    pytest-xdist's own `loadgroup` marks groups in the tests' ids, which pytest 9 no longer lets it change.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(PurePath(nodeid.partition("::")[0]).relative_to("tests"))


def group_of(path: PurePath) -> str:
    """Returns the group of a test file, given by its path below tests/."""
    file = path.with_suffix("")
    return SHARED.get(str(file)) or SHARED.get(str(file.parent)) or str(file)


def order_of(path: PurePath) -> tuple[int, str]:
    """Returns what a file, given by its path below tests/, is sorted by: the longest groups come first."""
    group = group_of(path)
    return FIRST.index(group) if group in FIRST else len(FIRST), group
