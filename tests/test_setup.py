"""The set-up: every pinned package has hashes, and the licence of every installed one is known."""

from email.message import Message
from importlib import metadata
from typing import Any

import pytest
from tools import hashes, licences


def test_every_pinned_package_has_hashes():
    """`make hashes` writes them, after constraints.txt has changed."""
    serve, dev = (hashes.hashed(hashes.FOLDER / name) for name in ("serve.txt", "dev.txt"))
    assert not serve.keys() & dev.keys()
    found = serve | dev
    assert {name: version for name, (version, _) in found.items()} == {
        name: version for name, version in hashes.pins().items() if name not in hashes.UNHASHED
    }
    assert all(digests for _, digests in found.values())


def test_what_the_server_needs_is_installed_first():
    of_server = hashes.needed("hopwalk", frozenset({"serve"})) - {"hopwalk"}
    assert of_server & hashes.pins().keys() - hashes.UNHASHED <= hashes.hashed(hashes.FOLDER / "serve.txt").keys()
    assert of_server - hashes.pins().keys() <= {"setuptools"}  # which a virtual environment may have from the beginning


def test_the_licences_of_all_packages_are_known():
    assert licences.refused(metadata.distributions()) == {}


def about(name: str = "package", **fields: str | list[str]) -> Message:
    made = Message()
    made["Name"] = name
    for field, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            made[field.replace("_", "-")] = value
    return made


@pytest.mark.parametrize(
    ("fields", "is_accepted"),
    [
        ({"License_Expression": "MIT"}, True),
        ({"License_Expression": "(MIT OR GPL-3.0-only) AND Apache-2.0 WITH LLVM-exception"}, True),
        ({"License_Expression": "MIT AND GPL-3.0-only"}, False),
        ({"License_Expression": "AGPL-3.0-or-later"}, False),
        ({"Classifier": ["License :: OSI Approved :: BSD License", "Topic :: Software"]}, True),
        (
            {"Classifier": ["License :: OSI Approved :: MIT License", "License :: OSI Approved :: GNU General Public License"]},
            False,
        ),
        ({"Classifier": ["License :: OSI Approved :: MIT License"], "License": "A LICENCE OR so"}, True),
        ({"License": "MIT OR Apache-2.0"}, True),
        ({"License": "Proprietary"}, False),
        ({"License": ""}, False),
        ({}, False),
    ],
)
def test_licences(fields: dict[str, Any], is_accepted: bool):
    assert licences.is_accepted(licences.licence_of(about(**fields))) == is_accepted


def test_a_licence_that_was_read_by_hand():
    assert (
        licences.licence_of(about("docutils", Classifier="License :: OSI Approved :: GNU General Public License"))
        == "BSD-2-Clause"
    )


class Package:
    def __init__(self, name: str, **fields: str | list[str]) -> None:
        self.metadata = about(name, **fields)


def test_the_libraries_of_cuda_are_known():
    """What torch from the package index installs on Linux, with what their metadata say."""
    other = "License :: Other/Proprietary License"
    found = licences.refused(
        [
            Package("nvidia-cublas-cu12", License="NVIDIA Proprietary Software", Classifier=[other]),
            Package("nvidia-cudnn-cu13", License_Expression="LicenseRef-NVIDIA-Proprietary"),
            Package("nvidia_nvshmem_cu13", Classifier=other),
            Package("nvidia-nccl-cu12", License="BSD-3-Clause"),
            Package("cuda-bindings", License_Expression="LicenseRef-NVIDIA-SOFTWARE-LICENSE"),
            Package("cuda-pathfinder", License_Expression="Apache-2.0"),
            Package("cuda-toolkit"),
            Package("triton", License="MIT"),
            Package("nvidia-something", License_Expression="GPL-3.0-only"),
            Package("cudasim", License="Proprietary"),
            Package("another", Classifier=other),
        ]
    )
    assert {*found} == {"nvidia-something", "cudasim", "another"}
