"""Configurations in TensorFlow Serving's format, and the choice of versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.server.models.config import ModelConfig, VersionPolicy, read_model_configs
from serving.server.models.directory import find_versions, fingerprint
from serving.server.models.versions import ModelVersions, State, Version
from serving.server.status import Code, RequestError
from xtr_tf.errors import InputError


def read(tmp_path: Path, text: str) -> list[ModelConfig]:
    file = tmp_path / "models.config"
    file.write_text(text)
    return read_model_configs(file)


def test_a_full_configuration(tmp_path):
    configs = read(
        tmp_path,
        """
        model_config_list {
          config {
            name: "atlas"
            base_path: "/models/atlas"
            model_platform: "tensorflow"
            model_version_policy { specific { versions: 3 versions: 1 } }
            version_labels { key: "stable" value: 1 }
            version_labels { key: "canary" value: 3 }
          }
          config { name: "b" base_path: "/b" model_platform: "tensorflow" model_version_policy { all {} } }
          config { name: "c" base_path: "/c" model_platform: "tensorflow"
                   model_version_policy { latest { num_versions: 2 } } }
          config { name: "d" base_path: "/d" model_platform: "tensorflow" }
        }
        """,
    )
    assert configs[0] == ModelConfig(
        "atlas", Path("/models/atlas"), VersionPolicy(specific=(1, 3)), {"stable": 1, "canary": 3}
    )
    assert [config.policy for config in configs[1:]] == [
        *(VersionPolicy(every=True), VersionPolicy(latest=2), VersionPolicy())
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "not a ModelServerConfig in text format"),
        ("", "Only ModelConfigList is currently supported"),
        ('model_config_list { config { base_path: "/a" model_platform: "tensorflow" } }', "has no name"),
        ('model_config_list { config { name: "a" base_path: "/a" } }', "Illegal setting neither"),
        (
            'model_config_list { config { name: "a" base_path: "gs://b/a" model_platform: "tensorflow" } }',
            r"Model a: this server reads models from a file system.* base_path\(\)=gs://b/a",
        ),
        (
            'model_config_list { config { name: "a" base_path: "/a" model_platform: "caffe" } }',
            "Model a requests unsupported platform caffe",
        ),
        (
            'model_config_list { config { name: "a" base_path: "a" model_platform: "tensorflow" } }',
            "to have an absolute path",
        ),
        (
            'model_config_list { config { name: "a" base_path: "/a" model_platform: "tensorflow" }'
            ' config { name: "a" base_path: "/b" model_platform: "tensorflow" } }',
            "Illegal to list model a multiple times in config list",
        ),
        (
            'model_config_list { config { name: "a" base_path: "/a" model_platform: "tensorflow"'
            " model_version_policy { specific {} } } }",
            "names no version",
        ),
    ],
)
def test_bad_configurations_are_one_sentence(tmp_path, text, message):
    with pytest.raises(InputError, match=f"{message}.*Received: .*models.config"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("policy", "broken", "chosen"),
    [
        (VersionPolicy(), [], [9]),
        (VersionPolicy(), [9], [4]),
        (VersionPolicy(), [2, 4, 9], []),
        (VersionPolicy(latest=2), [], [4, 9]),
        (VersionPolicy(latest=5), [], [2, 4, 9]),
        (VersionPolicy(every=True), [4], [2, 4, 9]),
        (VersionPolicy(specific=(2, 7)), [2], [2]),
    ],
)
def test_versions_are_chosen(policy, broken, chosen):
    assert policy.choose([9, 2, 4], broken) == chosen


def test_only_numbered_directories_are_versions(tmp_path):
    for name in ("1", "20", "003", "x", "-1", "1.5", ".4.abc.partial", "٣"):
        (tmp_path / name).mkdir()
    (tmp_path / "7").write_text("a file")
    assert sorted(find_versions(tmp_path)) == [1, 3, 20]
    assert find_versions(tmp_path / "absent") == {}


def test_a_fingerprint_changes_with_any_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("a")
    before = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == before
    (tmp_path / "folder" / "file").write_text("ab")
    assert fingerprint(tmp_path) != before
    assert fingerprint(tmp_path / "absent") == ()


class FakeServable:
    """A stand-in for a loaded model; these tests look only at the choice of versions."""


def model(states: dict[int, State], policy: VersionPolicy | None = None, **labels: int) -> ModelVersions:
    versions = ModelVersions(ModelConfig("m", Path("/m"), policy or VersionPolicy(), labels))
    versions.was_tried = True
    for number, state in states.items():
        version = versions.versions[number] = Version(number, Path(f"/m/{number}"), state)
        if state == State.AVAILABLE:
            version.servable = FakeServable()  # type: ignore[assignment]
    return versions


def found(*numbers: int) -> dict[int, Path]:
    return {number: Path(f"/m/{number}") for number in numbers}


def test_a_new_version_is_loaded_before_the_old_one_goes():
    versions = model({1: State.AVAILABLE})
    assert versions.to_load(found(1, 2)) == [2]
    assert versions.to_unload(found(1, 2)) == []
    versions.versions[2] = Version(2, Path("/m/2"), State.AVAILABLE)
    assert [version.number for version in versions.to_unload(found(1, 2))] == [1]


def test_a_broken_version_leaves_the_old_one_and_is_retried_when_its_files_settle():
    versions = model({1: State.AVAILABLE})
    broken = versions.versions[2] = Version(2, Path("/m/2"), State.LOADING)
    broken.refuse(RequestError(Code.INVALID_ARGUMENT, "no"), (("a", 1, 1),))
    assert versions.to_load(found(1, 2)) == []
    assert versions.to_unload(found(1, 2)) == []
    assert versions.worth_retrying(found(1, 2)) == [2]
    assert not broken.may_retry((("a", 1, 1),))  # nothing changed
    assert not broken.may_retry((("a", 2, 2),))  # changing now
    assert broken.may_retry((("a", 2, 2),))  # settled
    broken.retry_at = 0
    assert broken.may_retry((("a", 2, 2),))


def test_a_broken_version_below_the_served_one_is_left_alone():
    versions = model({3: State.AVAILABLE})
    versions.versions[2] = Version(2, Path("/m/2"))
    versions.versions[2].refuse(RequestError(Code.INTERNAL, "no"), ())
    assert versions.worth_retrying(found(2, 3)) == []


def test_a_start_with_a_broken_newest_version_falls_back():
    versions = model({})
    versions.versions[2] = Version(2, Path("/m/2"))
    versions.versions[2].refuse(RequestError(Code.INTERNAL, "no"), ())
    assert versions.to_load(found(1, 2)) == [1]


def test_a_vanished_directory_takes_nothing_down():
    versions = model({1: State.AVAILABLE})
    assert versions.to_unload({}) == []


def test_an_unloaded_version_can_come_back():
    versions = model({1: State.END, 2: State.AVAILABLE})
    assert versions.to_load(found(1)) == [1]


def test_the_past_is_forgotten():
    versions = model(dict.fromkeys(range(30), State.END))
    versions.versions[99] = Version(99, Path("/m/99"))
    versions.versions[99].refuse(RequestError(Code.INTERNAL, "no"), ())
    assert 99 in versions.forget({})
    assert sorted(versions.versions) == list(range(20, 30))


def test_the_latest_or_a_named_version_answers():
    versions = model({1: State.AVAILABLE, 2: State.AVAILABLE, 3: State.UNLOADING})
    assert versions.find(None) is versions.versions[2].servable
    assert versions.find(1) is versions.versions[1].servable
    with pytest.raises(RequestError, match=r"^Servable not found for request: Specific\(m, 3\)$"):
        versions.find(3)
    empty = model({})
    with pytest.raises(RequestError, match=r"^Servable not found for request: Latest\(m\)$"):
        empty.find(None)
    empty.was_tried = False
    with pytest.raises(RequestError, match="Model m is being loaded") as caught:
        empty.find(None)
    assert caught.value.code is Code.UNAVAILABLE


def test_the_base_path_before_answers_until_the_new_one_does():
    before = model({1: State.AVAILABLE, 2: State.AVAILABLE})
    versions = ModelVersions(ModelConfig("m", Path("/n")), before)
    new = {2: Path("/n/2")}
    assert versions.to_load(new) == [2]
    assert versions.find(None) is before.versions[2].servable
    assert versions.to_unload(new) == []
    versions.versions[2] = Version(2, Path("/n/2"), State.AVAILABLE, servable=FakeServable())  # type: ignore[arg-type]
    assert versions.find(2) is versions.versions[2].servable
    assert versions.to_unload(new) == [before.versions[1], before.versions[2]]
    for version in before.versions.values():
        version.state = State.END
    versions.forget(new)
    assert versions.before is None


def test_labels_move_only_to_versions_that_answer():
    versions = model({1: State.AVAILABLE}, stable=1)
    versions.check_labels(ModelConfig("m", Path("/m"), labels={"stable": 1, "canary": 2}))
    with pytest.raises(
        RequestError, match="Request to assign label to version 2 of model m, which is not"
    ) as caught:
        versions.check_labels(ModelConfig("m", Path("/m"), labels={"stable": 2}))
    assert caught.value.code is Code.FAILED_PRECONDITION
