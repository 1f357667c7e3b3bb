"""`make pin-images`: pins the base images of the Dockerfiles and manifests to their digests.

A tag can be moved to another image, a digest cannot. Digests come from the registries, so this needs a
network. Commit the result where you build images. Our own images have no registry and stay unchanged.

    python tools/pin_images.py FILE...
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

_MANIFESTS = ", ".join(
    f"application/vnd.{kind}"
    for kind in (
        "oci.image.index.v1+json",
        "docker.distribution.manifest.list.v2+json",
        "oci.image.manifest.v1+json",
        "docker.distribution.manifest.v2+json",
    )
)
# `FROM image:tag` and `image: image:tag`. An existing digest is looked up again.
_NAMED = re.compile(
    r"^(?P<before>\s*(?:FROM|(?:- )?image:)\s+)(?P<name>[\w./-]+):(?P<tag>[\w.-]+)(?:@sha256:[0-9a-f]{64})?"
    r"(?P<after>.*)$",
    re.MULTILINE,
)
_OURS = "xtr-tf"


def pin(text: str, digests: dict[str, str]) -> str:
    """Returns the text of a file with every external image pinned to its digest.

    Args:
        text: A Dockerfile or a manifest.
        digests: Known digests by `image:tag`. New ones are added.

    Returns:
        The changed text.
    """

    def replace(found: re.Match[str]) -> str:
        name, tag = found["name"], found["tag"]
        if name.startswith(_OURS):
            return found[0]
        image = f"{name}:{tag}"
        if image not in digests:
            digests[image] = digest_of(name, tag)
        return f"{found['before']}{image}@{digests[image]}{found['after']}"

    return _NAMED.sub(replace, text)


def digest_of(name: str, tag: str) -> str:
    """Returns the current digest of a tag, from the registry of the image.

    Args:
        name: Name of the image, with or without a registry host.
        tag: The tag.

    Returns:
        The digest, such as `sha256:…`.

    Raises:
        SystemExit: The registry returned no digest.
    """
    host, _, path = name.partition("/")
    if "." not in host and ":" not in host:  # a name without a host is Docker Hub's
        host, path = "registry-1.docker.io", name if "/" in name else f"library/{name}"
    base = os.environ.get("PIN_IMAGES_REGISTRY", f"https://{host}")
    address = f"{base}/v2/{path}/manifests/{tag}"
    headers = {"accept": _MANIFESTS}
    try:
        answer = _ask(address, headers)
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise
        challenge = dict(re.findall(r'(\w+)="([^"]*)"', error.headers["www-authenticate"]))
        query = f"service={challenge['service']}&scope=repository:{path}:pull"
        with urllib.request.urlopen(f"{challenge['realm']}?{query}", timeout=30) as given:  # noqa: S310
            token = json.load(given)["token"]
        answer = _ask(address, {**headers, "authorization": f"Bearer {token}"})
    digest = str(answer.headers["docker-content-digest"])
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise SystemExit(f"pin-images: the registry gave no digest. Received: {digest!r} for {name}:{tag}.")
    return digest


def _ask(address: str, headers: dict[str, str]) -> urllib.request.addinfourl:
    request = urllib.request.Request(address, headers=headers, method="HEAD")  # noqa: S310
    answer: urllib.request.addinfourl = urllib.request.urlopen(request, timeout=30)  # noqa: S310
    return answer


def main() -> None:
    """Pins the images of the files named on the command line, and prints their digests."""
    digests: dict[str, str] = {}
    for file in map(Path, sys.argv[1:]):
        text = file.read_text(encoding="utf-8")
        file.write_text(pin(text, digests), encoding="utf-8")
    for image, digest in digests.items():
        print(f"{image}@{digest}")


if __name__ == "__main__":
    main()
