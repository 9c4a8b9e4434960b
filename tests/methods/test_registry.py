"""One specification per method, complete, and no list of methods anywhere else."""

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import fedsift as fs
from fedsift.config.toml import fits
from fedsift.errors import BrokenMethod, ParameterError, UnknownMethod
from fedsift.jobs import chain
from fedsift.methods import registry
from fedsift.methods.spec import (
    Attacks,
    Demo,
    MethodSpec,
    Missing,
    Pooled,
    ReportTexts,
    Training,
)

SRC = Path(fs.__file__).parent
METHODS = registry.list_built_in()
NAMES = [method.name for method in METHODS]
DEFAULT = {
    "cli/init.py",
    "cli/deploy_local.py",
    "cli/split.py",
    "lab/attacks/align.py",
    "lab/attacks/label_digits.py",
    "lab/attacks/made_columns.py",
    "lab/attacks/probing.py",
    "lab/attacks/repeats.py",
    "lab/attacks/small_cells.py",
    "deploy/site_files.py",
    "deploy/local.py",
}
"""Files that name the method of a first job, and no other."""


@pytest.fixture(params=METHODS, ids=NAMES)
def method(request):
    return request.param


def test_every_field_is_there_or_has_a_reason(method):
    for one in fields(MethodSpec):
        value = getattr(method, one.name)
        assert value is not None, one.name
        if isinstance(value, Missing):
            assert len(value.reason.split()) > 3, one.name
            assert value.reason.endswith("."), one.name
        elif isinstance(value, str):
            assert value, one.name
    assert method.protocols


def test_every_address_leads_somewhere(method):
    method.check()
    for setting in method.protocols:
        assert method.protocol(setting).name == method.name
    assert isinstance(method.report_texts, ReportTexts)
    if not isinstance(method.cost_model, Missing):
        assert callable(method.load(method.cost_model))
    if isinstance(method.pooled, Pooled):
        assert callable(method.load(method.pooled.select))
        assert set(method.pooled.unless) <= set(method.defaults)
    if isinstance(method.attacks, Attacks):
        assert {attack.method for attack in method.load(method.attacks.suite)} == {method.name}
        assert callable(method.load(method.attacks.on_run))


def test_settings_of_a_specification_are_parameters_of_the_estimator(method):
    known = set(method.defaults)
    if isinstance(method.demo, Demo):
        assert method.demo.setting in method.protocols
        assert set(method.demo.parameters) <= known
    if isinstance(method.training, Training):
        assert {*method.training.settings, *method.training.without} <= known
    if not isinstance(method.without_label, Missing):
        assert set(method.without_label) <= known
    assert set(method.neutral) <= set(method.protocols)
    assert "horizontal" not in method.protocols or "horizontal" in method.neutral


def test_every_parameter_is_declared_once_and_its_default_is_accepted(method):
    signature = inspect.signature(method.estimator).parameters
    assert set(method.declared) == set(signature)
    for name, parameter in method.declared.items():
        assert parameter.text.endswith("."), name
        assert parameter.takes(signature[name].default), name
        assert f"\n{name} : {parameter.shown}\n" in inspect.getdoc(method.estimator), name
    for name, default in method.defaults.items():
        if default is not None:
            assert fits(default, method.schema().parameters[name]), name


def test_parameters_of_a_chain_are_declared_once():
    assert list(chain.PARAMETERS) == list(inspect.signature(fs.Chain).parameters)
    for name, parameter in chain.PARAMETERS.items():
        assert f"\n{name} : {parameter.shown}\n" in inspect.getdoc(fs.Chain), name
    X = [[0.0, 1.0], [1.0, 0.0]] * 10
    federation = fs.split_vertical(X, [0, 1] * 10, 2)
    with pytest.raises(ParameterError, match=r"held_out=1\.5. A share between 0 and 1 is needed"):
        fs.Chain([fs.FilterSelector()], held_out=1.5).fit(federation)


# Attacks that are the same for several methods name those.
SEVERAL = {f"lab/attacks/{name}.py" for name in ("key_swap", "known_seed", "rare_class")}


def test_a_method_is_one_folder_and_one_line():
    folders = {path.parent.name for path in (SRC / "methods").glob("*/__init__.py")}
    assert {module.rpartition(".")[2] for module in registry.BUILT_IN} == folders == set(NAMES)
    quoted = re.compile(rf"[\"']({'|'.join(NAMES)})[\"']")
    for path in SRC.rglob("*.py"):
        place = path.relative_to(SRC)
        found = set(quoted.findall(path.read_text(encoding="utf-8")))
        if place.as_posix() in SEVERAL:
            continue
        if place.as_posix() in DEFAULT:
            assert found <= {"filter"}, place
        else:
            assert found <= {part.removesuffix(".py") for part in place.parts}, place


def test_estimators_are_known_by_their_methods():
    for method in METHODS:
        assert getattr(fs, method.class_name) is method.estimator
        assert registry.method_of(method.estimator()) == method
    assert registry.method_of(object()) is None


def test_specifications_are_read_without_importing_methods():
    code = (
        "import sys; from fedsift.methods.registry import list_built_in; list_built_in();"
        "heavy = {'numpy', 'sklearn', 'torch', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_results_of_methods_that_are_not_installed_have_the_usual_texts():
    assert registry.report_texts("some method") == ReportTexts()


def test_unknown_methods_are_compared_with_known_ones():
    with pytest.raises(UnknownMethod, match=r"no method 'fliter'.*Known methods.*'filter'"):
        registry.method_named("fliter")


GOOD = METHODS[0]


def spec(**changes):
    known = {one.name: getattr(GOOD, one.name) for one in fields(MethodSpec)}
    return MethodSpec(**{**known, "name": "seventh", **changes})


SILENT = {name: one for name, one in GOOD.parameters.items() if name != "allow_many_anchors"}
ADDED = {
    "seventh": spec(),
    "another": spec(),
    "train": spec(name="train"),
    "No Name": spec(name="No Name"),
    "filter": spec(name="filter"),
    "rows": spec(name="rows", selects="rows"),
    "diagonal": spec(name="diagonal", protocols={"diagonal": GOOD.protocols["horizontal"]}),
    "alone": spec(name="alone", neutral={}),
    "nowhere": spec(name="nowhere", selector="fedsift.nowhere:Selector"),
    "bare": spec(name="bare", selector="fedsift.methods.spec:Demo"),
    "silent": spec(name="silent", parameters=SILENT),
    "unspecified": "dcfs",
}
PROBLEMS = {
    "another": "its MethodSpec is called 'seventh'",
    "train": "the name means something else in job files",
    "No Name": "a name has lower-case letters",
    "filter": "fedsift has a method of that name",
    "rows": "selects is 'rows'",
    "diagonal": "protocols are given for \\['diagonal'\\]",
    "alone": "a horizontal method needs a neutral party",
    "nowhere": "ModuleNotFoundError: No module named 'fedsift.nowhere'",
    "bare": "Demo has no parameter 'alignment'",
    "silent": "the parameter 'allow_many_anchors' of DCFSSelector is not declared",
    "unspecified": "its entry point leads to a str, not to a MethodSpec",
}


@pytest.fixture
def added(monkeypatch):
    """Entry points of another package, as if they were installed."""
    entries = [EntryPoint(name, f"{__name__}:ADDED", registry.GROUP) for name in ADDED]
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: entries)
    monkeypatch.setattr(EntryPoint, "load", lambda entry: ADDED[entry.name])
    registry._find_methods.cache_clear()
    yield
    registry._find_methods.cache_clear()


@pytest.mark.usefixtures("added")
def test_methods_of_other_packages_come_last_and_bad_ones_are_left_out():
    assert [method.name for method in registry.list_methods()] == [*NAMES, "seventh"]
    assert registry.method_named("seventh").package == __name__
    assert registry.method_named("filter").package == "fedsift"
    assert len(registry.list_broken()) == len(PROBLEMS)


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "filter"])
def test_a_bad_one_says_whose_it_is_and_what_is_wrong(name):
    said = rf"method {name!r} of the package {__name__!r} cannot be used: .*{PROBLEMS[name]}"
    with pytest.raises(BrokenMethod, match=said):
        registry.method_named(name)
