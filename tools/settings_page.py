"""Write `docs/settings.md` from the declarations in `hopwalk.config.settings`.

python -m tools.settings_page
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from benchmarks.machine import PROJECT

from hopwalk.config import loading
from hopwalk.config.settings import Settings
from hopwalk.utils.files import write_text

PAGE = PROJECT / "docs" / "settings.md"
SIGNS = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}
INTRODUCTION = """# Settings

Every setting has a dotted name, a type, a default, bounds and a description, declared once in `src/hopwalk/config/settings.py`.
This page is made from there (`python -m tools.settings_page`). `hopwalk settings` prints the same as TOML, and
`hopwalk settings nell-995` the settings of a preset. Unknown names and invalid values are errors that name the setting.

```console
$ hopwalk settings kinship --set walk.beam=64 | grep ^beam
beam = 64  # walks of a query kept at each hop, and answers kept at the end
```

## Where values come from

Each source overrides those above it.

"""
AFTER = """
A recipe is chosen by `scorer.recipe` and `walker.recipe`: `modern` (ours), `paper`, and for walkers `minerva`. A TOML file as the
preset needs only the settings it changes; the `settings.toml` of any run is such a file. Files may have settings by their names
of the first version; on the command line, an old name is an error that gives the new one.

```console no-run
$ hopwalk train umls --walker paper --set walker.action_dropout=0.9     # the paper's recipe, one value changed
$ hopwalk train facts.csv --preset runs/facts/settings.toml --seed 1    # the settings of an earlier run, another seed
```
"""


def page() -> str:
    """The text of the page."""
    _, _, table = (loading.__doc__ or "").partition("\n\n")
    parts = [INTRODUCTION + table.strip() + "\n" + AFTER]
    for group, field in Settings.model_fields.items():
        about = (field.annotation.__doc__ or "") if field.annotation else ""
        rows = "".join(_rows(group, getattr(Settings(), group)))
        parts.append(f"## `{group}`: {about}\n\n| setting | default | values | description |\n|---|---|---|---|\n{rows}")
    return "\n".join(parts)


def _rows(group: str, values: Any) -> Iterator[str]:
    for name, field in type(values).model_fields.items():
        default = json.dumps(getattr(values, name), ensure_ascii=False)
        cells = [f"`{group}.{name}`", f"`{default}`", _allowed(field), str(field.description)]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _allowed(field: Any) -> str:
    """The type of a setting, with its choices or bounds."""
    name = field.annotation.__name__ if isinstance(field.annotation, type) else str(field.annotation)
    choices = [repr(value).replace("'", "") for value in getattr(field.annotation, "__args__", ()) if isinstance(value, str)]
    if choices:
        return ", ".join(choices)
    names = {"int": "whole number", "float": "number", "bool": "true, false", "str": "text"}
    bounds = [
        f"{sign} {value:,g}" if abs(value) < 1e5 else f"{sign} {int(value):,}"
        for kind, (sign, attribute) in SIGNS.items()
        for bound in field.metadata
        if isinstance(bound, kind) and abs(value := getattr(bound, attribute)) < 2**31 - 1
    ]
    return " ".join([names.get(name, "number or auto"), ", ".join(bounds)]).strip()


def main() -> None:
    """Write the page."""
    write_text(PAGE, page())


if __name__ == "__main__":
    main()
