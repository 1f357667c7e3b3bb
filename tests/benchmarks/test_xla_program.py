"""XLA compiles the whole step at the shapes of mxtr_base on a TPU."""

from __future__ import annotations

import re

import pytest

REPLICAS = 8
# Few and narrow layers, which the shapes do not depend on.
SMALL = {"num_layers": 1, "model_dim": 64, "feed_forward_dim": 64, "num_heads": 1, "vocabulary_size": 512}


@pytest.fixture(scope="module")
def program(benchmark_module):
    return benchmark_module("xla", "program")


@pytest.mark.slow
def test_the_whole_step_is_one_program_of_static_shapes(program):
    """A replica's queries against the documents of all eight, in two blocks, as a TPU would get it."""
    config = program.replica_config(REPLICAS, **SMALL)
    hlo = program.trace(config, REPLICAS)
    assert "<=" not in "".join(re.findall(r"\w+\[[^\]]*\]", hlo))  # sizes that are known only at run time
    blocks = program.count_blocks(hlo, config.encoder.projection_dim)
    assert blocks == 2
    queries = config.training.batch_size
    rows = queries * program.QUERY_LENGTH
    columns = REPLICAS * queries * (1 + config.data.hard_negatives) * program.DOCUMENT_LENGTH
    assert re.search(rf"f32\[{rows},{columns // blocks}\]\S* dot\(", hlo)
    assert "bf16[" in hlo

    # Without a loop, which XLA's cost analysis would count once, all similarities are one product.
    at_once = program.trace(config, REPLICAS, one_block=True)
    assert re.search(rf"f32\[{rows},{columns}\]\S* dot\(", at_once)


@pytest.mark.slow
def test_xla_compiles_the_whole_step(program):
    """Compiles to machine code for this CPU."""
    compiled = program.trace(program.replica_config(REPLICAS, **SMALL), REPLICAS, stage="optimized_hlo")
    assert " fusion(" in compiled
    assert program.count_blocks(compiled, 128) == 2
