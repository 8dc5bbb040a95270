"""The wheel and the source distribution: their content and metadata, equal bytes of two builds, and a command that works."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

import hopwalk

ROOT = Path(__file__).parents[1]
EPOCH = "1700000000"


def run(*command: str | Path, **options: object) -> str:
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return str(ran.stdout)


def build(out: Path, source: Path = ROOT) -> dict[str, Path]:
    """The archives by suffix; the wheel is built from the source distribution, as for those who install that."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, env=environment)
    return {path.suffix: path for path in out.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built: dict[str, Path]) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(built[".whl"]) as opened:
        yield opened


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    return email.message_from_bytes(wheel.read(name))


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: zipfile.ZipFile):
    package = ROOT / "src"
    own = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    info = {name for name in wheel.namelist() if name.startswith(f"hopwalk-{hopwalk.__version__}.dist-info/")}
    assert {*wheel.namelist()} - info == own
    assert {name.partition("/")[2] for name in info} == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert {"hopwalk/py.typed", "hopwalk/data/catalog.toml", "hopwalk/data/bundled/umls/train.txt"} <= own


def test_metadata(metadata: Message):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (metadata["Name"], metadata["Version"]) == ("hopwalk", hopwalk.__version__)
    assert metadata["Requires-Python"] == project["requires-python"]
    assert (metadata["License-Expression"], metadata["License-File"]) == ("BSD-3-Clause", "LICENSE")
    assert {*(metadata.get_all("Provides-Extra") or [])} == {*project["optional-dependencies"]}
    required = [text for text in metadata.get_all("Requires-Dist") or [] if "extra ==" not in text]
    assert {re.split(r"[<>=]", text)[0] for text in required} == {re.split(r"[<>=]", text)[0] for text in project["dependencies"]}


def test_twine_finds_no_fault(built: dict[str, Path]):
    printed = run(Path(sys.executable).parent / "twine", "check", "--strict", *built.values())
    assert printed.count("PASSED") == 2


def test_the_source_distribution_can_be_built_and_tested(built: dict[str, Path]):
    with tarfile.open(built[".gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"Makefile", "constraints.txt", "pyproject.toml", "LICENSE", "README.md", "tests/conftest.py", "benchmarks/scale.py"}
    assert needed | {"tools/settings_page.py", "docs/conf.py", "results/ingest.json"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith((".venv", "runs/", "docs/_build", "dist"))]


def test_two_builds_have_the_same_bytes(built: dict[str, Path], tmp_path: Path):
    """The second one in another folder, of files that are younger and have other permissions."""
    copy = tmp_path / "elsewhere"
    with tarfile.open(built[".gz"]) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    (unpacked / "PKG-INFO").unlink()
    shutil.copytree(unpacked, copy, copy_function=shutil.copyfile)
    again = build(tmp_path / "again", copy)
    for suffix, path in built.items():
        assert again[suffix].read_bytes() == path.read_bytes(), suffix


def test_the_version_stands_in_one_place():
    """The page of the docs that states it is compared; `pyproject.toml` and the documentation read it."""
    assert f"This is version {hopwalk.__version__}." in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.py"), ROOT / "pyproject.toml"]
    assert [path.name for path in sources if hopwalk.__version__ in path.read_text(encoding="utf-8")] == ["__init__.py"]


def test_the_installed_command_works(built: dict[str, Path], tmp_path: Path):
    """In a new environment that has the wheel, and borrows the packages it depends on from this one."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    options = ["--quiet", "--no-deps", "--no-index", "--no-cache-dir", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, built[".whl"], cwd=tmp_path)
    (site,) = (home / "lib").glob("python*/site-packages")
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "borrowed.pth").write_text(borrowed + "\n")  # its own .pth files are not followed: not hopwalk's sources
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def command(*arguments: str) -> str:
        return run(home / "bin" / "hopwalk", *arguments, cwd=tmp_path, env=environment)

    where = run(python, "-c", "import hopwalk; print(hopwalk.__file__)", cwd=tmp_path, env=environment)
    assert Path(where.strip()).is_relative_to(site)
    assert command("--version") == f"hopwalk {hopwalk.__version__}\n"
    assert "135" in command("data", "show", "umls")  # the bundled files came along
    (tmp_path / "facts.tsv").write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\n")
    assert "runs/facts-distmult: finished" in command("train", "facts.tsv", "--scorer", "distmult", "--epochs", "1")
