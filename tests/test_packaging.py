"""The lock files and extras: hashed, without index addresses, and a serving host without TFX."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = ("requirements.lock", "requirements-serving.lock")
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
def test_lock_is_hashed_and_names_no_index(repository: Path, lock: str) -> None:
    text = (repository / lock).read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert len(entries) > 40
    assert all("--hash=sha256:" in entry for entry in entries)


def test_serving_lock_is_a_part_of_the_full_lock(repository: Path) -> None:
    full, serving = (locked(repository / lock) for lock in LOCKS)
    assert serving.items() <= full.items()
    assert full.keys() >= PIPELINE_ONLY
    assert PIPELINE_ONLY.isdisjoint(serving)


def test_locks_satisfy_the_declared_requirements(repository: Path) -> None:
    full = locked(repository / "requirements.lock")
    serving = locked(repository / "requirements-serving.lock")
    for line in metadata.requires("xtr-tf") or []:
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        assert requirement.specifier.contains(full[name]), line
        if requirement.marker is None or requirement.marker.evaluate({"extra": "serving"}):
            assert name in serving, line


@pytest.mark.parametrize("extras", [set(), {"serving"}])
def test_base_and_serving_need_no_pipeline_packages(extras: set[str]) -> None:
    needed = closure(extras)
    assert {"tensorflow", "scann"} <= needed
    assert needed.isdisjoint(PIPELINE_ONLY)
    assert closure({"pipeline"}) >= PIPELINE_ONLY


def test_no_index_address_in_the_repository(repository: Path) -> None:
    addresses = r"https?://[^ ]*(pypi\.org|pythonhosted\.org|registry\.npmjs\.org|download\.pytorch\.org)"
    found = subprocess.run(
        ["git", "grep", "-nIE", addresses, "--", ".", ":!tests/test_packaging.py"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1, found.stdout + found.stderr
