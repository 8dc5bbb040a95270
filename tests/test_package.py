"""The package as a whole: light to import, its public names there."""

import subprocess
import sys

import pytest

import hopwalk


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.split("\n")[-2].split())


def test_importing_is_light():
    assert not {"torch", "numpy", "polars", "pydantic", "scipy", "rich"} & modules_after("import hopwalk")


def test_help_does_without_torch_and_polars():
    loaded = modules_after(
        "import sys\nsys.argv = ['hopwalk', '--help']\nfrom hopwalk.cli.main import run\ntry: run()\nexcept SystemExit: pass"
    )
    assert "typer" in loaded
    assert not {"torch", "polars", "scipy", "pykeen"} & loaded


def test_loading_data_does_without_torch():
    assert "torch" not in modules_after("import hopwalk; hopwalk.graph_of(hopwalk.load_dataset('umls'))")


@pytest.mark.parametrize("name", hopwalk.__all__)
def test_public_names_are_there(name: str):
    assert getattr(hopwalk, name).__doc__


def test_public_names_are_those_of_the_api():
    from hopwalk import api

    assert hopwalk.__all__ == sorted(api.__all__) and {*api.__all__} <= {*dir(hopwalk)}


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no_such_thing"):
        hopwalk.no_such_thing  # noqa: B018
