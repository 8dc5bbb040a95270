"""Commands, settings, names and files that the pages mention in passing exist."""

import importlib
import re
import shlex
from pathlib import Path
from typing import Any, cast

import pytest
import typer

from hopwalk.cli.main import app
from hopwalk.config.loading import preset_names
from hopwalk.config.settings import Settings, dotted_names
from tests.docs.pages import PAGES, ROOT, inline_code, shown_commands

UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])  # of click, which typer has inside
UNFINISHED = ("MissingParameter", "BadOptionUsage")  # `hopwalk data check` names a command, `--preset` an option
SETTING = re.compile(rf"(?<![\w./])({'|'.join(Settings.model_fields)})\.(?!py\b|md\b|toml\b|txt\b)[a-z_0-9]+\b(?!\()")
FOLDERS = (ROOT, ROOT / "src" / "hopwalk", ROOT / "src" / "hopwalk" / "config", ROOT / "src" / "hopwalk" / "config" / "presets")


def hopwalk_arguments(line: str) -> list[list[str]]:
    """The arguments of every `hopwalk` command in a command line.

    >>> hopwalk_arguments("A=1 hopwalk ask runs/umls x y --json 2> /dev/null | head; hopwalk data list  # the catalog")
    [['ask', 'runs/umls', 'x', 'y', '--json'], ['data', 'list']]
    """
    lexer = shlex.shlex(re.sub(r"\d?>", " > ", line), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    simple: list[list[str]] = [[]]
    is_target = False
    for token in lexer:
        if set(token) <= set("();|&"):
            simple.append([])
        elif set(token) <= set("<>"):
            is_target = True
        elif is_target:
            is_target = False
        else:
            simple[-1].append(token)
    found = []
    for words in simple:
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words = words[1:]
        if words and words[0].rpartition("/")[2] == "hopwalk":
            found.append([word for word in words[1:] if word != "…"])
    return found


def commands_of(page: Path) -> list[str]:
    """The commands of the page: inline code that begins with `hopwalk`, and the command lines of its console blocks."""
    return [code for code in inline_code(page) if re.match(r"(\w+=\S+ )*hopwalk( |$)", code)] + shown_commands(page)


def problem_of(arguments: list[str]) -> str:
    """What is wrong with the arguments of `hopwalk`, without running it; a command that is not complete is fine."""
    command: Any = typer.main.get_command(app)
    context: Any = None
    name = "hopwalk"
    try:
        while hasattr(command, "commands"):
            if not arguments or arguments[0].startswith("-"):
                known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
                return "" if {*arguments} <= known else f"no such option: {arguments[0]}"
            if arguments[0] not in command.commands:
                return f"no such command: {arguments[0]}"
            context = type(command).context_class(command, info_name=name, parent=context)
            name, command, arguments = arguments[0], command.commands[arguments[0]], arguments[1:]
        command.make_context(name, list(arguments), parent=context)
    except UsageError as error:
        return "" if type(error).__name__ in UNFINISHED else str(error)
    except typer.Exit:  # --help
        pass
    return ""


@pytest.mark.parametrize(
    ("line", "is_right"),
    [
        ("hopwalk settings umls --set walker.recipe=paper", True),
        ("hopwalk settings --preset umls", False),
        ("hopwalk", True),
        ("hopwalk --help", True),
        ("hopwalk --nothing", False),
        ("hopwalk data", True),
        ("hopwalk data check", True),
        ("hopwalk data chekc facts.csv", False),
        ("hopwalk train umls --scorer", True),
        ("hopwalk train umls kinship", False),
        ("hopwalk train umls --epochs many", False),
        ("hopwalk train umls --threads 2 --resume", True),
        ("hopwalk serve runs/umls --port 99999", False),
    ],
)
def test_commands_are_parsed_without_running_them(line: str, is_right: bool):
    (arguments,) = hopwalk_arguments(line)
    assert (problem_of(arguments) == "") == is_right


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_the_page_exist(page: Path):
    wrong = {line: problem for line in commands_of(page) for found in hopwalk_arguments(line) if (problem := problem_of(found))}
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_and_presets_of_the_page_exist(page: Path):
    texts = [*inline_code(page), *shown_commands(page)]
    assert {match[0] for text in texts for match in SETTING.finditer(text)} <= {*dotted_names()}
    shown = [found for line in commands_of(page) for found in hopwalk_arguments(line) if found[:1] == ["settings"]]
    presets = {found[1] for found in shown if len(found) > 1 and not found[1].startswith("-")}
    assert presets <= {*preset_names()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_the_page_can_be_imported(page: Path):
    names = {match[0] for code in inline_code(page) if (match := re.match(r"hopwalk(\.[A-Za-z_]\w*)+", code))}
    assert not [name for name in names if not exists(name)]


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_source_files_of_the_page_exist(page: Path):
    """Files of the project: of source, tests, presets and results; `…` and paths of the user's own are not looked for."""
    paths = {code for code in inline_code(page) if re.fullmatch(r"[\w*.-]+(/[\w*.-]+)+\.(py|toml|json|txt)", code)}
    own = {path for path in paths if not path.startswith(("runs/", "tuning/", "RUN/", "staff/", "umls/"))}
    assert not [path for path in own if not any(any(folder.glob(path)) for folder in FOLDERS)]
