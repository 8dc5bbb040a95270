"""`hopwalk tune`: search for better settings on dev."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopwalk.cli import options
from hopwalk.cli.console import print_json, print_table, print_text, printable
from hopwalk.cli.progress import TrainingProgress, download_bar
from hopwalk.cli.train import INTERRUPTED
from hopwalk.config.settings import Settings
from hopwalk.utils.text import counted

if TYPE_CHECKING:
    from hopwalk.tuning.study import Tuned

MOST_SHOWN = 10


@options.takes_training_settings
def tune(
    data: options.Data,
    settings: Callable[..., Settings],
    reasoner: str,
    scorer: str | None,
    reward: str | None,
    fixed: list[str],
    trials: Annotated[int, typer.Option(min=1, help="Number of trials, those already in the study included.")] = 20,
    space: Annotated[str, typer.Option(help="Search space: paper (the grids of §4.3), modern, or a TOML file.")] = "modern",
    study: Annotated[
        Path | None, typer.Option(help="SQLite file of the study. Default: tuning/DATA-WHAT.db.", show_default=False)
    ] = None,
    pruner: Annotated[str, typer.Option(help="Pruner of bad trials: median, hyperband or none.")] = "median",
    as_json: options.Json = False,
    on: options.On = "local",
    mirror: options.Mirror = None,
) -> None:
    """Search for better settings with Optuna, by dev MRR: of propagation, a walker or with --scorer a scorer. Test is never used.

    Settings given on the command line (--set, --epochs, …) are fixed. Ctrl-C stops; the same command continues. The best
    settings are written as a preset beside the study's file.

    Examples:

    - `hopwalk tune facts.csv --trials 30`

    - `hopwalk tune umls --scorer complex --trials 30`

    - `hopwalk tune kinship --walker paper --space paper --epochs 50 --pruner hyperband`

    - `hopwalk train umls --scorer complex --preset tuning/umls-complex/best.toml`
    """
    from hopwalk import api
    from hopwalk.utils.text import fold_name

    dataset = api.load_dataset(data, settings(), mirror=mirror, make_progress_bar=download_bar)
    chosen = settings(dataset)
    what = reasoner if scorer is None else chosen.scorer.model
    path = study or Path("tuning") / f"{dataset.name}-{fold_name(what).replace(':', '-')}.db"
    scorer_run = reward if reward is not None and options.is_run_folder(reward) else None
    with options.place_of(on) as place, TrainingProgress() as progress:

        def on_trial(number: int, total: int, values: Mapping[str, Any]) -> None:
            if place.is_here:  # else other trials are still shown
                progress.clear()
            print_text(f"trial {number} of {total}: {_values_text(values)}", to_stderr=True)

        found = api.tune(
            dataset,
            chosen,
            study=path,
            what=what,
            space=space,
            trials=trials,
            scorer=scorer_run,
            pruner=pruner,  # type: ignore[arg-type]  # api.tune refuses others
            fixed=fixed,
            on_trial=on_trial,
            make_callbacks=progress.callbacks,
            place=place,
        )
    print_json(found.to_dict()) if as_json else _print(found)
    if found.was_interrupted:
        raise typer.Exit(INTERRUPTED)


def _print(found: Tuned) -> None:
    if found.trials:
        rows = [
            (
                trial.number,
                float("nan") if trial.mrr is None else 100 * trial.mrr,
                f"{trial.epochs}{', pruned' * trial.was_pruned}",
                _values_text(trial.values),
            )
            for trial in found.trials[:MOST_SHOWN]
        ]
        print_table(["trial", "dev MRR", "epochs", "settings"], rows)
    if found.importance:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found.importance.items())
        print_text(f"Importance for dev MRR: {shares}")
    pruned = sum(trial.was_pruned for trial in found.trials)
    print_text(printable(f"{found.study}: {counted(len(found.trials), 'trial')}, {pruned} pruned"))
    if found.preset is not None:
        print_text(printable(f"{found.preset}: the best settings, for `hopwalk train … --preset`"))
    if found.was_interrupted:
        print_text("Interrupted. Continue with the same command.")


def _values_text(values: Mapping[str, Any]) -> str:
    shown = {name.partition(".")[2]: f"{value:.3g}" if isinstance(value, float) else value for name, value in values.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())
