"""Downloads checkpoints from the Hugging Face Hub: only the files that an import needs, into the Hub's cache.

`huggingface_hub` is the client, so `HF_ENDPOINT`, `HF_HOME`, `HF_TOKEN` and `HF_HUB_OFFLINE` work.
`opening.py` knows what is in the files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xtr_tf.checkpoints.importing import import_checkpoint
from xtr_tf.checkpoints.opening import PROJECTION_FOLDER, TOKENIZER_FILES, WEIGHT_FILES
from xtr_tf.errors import InputError
from xtr_tf.files import cache_folder, sha256_of
from xtr_tf.model.folder import MANIFEST_FILE, TOKENIZER_FILE, WEIGHTS_FILE

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SHARD = re.compile(r"(model|pytorch_model)-\d+-of-\d+\.(safetensors|bin)")
_SHARD_INDEX = ".index.json"


def is_hub_id(name: str) -> bool:
    """Returns whether a name could be an id on the Hub and is not a local path."""
    return bool(_ID.fullmatch(name)) and not Path(name).exists()


def fetch_encoder(
    repo_id: str, revision: str | None = None, projection_seed: int | None = None, progress: bool = True
) -> Path:
    """Downloads a checkpoint and imports it into xtr-tf's cache, once for each commit.

    Args:
        repo_id: Such as `google/mt5-small`.
        revision: Branch, tag or commit; the main branch if None.
        projection_seed: Initialises a random projection if the checkpoint has none.
        progress: Whether to show the progress of downloads.

    Returns:
        The encoder's directory.

    Raises:
        InputError: There is no such checkpoint, it cannot be reached, or it cannot be imported.
    """
    folder = fetch_checkpoint(repo_id, revision, progress)
    if (folder / MANIFEST_FILE).is_file():
        return folder
    drawn = "" if projection_seed is None else f"--projection-{projection_seed}"
    directory = cache_folder("encoders") / f"{repo_id.replace('/', '--')}--{folder.name}{drawn}"
    if not directory.is_dir():
        import_checkpoint(folder, directory, projection_seed=projection_seed)
    return directory


def fetch_checkpoint(repo_id: str, revision: str | None = None, progress: bool = True) -> Path:
    """Downloads the files of a checkpoint that an import needs and that are not in the Hub's cache.

    An interrupted download continues when this is called again. Every downloaded file is compared with the
    hash that the Hub lists.

    Args:
        repo_id: Such as `google/mt5-small`.
        revision: Branch, tag or commit; the main branch if None.
        progress: Whether to show the progress of downloads.

    Returns:
        The folder of the commit in the Hub's cache.

    Raises:
        InputError: There is no such checkpoint or revision, it cannot be downloaded, or a file does not match
            its hash.
    """
    from huggingface_hub import HfApi, hf_hub_download

    with _told_in_one_sentence(repo_id, revision):
        try:
            info = HfApi().model_info(repo_id, revision=revision, files_metadata=True)
        except Exception as error:
            if not _is_unreachable(error):
                raise
            return _cached(repo_id, revision, error)
        siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
        names = needed_files(siblings)
        if not names:
            raise InputError(
                "The repository has no encoder of xtr-tf and no weights of a T5 or mT5 in "
                f"{' or '.join(WEIGHT_FILES[::2])}. Received: {repo_id!r} with {sorted(siblings)[:8]}."
            )
        with _bars(progress):
            # By its name, not its commit, so that the cache records which commit the name refers to.
            files = [Path(hf_hub_download(repo_id, name, revision=revision)) for name in names]
    for name, file in zip(names, files, strict=True):
        _check(repo_id, siblings[name], file)
    return files[0].parents[len(Path(names[0]).parts) - 1]


def needed_files(names: Iterable[str]) -> list[str]:
    """Returns the files of a repository that an import reads: weights in one format and their description."""
    present = set(names)
    own = [MANIFEST_FILE, WEIGHTS_FILE, TOKENIZER_FILE]
    if present.issuperset(own):
        return own
    weights = next((name for name in WEIGHT_FILES if name in present), None)
    if weights is None:
        return []
    needed = [weights]
    if weights.endswith(_SHARD_INDEX):
        ending = Path(weights.removesuffix(_SHARD_INDEX)).suffix
        needed += sorted(name for name in present if _SHARD.fullmatch(name) and name.endswith(ending))
    for choice in (
        ("config.json",),
        TOKENIZER_FILES,
        tuple(f"{PROJECTION_FOLDER}/{name}" for name in WEIGHT_FILES[::2]),
        (f"{PROJECTION_FOLDER}/config.json",),
    ):
        needed += [name for name in choice if name in present][:1]
    return needed


def _check(repo_id: str, sibling: Any, file: Path) -> None:
    """Compares a file with the hash that the Hub lists, and removes it if they differ."""
    if sibling.lfs is not None:
        right = sha256_of(file) == sibling.lfs.sha256
    elif sibling.blob_id:
        content = file.read_bytes()
        digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        right = digest.hexdigest() == sibling.blob_id
    else:
        right = True
    if not right:
        file.resolve().unlink(missing_ok=True)
        file.unlink(missing_ok=True)
        raise InputError(
            "A downloaded file does not have the checksum that the Hub lists, and was removed; try again. "
            f"Received: {sibling.rfilename!r} of {repo_id!r}."
        )


def _cached(repo_id: str, revision: str | None, error: Exception) -> Path:
    """Returns the commit in the Hub's cache, for when the Hub cannot be reached."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE

    try:
        folder = Path(snapshot_download(repo_id, revision=revision, local_files_only=True))
        names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        if needed_files(names):
            return folder
    except (OSError, ValueError):
        pass
    raise InputError(
        f"The Hugging Face Hub cannot be reached ({type(error).__name__}), and its cache {HF_HUB_CACHE} does "
        f"not have this checkpoint; run `hf download {repo_id}` on a machine with a network and copy that "
        "folder, or put config.json, spiece.model, model.safetensors or pytorch_model.bin, and 2_Dense/ if "
        f"there is one, into a folder for `xtr-tf checkpoint import`. Received: {repo_id!r}."
    ) from None


def _is_unreachable(error: Exception) -> bool:
    """Returns whether the Hub could not be reached, as opposed to an answer that refuses."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, HfHubHTTPError):
        return error.response is not None and error.response.status_code >= 500
    # Versions of the client use different HTTP libraries, whose errors share these names.
    names = {base.__name__ for base in type(error).__mro__}
    return isinstance(error, OfflineModeIsEnabled | ConnectionError | TimeoutError) or not names.isdisjoint(
        {"TransportError", "RequestException", "ConnectError", "TimeoutException"}
    )


@contextmanager
def _told_in_one_sentence(repo_id: str, revision: str | None) -> Iterator[None]:
    from huggingface_hub import errors

    try:
        yield
    except InputError:
        raise
    except errors.GatedRepoError:
        raise InputError(
            "This repository asks you to accept its conditions; do so on its page, then log in with "
            f"`hf auth login`. Received: {repo_id!r}."
        ) from None
    except errors.RevisionNotFoundError:
        raise InputError(
            f"The repository has no such revision; give a branch, tag or commit. Received: {revision!r} of "
            f"{repo_id!r}."
        ) from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise InputError(
            "The Hugging Face Hub has no model with this id, or only for users who log in (`hf auth login`); "
            f"check its spelling. Received: {repo_id!r}."
        ) from None
    except Exception as error:
        raise InputError(
            "The download from the Hugging Face Hub ended early; run this again, it continues where it "
            f"stopped. Received: {repo_id!r} ({type(error).__name__}: {str(error).splitlines()[0]:.120})."
        ) from error


@contextmanager
def _bars(shown: bool) -> Iterator[None]:
    """The client's own progress bars, or none."""
    from huggingface_hub.utils import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if shown or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
