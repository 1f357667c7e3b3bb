"""YAML files, presets and overrides become one checked configuration, or one clear sentence."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tfx_pipeline.config import PipelineConfig, load_pipeline_config
from xtr_tf.config.loading import from_mapping, load_as, load_config, read_yaml, to_mapping
from xtr_tf.config.model import EncoderConfig
from xtr_tf.config.presets import ENCODER_PRESETS, RUN_PRESETS
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.config.training import RunConfig
from xtr_tf.errors import InputError


def test_defaults_need_no_file() -> None:
    assert load_config() == RunConfig()


def test_file_differs_from_its_preset_and_overrides_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("encoder:\n  preset: mt5_base\n  dropout: 0\ntokenizer:\n  query_length: 16\n")
    config = load_config(file, ["tokenizer.query_length=24", "encoder.norm_epsilon=1e-5"])
    assert config.encoder == dataclasses.replace(ENCODER_PRESETS["mt5_base"], dropout=0.0, norm_epsilon=1e-5)
    assert config.tokenizer.query_length == 24


def test_section_differs_from_the_outer_preset() -> None:
    config = from_mapping(RunConfig, {"preset": "mt5_large", "encoder": {"dropout": 0.5}})
    assert config.encoder.num_layers == 24
    assert config.encoder.dropout == 0.5


def test_a_list_of_sections() -> None:
    config = from_mapping(
        RunConfig, {"data": {"train": [{"path": "a.jsonl"}, {"path": "b", "format": "beir"}]}}
    )
    assert [(source.path, source.format) for source in config.data.train] == [
        ("a.jsonl", "auto"),
        ("b", "beir"),
    ]
    with pytest.raises(InputError, match=r"did you mean `data.train\[1\].path`"):
        from_mapping(RunConfig, {"data": {"train": [{}, {"pth": "b"}]}})


@pytest.mark.parametrize("name", RUN_PRESETS)
def test_every_preset_survives_yaml(name: str) -> None:
    text = yaml.safe_dump(to_mapping(RUN_PRESETS[name]))
    assert from_mapping(RunConfig, yaml.safe_load(text)) == RUN_PRESETS[name]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("encoder.dropuot=0", "did you mean `encoder.dropout`? Received: encoder.dropuot."),
        ("encodr.dropout=0", "did you mean `encoder`? Received: encodr."),
        ("encoder.qqqq=0", "known are vocabulary_size, "),
        ("encoder.num_layers=many", "`encoder.num_layers` must be a whole number. Received: 'many' (text)."),
        ("encoder.num_layers=true", "`encoder.num_layers` must be a whole number. Received: True"),
        ("encoder.num_layers=0", "`encoder.num_layers` must be positive. Received: 0."),
        ("encoder.dropout=high", "`encoder.dropout` must be a number. Received: 'high' (text)."),
        ("encoder.dropout=1", "`encoder.dropout` must be in [0, 1). Received: 1.0."),
        ("encoder.dtype=int8", "must be one of float32, mixed_bfloat16. Received: 'int8'."),
        ("encoder.rematerialize=1", "`encoder.rematerialize` must be true or false. Received: 1"),
        ("encoder.preset=mt5_smal", "did you mean `mt5_small`? Received: mt5_smal."),
        ("encoder=7", "`encoder` is a section of keys and values. Received: a whole number."),
        ("tokenizer.query_length=1", "must be at least 2"),
        ("tokenizer.query_length.deep=1", "must be a whole number. Received: {'deep': 1} (a mapping)."),
        ("encoder.dropout", "has the form key=value, such as encoder.dropout=0. Received: encoder.dropout."),
        ("=3", "has the form key=value"),
        ("encoder.dropout=[", "must be valid YAML. Received: encoder.dropout=[."),
    ],
)
def test_a_wrong_override_is_refused_in_one_sentence(override: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config(None, [override])
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"encoder: [1, 2", "is not valid YAML at line 1"),
        (b"encoder:\n\tdropout: 1", "is not valid YAML at line 2"),
        (b"- a\n- b\n", "must hold a mapping of sections"),
        (b"encoder: \xff\xfe", "cannot be read"),
    ],
)
def test_a_broken_file_is_refused_in_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "broken.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError, match=sentence) as caught:
        load_config(file)
    assert "\n" not in str(caught.value)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_config(tmp_path / "absent.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path)


def test_empty_file_means_defaults(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    assert load_config(tmp_path / "empty.yaml") == RunConfig()


def test_configurations_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        EncoderConfig().dropout = 0.2  # type: ignore[misc]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["encoder", "tokenizer", "preset", "x"]), json_values, max_size=3))
def test_anything_is_either_a_configuration_or_an_input_error(settings: dict[str, object]) -> None:
    try:
        message = to_mapping(from_mapping(RunConfig, settings)) and "Received: "
    except InputError as error:
        message = str(error)
    assert "Received: " in message


EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_load(path: Path) -> None:
    load = load_pipeline_config if path.stem.endswith("_pipeline") else load_config
    assert load(path)


def test_there_are_examples_of_both_kinds() -> None:
    assert {path.stem.endswith("_pipeline") for path in EXAMPLES} == {True, False}


@pytest.mark.parametrize(("old", "new"), IndexConfig.RENAMED.items())
def test_an_old_key_is_answered_with_the_new_one(old: str, new: str) -> None:
    with pytest.raises(InputError) as caught:
        load_as(PipelineConfig, None, [f"index.{old}=1"])
    assert (
        str(caught.value) == f"`index.{old}` is now called `index.{new}`; rename it. Received: index.{old}."
    )
    assert getattr(load_as(PipelineConfig, None, [f"index.{new}=1"]).index, new) == 1


def test_a_key_that_is_given_twice(tmp_path):
    """YAML would use the last one: for example, a field with two types."""
    path = tmp_path / "pipeline.yaml"
    path.write_text("corpus:\n  encoding:\n    fields: {year: int, year: float}\n")
    with pytest.raises(InputError, match=r"line 3, column 25; fix .*: the key 'year' twice"):
        read_yaml(path)
    path.write_text("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [{x: 1}, {x: 2}]\n")
    assert read_yaml(path) == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 2}]}
