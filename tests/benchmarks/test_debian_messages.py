"""What is read out of programs' messages: sentences, and the translations of short phrases."""

from __future__ import annotations

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo


@pytest.fixture(scope="module")
def debian_messages(mxtr_module):
    return mxtr_module("debian_messages")


def write_catalogue(package, language, translations):
    path = package / "usr/share/locale" / language / "LC_MESSAGES" / "program.mo"
    path.parent.mkdir(parents=True)
    catalogue = Catalog(locale=language)
    for message, translation in translations.items():
        catalogue.add(message, translation)
    with path.open("wb") as file:
        write_mo(file, catalogue)


def test_messages_are_plain_text(debian_messages, tmp_path):
    translations = {
        "_Open the <b>file</b>": "Ά_νοιγμα του <b>αρχείου</b>",
        "Dark Lake": "Σκοτεινή λίμνη",
        "Save %s": "Αποθήκευση %s",  # a format
        "OK": "OK",  # not translated
        "Untranslated": "",
        ("one lake", "lakes"): ("μία λίμνη", "λίμνες"),  # a plural
    }
    write_catalogue(tmp_path, "el", translations)
    write_catalogue(tmp_path, "hi", {"lake": "झील"})
    assert list(debian_messages.messages(tmp_path, "el")) == [
        ("Dark Lake", "Σκοτεινή λίμνη"),
        ("Open the file", "Άνοιγμα του αρχείου"),
    ]
    assert list(debian_messages.messages(tmp_path, "hi")) == [("lake", "झील")]


def test_phrases_have_the_translations_that_packages_agree_on(debian_messages):
    found = [
        ("a", "Lake", "λίμνη"),
        ("a", "Mere", "Λίμνη"),
        ("b", "lake.", "λίμνη."),
        ("b", "River", "ποτάμι"),
        ("b", "A very long river", "μακρύ ποτάμι"),  # too many English words
        ("c", "Flow", "ένα δύο τρία τέσσερα πέντε"),  # too many Greek ones
    ]
    agreed, others = debian_messages.phrases(found)
    assert agreed == [("lake; mere", "λίμνη")]
    assert others == [("river", "ποτάμι")]
