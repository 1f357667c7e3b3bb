"""The lock files and extras: hashed, without any address, a serving host without TFX; the version."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FULL, CURRENT, SERVING = LOCKS = (
    "requirements.lock",
    "requirements-current.lock",
    "requirements-serving.lock",
)
PIPELINE_ONLY = {"tfx", "apache-beam", "kfp", "ml-metadata", "tensorflow-data-validation"}


def locked(lock: Path) -> dict[str, str]:
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock.read_text(), re.MULTILINE)
    }


def closure(extras: set[str]) -> set[str]:
    """Every distribution that `xtr-tf[extras]` needs, walked through the installed metadata."""
    needed: set[str] = set()
    queue = [("xtr-tf", frozenset(extras))]
    while queue:
        name, wanted = queue.pop()
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            environments = [{"extra": extra} for extra in wanted or {""}]
            if requirement.marker and not any(requirement.marker.evaluate(e) for e in environments):
                continue
            dependency = canonicalize_name(requirement.name)
            if dependency not in needed:
                needed.add(dependency)
                queue.append((dependency, frozenset(requirement.extras)))
    return needed


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_is_hashed_and_holds_no_address(repository: Path, lock: str) -> None:
    text = (repository / lock).read_text()
    # A URL, `name @ file`, `--index-url host`: whatever says where a package is to be had.
    assert re.findall(r"\w+:/|//|@|^\s*-(?!-hash=sha256:)|\bwww\.", text, re.MULTILINE) == []
    entries = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert len(entries) > 40
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry) for entry in entries)


def test_the_serving_lock_is_a_part_of_the_current_one(repository: Path) -> None:
    full, current, serving = (locked(repository / lock) for lock in LOCKS)
    assert serving.items() <= current.items()
    assert full.keys() >= PIPELINE_ONLY
    assert PIPELINE_ONLY.isdisjoint(current)


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        (FULL, {"train", "eval", "serving", "pipeline"}),
        (CURRENT, {"train", "eval", "serving"}),
        (SERVING, {"serving"}),
    ],
)
def test_locks_satisfy_the_declared_requirements(repository: Path, lock: str, extras: set[str]) -> None:
    versions = locked(repository / lock)
    for requirement in map(Requirement, metadata.requires("xtr-tf") or []):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            version = versions[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{requirement} {version}"


def test_the_two_environments_have_the_tensorflow_they_are_for(repository: Path) -> None:
    full, current = locked(repository / FULL), locked(repository / CURRENT)
    assert (full["tensorflow"], full["scann"]) == ("2.16.2", "1.3.2")
    assert current["tensorflow"].startswith("2.20.")


@pytest.mark.parametrize("extras", [set(), {"serving"}])
def test_base_and_serving_need_no_pipeline_packages(extras: set[str]) -> None:
    needed = closure(extras)
    assert {"tensorflow", "scann"} <= needed
    assert needed.isdisjoint(PIPELINE_ONLY)


@pytest.mark.pipeline
def test_the_pipeline_needs_them() -> None:
    assert closure({"pipeline"}) >= PIPELINE_ONLY


def test_the_changelog_and_the_citation_name_the_version(repository: Path) -> None:
    from xtr_tf.version import __version__

    changelog = (repository / "CHANGELOG.md").read_text()
    sections = re.findall(r"^## (\S+)(?: \((\d{4}-\d\d-\d\d)\))?$", changelog, re.MULTILINE)
    assert sections[0] == ("Unreleased", "")
    dates = dict(sections[1:])
    citation = yaml.safe_load((repository / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert str(citation["date-released"]) == dates[__version__]


def test_the_size_of_a_serving_host_is_what_the_document_says(repository: Path) -> None:
    (said,) = re.findall(r"A serving host installs (\d+) packages", (repository / "BUILD.md").read_text())
    assert int(said) == len(locked(repository / SERVING))


def test_other_pythons_are_not_tested_with_what_imports_beam(repository: Path) -> None:
    """`make test-python` leaves out files that cannot be collected without the packages of `[pipeline]`."""
    makefile = (repository / "Makefile").read_text().replace("\\\n", "")
    left_out = re.search(r"^PIPELINE_TESTS := (.*)$", makefile, re.MULTILINE)
    assert left_out
    imports = re.compile(r"^(from|import) (apache_beam|tfx|xtr_tf\.vectors\.beam)\b", re.MULTILINE)
    needing = [
        path.relative_to(repository)
        for path in (repository / "tests").rglob("test_*.py")
        if imports.search(path.read_text(encoding="utf-8"))
    ]
    named = {Path(name) for name in left_out[1].split()}
    assert [path for path in needing if not named & {path, *path.parents}] == []
    assert all((repository / name).exists() for name in named)
