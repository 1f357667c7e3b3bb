"""The versions of one model: their states, which of them answers, and what is to be done next.

Decides, and remembers what happened; loading and unloading is the manager's business.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from serving.server.models.config import ModelConfig
from serving.server.models.directory import Fingerprint
from serving.server.models.servable import Servable
from serving.server.status import Code, RequestError, State, not_found

#: A version that failed is tried again when its files change, or after this long.
RETRY_SECONDS = 60.0
#: How many unloaded versions the status still tells of.
_REMEMBERED = 10


@dataclasses.dataclass
class Version:
    """One version on its way through the states.

    Attributes:
        number: The version.
        path: Its directory.
        state: Its state.
        error: Why it was refused, if it was.
        servable: What runs it, while it is loaded.
        tried: Fingerprint of the files when it was refused.
        seen: Fingerprint at the last look; a retry waits until the files have stopped changing.
        retry_at: Monotonic time of the next attempt if nothing changes.
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
        """Records that loading failed."""
        self.state, self.error = State.END, error
        self.tried = self.seen = files
        self.retry_at = time.monotonic() + RETRY_SECONDS

    def may_retry(self, files: Fingerprint) -> bool:
        """Whether a refused version deserves another attempt."""
        settled = files == self.seen
        self.seen = files
        return settled and (files != self.tried or time.monotonic() >= self.retry_at)


class ModelVersions:
    """What is known about one model.

    Args:
        config: Which versions are wanted, and labels for them.
        before: What was served under the name from another base path; answers until a version of
            this one does.
    """

    def __init__(self, config: ModelConfig, before: ModelVersions | None = None) -> None:
        self.config = config
        self.before = before
        self.versions: dict[int, Version] = {}
        #: Whether everything that was on disk at first has been tried.
        self.was_tried = False

    @property
    def available(self) -> list[Version]:
        """Versions that answer, lowest first."""
        return [self.versions[n] for n in sorted(self.versions) if self.versions[n].state == State.AVAILABLE]

    @property
    def loaded(self) -> list[Version]:
        """Versions that answer, and those of the base path before that still do."""
        return self.available if self.before is None else [*self.available, *self.before.loaded]

    @property
    def broken(self) -> set[int]:
        """Versions that were refused."""
        return {n for n, version in self.versions.items() if version.error is not None}

    def find(self, number: int | None) -> Servable:
        """Returns the version that is to answer: the highest one if none is named.

        Raises:
            RequestError: No such version takes requests (TensorFlow Serving's messages), or none does
                yet: UNAVAILABLE, which clients retry.
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
        """Returns the wanted versions that have neither been loaded nor refused."""
        wanted = self.config.policy.choose(found, self.broken)
        return [n for n in wanted if n not in self.versions or self._has_left(n)]

    def worth_retrying(self, found: dict[int, Path]) -> list[int]:
        """Returns the refused versions that would be wanted if they were sound."""
        policy, broken = self.config.policy, self.broken
        return [n for n in sorted(broken & found.keys()) if n in policy.choose(found, broken - {n})]

    def to_unload(self, found: dict[int, Path]) -> list[Version]:
        """Returns the loaded versions that are no longer wanted.

        Nothing goes while no wanted version answers: a model that answers keeps answering, also
        when its directory has vanished.
        """
        wanted = set(self.config.policy.choose(found, self.broken))
        if not any(version.number in wanted for version in self.available):
            return []
        return [version for version in self.loaded if self._is_replaced(version, wanted)]

    def forget(self, found: dict[int, Path]) -> list[int]:
        """Forgets refused versions that are gone, and the oldest of those unloaded; returns them."""
        if self.before is not None and not self.before.loaded:
            self.before = None
        ended = [n for n in sorted(self.versions) if self._has_left(n)]
        forgotten = [*ended[:-_REMEMBERED], *(self.broken - found.keys())]
        for number in forgotten:
            del self.versions[number]
        return forgotten

    def check_labels(self, config: ModelConfig) -> None:
        """Refuses a configuration that moves a label to a version that does not answer."""
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
