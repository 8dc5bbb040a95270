"""Declarations of settings: descriptions, bounds, validation."""

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from hopwalk.config.settings import Settings, changed, dotted_names
from hopwalk.errors import SettingsError


def declared_fields() -> Iterator[tuple[str, FieldInfo]]:
    """Every setting by its dotted name, with its declaration."""
    for name in dotted_names():
        group, key = name.split(".")
        yield name, type(getattr(Settings(), group)).model_fields[key]


FIELDS = dict(declared_fields())
NUMBERS = [name for name, field in FIELDS.items() if field.annotation in (int, float)]
TOO_LARGE = 2**64


def test_every_group_has_settings():
    assert {name.split(".")[0] for name in FIELDS} == {*Settings.model_fields} == {*Settings().model_dump()}
    assert len(FIELDS) == sum(len(values) for values in Settings().model_dump().values())


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_has_a_description(name: str):
    description = FIELDS[name].description
    assert description and len(description) > 5
    assert "\n" not in description  # it is a comment beside the value


def test_every_group_has_a_description():
    for group, field in Settings.model_fields.items():
        assert field.annotation is not None and field.annotation.__doc__, group


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_has_bounds(name: str):
    for value in (-1, TOO_LARGE):
        given = value if FIELDS[name].annotation is int else float(value)
        with pytest.raises(SettingsError, match=rf"{name} = .* is not valid: Input should be (less|greater) than"):
            changed(Settings(), {name: given})


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in NUMBERS])
def test_every_other_setting_is_a_choice_a_switch_or_a_text(name: str):
    annotation: Any = FIELDS[name].annotation
    if get_origin(annotation) is Literal:
        for choice in get_args(annotation):
            assert getattr(getattr(changed(Settings(), {name: choice}), name.split(".")[0]), name.split(".")[1]) == choice
        with pytest.raises(SettingsError, match=rf"{name} = 'neither' is not valid: Input should be"):
            changed(Settings(), {name: "neither"})
    else:
        assert annotation in (bool, str)
        with pytest.raises(SettingsError, match=rf"{name} = 3 is not valid"):
            changed(Settings(), {name: 3})


def test_settings_do_not_change():
    with pytest.raises(ValidationError):
        Settings().graph.fan_out = 3


def test_changed_is_validated():
    assert changed(Settings(), {"walk.hops": 1}).walk.hops == 1
    assert Settings().walk.hops == 3
    with pytest.raises(SettingsError, match=r"walk\.hops"):
        changed(Settings(), {"walk.hops": 0})
    with pytest.raises(SettingsError, match=r"there is no setting 'walk\.hop'\. Did you mean 'walk\.hops'"):
        changed(Settings(), {"walk.hop": 2})


@pytest.mark.parametrize(("name", "field"), list(declared_fields()))
def test_every_setting_has_an_upper_bound(name: str, field: FieldInfo):
    if field.annotation is bool or get_origin(field.annotation) is Literal:
        return
    too_much = "x" * 70_000 if field.annotation is str else 10**23 if field.annotation is int else 1e308
    with pytest.raises(SettingsError) as raised:
        changed(Settings(), {name: too_much})
    assert len(str(raised.value)) < 300
