"""The command `hopwalk`: a thin skin over `hopwalk.api`, with the same verbs."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

from hopwalk.cli import answers, compare, data, evaluate, export, mcp, options, paper, serve, train, tune
from hopwalk.cli.console import print_error, print_text, printable
from hopwalk.cli.options import Overrides
from hopwalk.errors import HopwalkError, MemoryLimitError, cut
from hopwalk.utils.memory import memory_error

app = typer.Typer(
    name="hopwalk",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,  # they may have a password
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
for command in (
    train.train,
    evaluate.evaluate,
    train.ensemble,
    compare.compare,
    paper.reproduce,
    paper.record,
    tune.tune,
    answers.ask,
    answers.explain,
    answers.rules,
    answers.complete,
    answers.paths,
    answers.propose,
    serve.serve,
    export.export,
    mcp.mcp,
):
    app.command()(options.takes_threads(command))
app.command()(train.accept)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from hopwalk import __version__

        print_text(f"hopwalk {__version__}")
        raise typer.Exit


@app.callback()
def hopwalk(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Answer questions over incomplete knowledge graphs, and show the walks that are the reason.

    Examples:

    - `hopwalk data list` — the data sets of the catalog

    - `hopwalk data check facts.csv` — diagnose your own file

    - `hopwalk train facts.csv` — train a scorer, and a walker that it rewards

    - `hopwalk ask runs/facts HEAD RELATION` — answers, each with the paths that lead to it
    """


@app.command()
def settings(
    preset: Annotated[str, typer.Argument(help="A preset, or the path of a TOML file.")] = "default",
    overrides: Overrides = None,
) -> None:
    """Show all settings, as TOML that can be saved, changed and used as a preset.

    Examples:

    - `hopwalk settings` — every setting with its meaning

    - `hopwalk settings nell-995 --set walk.hops=2` — those of a preset, with one changed
    """
    from hopwalk.config.loading import commented_toml, load_settings, preset_names

    print_text(commented_toml(load_settings(preset, overrides=overrides or ())).rstrip())
    print_text(f"\n# Presets: {', '.join(preset_names())}")


def run() -> None:
    """Run the command line. Errors a user can cause are shown as one message, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a label shows a question mark
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a batch system's signal saves as Ctrl-C does
    try:
        try:
            code = app(standalone_mode=False)
        finally:
            sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except HopwalkError as error:
        print_error(error)
        sys.exit(1)
    except BrokenPipeError:  # the reader of our output has gone, e.g. `hopwalk data list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except typer.Abort:
        sys.exit(1)
    except (MemoryError, RuntimeError, ImportError, OSError) as error:
        told: HopwalkError | None = memory_error(error)
        if told is None and isinstance(error, OSError):
            told = HopwalkError(error.strerror or str(error), path=error.filename)
        if told is None:
            raise
        if isinstance(told, MemoryLimitError):
            _tell_in_little_memory(told)
        else:
            print_error(told)
        sys.exit(1)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _show_usage_error(error)


def _tell_in_little_memory(error: HopwalkError) -> None:
    """Show an error without colours: there may be no memory left for what draws them."""
    print_text(printable(f"error: {error.problem}\n  {error.remedy}"), to_stderr=True)


def _show_usage_error(error: Any) -> NoReturn:
    """Show a mistake in the command line as typer does, at a readable length whatever was typed."""
    from typer.rich_utils import rich_format_error

    error.message = printable(cut(str(error.message)))
    rich_format_error(error)
    sys.exit(error.exit_code)
