"""Batches, and the threads that run them."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest

from serving.server.requests.batching import Batcher, BatchingOptions, read_batching_options
from serving.server.requests.worker_pool import WorkerPool
from serving.server.status import Code, RequestError
from xtr_tf.errors import InputError

OUTPUTS = ("y", "z")


class Model:
    """Squares its input; can be held up, and refuses negative numbers."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, inputs, outputs=OUTPUTS):
        self.gate.wait(10)
        self.batches.append(len(inputs["x"]))
        if (inputs["x"] < 0).any():
            raise RequestError(Code.INVALID_ARGUMENT, "negative")
        answer = {"y": inputs["x"] ** 2, "z": inputs["x"] + 1}
        return {name: answer[name] for name in outputs}


def rows(*values: float) -> dict[str, np.ndarray]:
    return {"x": np.array(values, np.float32)}


async def held_up(model: Model, batcher: Batcher, *requests: dict[str, np.ndarray]) -> list[asyncio.Task]:
    """Submits one request that occupies the only thread, and then others that have to wait."""
    model.gate.clear()
    tasks = [asyncio.create_task(batcher.run(request, OUTPUTS)) for request in (rows(100), *requests)]
    await asyncio.sleep(0.05)
    return tasks


def run(test) -> None:
    async def main() -> None:
        pool = WorkerPool(1)
        model = Model()
        try:
            await test(pool, model)
        finally:
            model.gate.set()
            pool.close()

    asyncio.run(main())


def test_what_waits_is_run_together_and_handed_back_to_its_sender():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions(max_batch_size=8))
        tasks = await held_up(model, batcher, rows(1, 2), rows(3), rows(4, 5, 6))
        assert batcher.depth == 6
        model.gate.set()
        answers = await asyncio.gather(*tasks)
        assert model.batches == [1, 6]
        assert [answer["y"].tolist() for answer in answers] == [[10000], [1, 4], [9], [16, 25, 36]]
        assert answers[3]["z"].tolist() == [5, 6, 7]
        assert batcher.depth == 0

    run(test)


def test_batches_leave_half_of_the_threads_to_others():
    async def test() -> None:
        pool, model = WorkerPool(4), Model()
        try:
            batcher = Batcher(pool, model, BatchingOptions(max_batch_size=8))
            tasks = await held_up(model, batcher, rows(1), rows(2), rows(3))
            assert batcher.depth == 2
            assert await pool.run(lambda: "free") == "free"
            model.gate.set()
            await asyncio.gather(*tasks)
            assert sorted(model.batches) == [1, 1, 2]
        finally:
            model.gate.set()
            pool.close()

    asyncio.run(test())


def test_a_batch_is_never_larger_than_allowed_unless_one_request_is():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions(max_batch_size=4))
        requests = [rows(1, 2, 3), rows(4), rows(5), rows(*range(9)), rows(6)]
        tasks = await held_up(model, batcher, *requests)
        model.gate.set()
        answers = await asyncio.gather(*tasks)
        assert model.batches == [1, 4, 1, 9, 1]
        for request, answer in zip(requests, answers[1:], strict=True):
            np.testing.assert_array_equal(answer["y"], request["x"] ** 2)

    run(test)


def test_a_bad_request_fails_alone():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions())
        tasks = await held_up(model, batcher, rows(1), rows(-1), rows(2))
        model.gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [answers[1]["y"].tolist(), answers[3]["y"].tolist()] == [[1], [4]]
        assert isinstance(answers[2], RequestError)
        assert answers[2].message == "negative"

    run(test)


def test_one_bad_request_among_many_is_found_by_halving():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions(max_batch_size=32, max_enqueued_batches=2))
        tasks = await held_up(model, batcher, *(rows(-1 if value == 21 else value) for value in range(32)))
        model.gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [index for index, answer in enumerate(answers[1:]) if isinstance(answer, Exception)] == [21]
        assert [answer["y"].tolist() for answer in answers[1:22]] == [[value**2] for value in range(21)]
        assert model.batches == [1, 32, 16, 16, 8, 8, 4, 4, 2, 2, 1, 1]

    run(test)


def test_many_bad_requests_take_a_bounded_number_of_calls_before_others_have_their_turn():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions(max_batch_size=32, max_enqueued_batches=2))
        tasks = await held_up(model, batcher, *(rows(-1) for _ in range(31)), rows(5))
        later = asyncio.create_task(pool.run(lambda: len(model.batches)))
        await asyncio.sleep(0)
        model.gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(answer, RequestError) for answer in answers) == 31
        assert answers[-1]["y"].tolist() == [25]  # nobody fails for others, whatever it takes
        assert await later <= 2 + 4 * 6
        assert len(model.batches) <= 2 + 4 * 6 + 32

    run(test)


def test_requests_for_different_outputs_are_run_together():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions())
        model.gate.clear()
        asked = [["y"], ["z"], ["z", "y"], []]
        tasks = [asyncio.create_task(batcher.run(rows(value), asked[value])) for value in range(4)]
        await asyncio.sleep(0.05)
        model.gate.set()
        answers = await asyncio.gather(*tasks)
        assert [list(answer) for answer in answers] == asked
        assert answers[2]["y"].tolist() == [4]
        assert model.batches == [1, 3]

    run(test)


def test_rows_of_other_shapes_are_not_joined():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions())
        tasks = await held_up(
            model, batcher, {"x": np.ones([2, 3])}, {"x": np.ones([1, 3])}, {"x": np.ones([1, 4])}
        )
        model.gate.set()
        answers = await asyncio.gather(*tasks)
        assert model.batches == [1, 3, 1]
        assert [answer["y"].shape for answer in answers[1:]] == [(2, 3), (1, 3), (1, 4)]

    run(test)


def test_a_model_that_loses_rows_is_run_request_by_request():
    async def test(pool, model):
        def truncating(inputs, outputs):
            model.gate.wait(10)
            return dict.fromkeys(outputs, inputs["x"][:1])

        batcher = Batcher(pool, truncating, BatchingOptions())
        tasks = await held_up(model, batcher, rows(1), rows(2))
        model.gate.set()
        assert [answer["y"].tolist() for answer in await asyncio.gather(*tasks)] == [[100], [1], [2]]

    run(test)


def test_a_full_queue_refuses_at_once():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions(max_batch_size=2, max_enqueued_batches=2))
        tasks = await held_up(model, batcher, rows(1, 2), rows(3, 4))
        with pytest.raises(RequestError, match="queue to which this task was submitted is full") as caught:
            await asyncio.wait_for(batcher.run(rows(5), OUTPUTS), 1)
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
        model.gate.set()
        assert len(await asyncio.gather(*tasks)) == 3
        assert (await batcher.run(rows(6), OUTPUTS))["y"].tolist() == [36]

    run(test)


def test_work_whose_caller_has_gone_is_not_started():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions())
        tasks = await held_up(model, batcher, rows(1), rows(2))
        tasks[1].cancel()
        single = asyncio.create_task(pool.run(lambda: model(rows(7))))
        await asyncio.sleep(0)
        single.cancel()
        await asyncio.sleep(0)
        model.gate.set()
        await asyncio.gather(*tasks, single, return_exceptions=True)
        assert model.batches == [1, 1]
        assert tasks[2].result()["y"].tolist() == [4]

    run(test)


def test_a_request_waits_for_others_no_longer_than_configured():
    async def test(pool, model):
        patient = Batcher(pool, model, BatchingOptions(max_batch_size=3, batch_timeout_micros=300_000_000))
        full = asyncio.gather(*(patient.run(rows(value), OUTPUTS) for value in range(3)))
        await asyncio.wait_for(full, 30)  # full: no need to wait
        batcher = Batcher(pool, model, BatchingOptions(max_batch_size=3, batch_timeout_micros=200_000))
        start = time.monotonic()
        await asyncio.wait_for(
            asyncio.gather(batcher.run(rows(1), OUTPUTS), batcher.run(rows(2), OUTPUTS)), 30
        )
        assert time.monotonic() - start > 0.15
        assert model.batches == [3, 2]

    run(test)


def test_many_requests_in_any_order_get_their_own_answers():
    async def test(pool, model):
        batcher = Batcher(pool, model, BatchingOptions(max_batch_size=7, max_enqueued_batches=1000))
        generator = np.random.default_rng(0)
        requests = [rows(*generator.integers(0, 100, generator.integers(1, 5))) for _ in range(500)]
        answers = await asyncio.gather(*(batcher.run(request, ["y"]) for request in requests))
        for request, answer in zip(requests, answers, strict=True):
            np.testing.assert_array_equal(answer["y"], request["x"] ** 2)
        assert len(model.batches) < len(requests) / 2

    run(test)


def test_calls_run_first_come_first_served():
    async def test(pool, model):
        order: list[int] = []
        await asyncio.gather(*(pool.run(lambda index=index: order.append(index)) for index in range(20)))
        assert order == list(range(20))
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 / 0)
        assert pool.depth == 0

    run(test)


def test_options_are_read_from_tensorflow_servings_format(tmp_path):
    file = tmp_path / "batching.txt"
    file.write_text(
        "max_batch_size { value: 64 }\nbatch_timeout_micros { value: 500 }\n"
        "max_enqueued_batches { value: 9 }\nnum_batch_threads { value: 3 }\nthread_pool_name { value: 'x' }\n"
    )
    assert read_batching_options(file) == BatchingOptions(64, 500, 9, 3)
    file.write_text("max_batch_size { value: 2 }")
    assert read_batching_options(file) == BatchingOptions(max_batch_size=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense: 1", "not a BatchingParameters in text format"),
        ("max_batch_size { value: 0 }", "`max_batch_size` must be at least 1"),
        ("batch_timeout_micros { value: -1 }", "`batch_timeout_micros` must be at least 0"),
        ("allowed_batch_sizes: 4", "neither pads inputs nor rounds batch sizes"),
    ],
)
def test_bad_options_are_refused(tmp_path, text, message):
    file = tmp_path / "batching.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_batching_options(file)
