"""The language that a dataset's name tells: `jaquad_ja` and `xquad_r/ja` are Japanese."""

from __future__ import annotations

import re

from xtr_tf.corpus.document import UNKNOWN_LANGUAGE

_ISO_639_1 = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz
    ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik
    io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml
    mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd
    se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi
    vo wa wo xh yi yo za zh zu
"""
_ENDING = re.compile(r"(?:^|[/_.-])([a-z]{2})(?:[_-][A-Z]{2})?$")


def language_of_name(name: str) -> str:
    """The code that `name` is or ends with after `/`, `_`, `-` or `.`; `und` without one."""
    found = _ENDING.search(name)
    return found[1] if found and found[1] in _ISO_639_1 else UNKNOWN_LANGUAGE
