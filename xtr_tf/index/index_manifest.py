"""What an index directory says of itself: `manifest.json`. Knows names, counts and hashes alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from xtr_tf.config.schema import IndexConfig
from xtr_tf.corpus.files import sha256_of, write_aside
from xtr_tf.errors import InputError

FORMAT = "xtr-token-index"
VERSION = 1
MANIFEST_FILE = "manifest.json"


@dataclasses.dataclass(frozen=True)
class IndexManifest:
    """The whole directory. It is written last: without it the directory is unfinished.

    Attributes:
        num_tokens: Indexed tokens.
        num_documents: Documents they belong to.
        dim: Width of a token vector.
        config: What the index was made with, automatic values as given (0), not as chosen.
        encoder_fingerprint: Of the encoder that made the vectors.
        files: Name to size in bytes and SHA-256.
    """

    num_tokens: int
    num_documents: int
    dim: int
    config: IndexConfig
    encoder_fingerprint: str
    files: Mapping[str, tuple[int, str]]

    def write(self, directory: Path) -> None:
        """Writes `manifest.json`, whole or not at all."""
        content = {"format": FORMAT, "version": VERSION, **dataclasses.asdict(self)}
        write_aside(directory / MANIFEST_FILE, json.dumps(content, indent=1).encode())

    @classmethod
    def read(cls, directory: Path) -> IndexManifest:
        """Reads `manifest.json`, refusing whatever is not one of ours."""
        path = directory / MANIFEST_FILE
        if not path.is_file():
            raise InputError(
                "This is no finished token index (it has no manifest.json); "
                f"run `xtr-tf index` to its end first. Received: {str(directory)!r}."
            )
        try:
            content = json.loads(path.read_bytes())
            found = content.pop("format"), content.pop("version")
            if found == (FORMAT, VERSION):
                config = IndexConfig(**content.pop("config"))
                files = {
                    name: (int(size), str(digest)) for name, (size, digest) in content.pop("files").items()
                }
                return cls(config=config, files=files, **content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                "The manifest of the token index is damaged; build the index again. "
                f"Received: {str(path)!r} ({type(error).__name__})."
            ) from error
        raise InputError(
            f"Only version {VERSION} of {FORMAT} can be read; build the index again. "
            f"Received: version {found[1]!r} of {found[0]!r}."
        )


def file_entries(directory: Path) -> dict[str, tuple[int, str]]:
    """Returns size and hash of every file of a directory, by name."""
    return {path.name: (path.stat().st_size, sha256_of(path)) for path in sorted(directory.iterdir())}
