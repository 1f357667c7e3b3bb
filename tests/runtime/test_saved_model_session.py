"""Loading and running models through the C library."""

from __future__ import annotations

import contextlib
import shutil
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from xtr_tf.errors import InputError
from xtr_tf.runtime import InvalidArgumentError, SavedModelSession, SessionOptions


@pytest.fixture(scope="module")
def session(toy_model: Path):
    with SavedModelSession(toy_model) as session:
        yield session


# In a new process, so that the memory of other tests is not measured.
MEASURE = textwrap.dedent(
    """
    import gc
    import sys
    from pathlib import Path

    import numpy as np

    from xtr_tf.runtime import InvalidArgumentError, SavedModelSession, release_unused_code

    def resident_bytes():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    """
)


def test_runs_numbers(session):
    product = session.run("multiply", {"vectors": np.array([[1, 1], [0, 2]], np.float32)})["product"]
    np.testing.assert_array_equal(product, [[4, 6], [6, 8]])


@pytest.mark.parametrize(
    "text",
    ["", "a", "b" * 22, "c" * 23, "d" * 100_000, "نص عربي", b"\xff\x00\xfe", b"a\x00", "\U0001f600" * 99],
)
def test_strings_survive(session, text):
    raw = text.encode() if isinstance(text, str) else text
    answer = session.run("repeat", {"text": [text, "x"], "times": 2})
    assert answer["repeated"].tolist() == [raw, raw, b"x", b"x"]
    assert answer["lengths"].tolist() == [len(raw), 1]


def test_outputs_can_be_chosen(session):
    inputs = {"text": ["a", "bc"], "times": 1}
    assert list(session.run("repeat", inputs, ["lengths"])) == ["lengths"]
    assert session.run("repeat", inputs, ["lengths", "repeated"])["repeated"].tolist() == [b"a", b"bc"]


def test_a_model_can_be_loaded_and_run_on_threads_of_low_priority(toy_model):
    def threads() -> dict[str, int]:
        """The niceness of every thread of this process, by its number."""
        found = {}
        for folder in Path("/proc/self/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                found[folder.name] = int(fields[16])
        return found

    with SavedModelSession(toy_model):
        before = threads()
        with SavedModelSession(toy_model, options=SessionOptions(loading_threads=2)) as second:
            added = [niceness for number, niceness in threads().items() if number not in before]
            answer = second.run("repeat", {"text": ["a"], "times": 2}, background=True)
            assert answer["repeated"].tolist() == [b"a", b"a"]
    assert len(added) >= 2
    assert min(added) > min(before.values())


def test_invalid_unicode_is_passed_on_as_bytes(session):
    answer = session.run("repeat", {"text": ["\udcff"], "times": 1})
    assert answer["repeated"].tolist() == [b"\xff"]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 1)])
def test_every_dtype_and_rank_is_mirrored(session, shape):
    generator = np.random.default_rng(0)
    numbers = generator.integers(0, 100, shape)
    inputs = {
        name: np.asarray(numbers, dtype=name)
        for name in ("float64", "int64", "int8", "uint8", "bool", "float16")
    }
    strings = np.empty(shape, object)
    strings.fill(b"s")
    inputs["string"] = strings
    outputs = session.run("mirror", inputs)
    for name, value in inputs.items():
        assert outputs[f"same_{name}"].dtype == value.dtype
        np.testing.assert_array_equal(outputs[f"same_{name}"], value)


def test_arrays_need_not_be_contiguous(session):
    vectors = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::3]
    answer = session.run("multiply", {"vectors": vectors})["product"]
    np.testing.assert_array_equal(answer, vectors @ np.array([[1, 2], [3, 4]], np.float32))


def test_describes_its_signatures(session):
    assert sorted(session.signatures) == ["mirror", "multiply", "repeat"]
    repeat = session.signatures["repeat"]
    assert repeat.inputs["text"].describe_dtype() == "string"
    assert repeat.inputs["text"].shape == (None,)
    assert repeat.inputs["times"].shape == ()
    assert repeat.inputs["text"].describe_shape() == "[?]"


@pytest.mark.parametrize(
    ("signature", "inputs", "message"),
    [
        ("nothing", {}, r"signatures are \['mirror', 'multiply', 'repeat'\]\. Received: signature 'nothing'"),
        ("multiply", {}, r"missing \['vectors'\], unknown \[\]"),
        ("multiply", {"vector": [[0.0, 0.0]]}, r"missing \['vectors'\], unknown \['vector'\]"),
        ("multiply", {"vectors": [[0.0]]}, r"must have the shape \[\?, 2\]\. Received: shape \[1, 1\]"),
        ("multiply", {"vectors": 1.0}, r"must have the shape \[\?, 2\]\. Received: shape \[\]"),
        ("multiply", {"vectors": np.zeros([1, 2])}, "must be of type float32. Received: float64"),
        ("multiply", {"vectors": [["a", "b"]]}, "must be of type float32. Received: list"),
        ("multiply", {"vectors": [[1.0], [2.0, 3.0]]}, "must be of type float32. Received: list"),
        ("repeat", {"text": [1], "times": 1}, "`text` must be of type string. Received: int"),
        ("repeat", {"text": ["\ud83d"], "times": 1}, "`text` must be text that UTF-8 can encode"),
        ("repeat", {"text": "a", "times": 1}, r"`text` must have the shape \[\?\]"),
        ("repeat", {"text": ["a"], "times": 1.5}, "`times` must be of type int32. Received: 1.5"),
        ("repeat", {"text": ["a"], "times": 2**40}, "`times` must be of type int32. Received: 1099511627776"),
        ("repeat", {"text": ["a"], "times": None}, "`times` must be of type int32"),
    ],
)
def test_bad_input_is_one_sentence(session, signature, inputs, message):
    with pytest.raises(InputError, match=message):
        session.run(signature, inputs)


def test_an_assertion_of_the_model_is_bad_input(session):
    with pytest.raises(
        InvalidArgumentError, match=r"^`times` must not be negative\. Received: -1\.$"
    ) as caught:
        session.run("repeat", {"text": ["a"], "times": -1})
    assert isinstance(caught.value, InputError)
    assert caught.value.code == 3


def test_bad_directories_are_refused(tmp_path, toy_model):
    with pytest.raises(InputError, match=r"holds a file `saved_model.pb`"):
        SavedModelSession(tmp_path / "absent")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "saved_model.pb").write_bytes(b"\xff" * 100)
    with pytest.raises(InputError, match="not a SavedModel or is damaged"):
        SavedModelSession(damaged)
    headless = tmp_path / "headless"
    headless.mkdir()
    (headless / "saved_model.pb").write_bytes((toy_model / "saved_model.pb").read_bytes())
    with pytest.raises(InputError, match="variables are missing"):
        SavedModelSession(headless)
    truncated = tmp_path / "truncated"
    shutil.copytree(toy_model, truncated)
    data = next((truncated / "variables").glob("variables.data-*"))
    data.write_bytes(data.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"cannot load the model: .*Received: "):
        SavedModelSession(truncated)


def test_a_missing_op_library_is_named(tmp_path, toy_model):
    with pytest.raises(InputError, match=r"op library does not load: .*nowhere\.so"):
        SavedModelSession(toy_model, op_libraries=[tmp_path / "nowhere.so"])


@pytest.mark.parametrize(
    "options", [SessionOptions(1, 1), SessionOptions(rewrite_graph=True, spinning=False)]
)
def test_threads_and_rewriting_are_options(toy_model, options):
    with SavedModelSession(toy_model, options=options) as session:
        assert session.run("multiply", {"vectors": [[1.0, 0.0]]})["product"].tolist() == [[1.0, 2.0]]


def test_negative_threads_are_refused():
    with pytest.raises(InputError, match="`intra_op_threads` must be zero"):
        SessionOptions(intra_op_threads=-1)


def test_code_that_was_given_back_returns(toy_model, fresh_python):
    script = """
    with SavedModelSession(sys.argv[1]) as session:
        before = resident_bytes()
        released = release_unused_code()
        print(released, before - resident_bytes())
        print(session.run("multiply", {"vectors": [[1.0, 0.0]]})["product"].tolist())
    """
    sizes, product = fresh_python(MEASURE + textwrap.dedent(script), toy_model).splitlines()
    released, shrunk = map(int, sizes.split())
    assert released > 100 << 20
    assert shrunk > 20 << 20
    assert product == "[[1.0, 2.0]]"


def test_many_threads_share_a_session(session):
    wrong: list[int] = []

    def work(seed: int) -> None:
        for number in range(seed, seed + 200):
            answer = session.run("repeat", {"text": [str(number) * 30], "times": 3})
            if answer["repeated"].tolist() != [str(number).encode() * 30] * 3:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(1000 * seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_close_waits_for_running_calls_and_refuses_later_ones(toy_model):
    session = SavedModelSession(toy_model)
    text = ["x" * 1000] * 2000
    answers: list[int] = []
    refused: list[str] = []

    def work() -> None:
        try:
            for _ in range(1000):
                answers.append(len(session.run("repeat", {"text": text, "times": 5})["repeated"]))
        except InputError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while not answers:
        time.sleep(0.001)
    session.close()
    for thread in threads:
        thread.join()
    assert set(answers) == {10_000}
    assert len(refused) == 3
    assert "has been closed" in refused[0]
    session.close()


def test_nothing_leaks_over_thousands_of_calls(toy_model, fresh_python):
    script = """
    vectors = np.zeros([2000, 2], np.float32)

    def call(times):
        for _ in range(times):
            session.run("multiply", {"vectors": vectors})
            session.run("repeat", {"text": ["y" * 5000] * 4, "times": 2})
            try:
                session.run("repeat", {"text": ["y" * 5000] * 4, "times": -1})
            except InvalidArgumentError:
                continue
            raise AssertionError("a negative number of times was accepted")

    with SavedModelSession(sys.argv[1]) as session:
        grown = []
        for _ in range(3):
            gc.collect()
            before = resident_bytes()
            call(700)
            grown.append(resident_bytes() - before)
        print(min(grown))
    """
    # Allocators take their time to settle; a leak of one string per call would be 3.5 MB in every round.
    assert int(fresh_python(MEASURE + textwrap.dedent(script), toy_model)) < 1 << 20


def test_closing_or_dropping_a_session_frees_the_model(tmp_path, fresh_python):
    import tensorflow as tf

    class Heavy(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = tf.Variable(tf.random.normal([8 << 20]))

        @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="index")])
        def look_up(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"value": self.weights[index]}

    module = Heavy()
    tf.saved_model.save(module, str(tmp_path / "heavy"), signatures=module.look_up)
    script = """
    for number in range(10):
        session = SavedModelSession(sys.argv[1])
        session.run("serving_default", {"index": 3})
        if number < 5:
            session.close()
        del session
        print(resident_bytes())
    """
    sizes = [
        int(size) for size in fresh_python(MEASURE + textwrap.dedent(script), tmp_path / "heavy").split()
    ]
    assert sizes[-1] - sizes[1] < 40 << 20, sizes  # one model is 32 MiB
