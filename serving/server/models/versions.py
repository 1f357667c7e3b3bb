"""The versions of one model: their states, which of them answers a request, and what to do next.

Decides and keeps the history. The manager does the loading and unloading.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from serving.server.models.config import ModelConfig
from serving.server.models.directory import Fingerprint
from serving.server.models.servable import Servable
from serving.server.status import Code, RequestError, State, not_found

#: A version that failed is loaded again when its files change, or after this time.
RETRY_SECONDS = 60.0
#: How many unloaded versions the status still lists.
_REMEMBERED = 10


@dataclasses.dataclass
class Version:
    """A version and its state.

    Attributes:
        number: The version.
        path: Its directory.
        state: Its state.
        error: Why it was refused, or None.
        servable: Runs it while it is loaded.
        tried: Fingerprint of the files when the version was refused.
        seen: Fingerprint of the files at the last check. A retry waits until they stop changing.
        retry_at: Time of the next attempt if no file changes, on the clock of `time.monotonic`.
    """

    number: int
    path: Path
    state: State = State.START
    error: RequestError | None = None
    servable: Servable | None = None
    tried: Fingerprint = ()
    seen: Fingerprint = ()
    retry_at: float = 0.0

    def refuse(self, error: RequestError, files: Fingerprint) -> None:
        """Records that loading failed.

        Args:
            error: The reason.
            files: Fingerprint of the files that were loaded.
        """
        self.state, self.error = State.END, error
        self.tried = self.seen = files
        self.retry_at = time.monotonic() + RETRY_SECONDS

    def may_retry(self, files: Fingerprint) -> bool:
        """Whether to load a refused version again, given the current fingerprint of its files."""
        settled = files == self.seen
        self.seen = files
        return settled and (files != self.tried or time.monotonic() >= self.retry_at)


class ModelVersions:
    """The versions of one model.

    Args:
        config: Configuration of the model.
        before: Versions with the same name from an earlier base path. They answer until a version from the
            new base path does.
    """

    def __init__(self, config: ModelConfig, before: ModelVersions | None = None) -> None:
        self.config = config
        self.before = before
        self.versions: dict[int, Version] = {}
        #: Whether the server has tried to load the versions that were on disk at the start.
        self.was_tried = False

    @property
    def available(self) -> list[Version]:
        """The available versions, lowest first."""
        return [self.versions[n] for n in sorted(self.versions) if self.versions[n].state == State.AVAILABLE]

    @property
    def loaded(self) -> list[Version]:
        """The available versions, including those of the earlier base path."""
        return self.available if self.before is None else [*self.available, *self.before.loaded]

    @property
    def broken(self) -> set[int]:
        """The versions that were refused."""
        return {n for n, version in self.versions.items() if version.error is not None}

    def find(self, number: int | None) -> Servable:
        """Returns the version that answers a request.

        Args:
            number: The version. None for the highest available one.

        Returns:
            The loaded version.

        Raises:
            RequestError: NOT_FOUND, with TensorFlow Serving's message, if no such version is available, or
                UNAVAILABLE, which clients retry, while the model is loading.
        """
        name = self.config.name
        if number is None:
            version = self.available[-1] if self.available else None
        else:
            version = self.versions.get(number)
        if version is not None and version.servable is not None:
            return version.servable
        if self.before is not None and self.before.loaded:
            return self.before.find(number)
        if not self.was_tried:
            raise RequestError(Code.UNAVAILABLE, f"Model {name} is being loaded; try again soon.")
        what = f"Latest({name})" if number is None else f"Specific({name}, {number})"
        raise not_found(f"Servable not found for request: {what}")

    def to_load(self, found: dict[int, Path]) -> list[int]:
        """Returns the wanted versions that were neither loaded nor refused, given those on disk."""
        wanted = self.config.policy.choose(found, self.broken)
        return [n for n in wanted if n not in self.versions or self._has_left(n)]

    def worth_retrying(self, found: dict[int, Path]) -> list[int]:
        """Returns the refused versions that would be wanted if they could be loaded, given those on disk."""
        policy, broken = self.config.policy, self.broken
        return [n for n in sorted(broken & found.keys()) if n in policy.choose(found, broken - {n})]

    def to_unload(self, found: dict[int, Path]) -> list[Version]:
        """Returns the loaded versions that are no longer wanted.

        Nothing is unloaded before a wanted version is available. So a model keeps answering even if its
        directory disappears.

        Args:
            found: The versions on disk.

        Returns:
            The versions to unload.
        """
        wanted = set(self.config.policy.choose(found, self.broken))
        if not any(version.number in wanted for version in self.available):
            return []
        return [version for version in self.loaded if self._is_replaced(version, wanted)]

    def forget(self, found: dict[int, Path]) -> list[int]:
        """Forgets refused versions that are no longer on disk, and the oldest unloaded versions.

        Args:
            found: The versions on disk.

        Returns:
            The forgotten versions.
        """
        if self.before is not None and not self.before.loaded:
            self.before = None
        ended = [n for n in sorted(self.versions) if self._has_left(n)]
        forgotten = [*ended[:-_REMEMBERED], *(self.broken - found.keys())]
        for number in forgotten:
            del self.versions[number]
        return forgotten

    def check_labels(self, config: ModelConfig) -> None:
        """Checks that a new configuration moves labels only to available versions.

        Args:
            config: The new configuration.

        Raises:
            RequestError: FAILED_PRECONDITION, if a label would move to another version.
        """
        answering = {version.number for version in self.available}
        for label, number in config.labels.items():
            if self.config.labels.get(label, number) != number and number not in answering:
                raise RequestError(
                    Code.FAILED_PRECONDITION,
                    f"Request to assign label to version {number} of model {config.name},"
                    " which is not currently available for inference",
                )

    def _is_replaced(self, version: Version, wanted: set[int]) -> bool:
        return version.number not in wanted or self.versions.get(version.number) is not version

    def _has_left(self, number: int) -> bool:
        version = self.versions[number]
        return version.state == State.END and version.error is None
