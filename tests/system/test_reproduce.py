"""Every experiment of the paper runs end to end at a tiny scale, and its table says what must hold."""

import csv
import json
import re
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from flcert.certify import Disjoint, Evidence, targeted_success
from flcert.core.store import Store
from flcert.engines import Inline
from flcert.errors import InputError, RunError
from flcert.experiments import EXPERIMENTS, IN_ORDER, Options
from flcert.experiments.reproduce import Request, Site, reproduce, reproduce_all
from flcert.pipeline.run import federation_of, run
from flcert.report.drawing import draw_panel, picture, styles_of_panels
from flcert.runs.config import load_config
from flcert.runs.directory import RunDirectory

CLIENTS, GROUPS = 20, 12  # with alpha = 0.5 enough groups for FLCert-P to certify something
SETTING = (
    "recipe.rounds=2",
    "recipe.local_steps=10",
    "data.options.num_test=40",
    f"grouping.num_groups={GROUPS}",
    "certificate.alpha=0.5",
)

OPTIONS = Options(repeats=2, copies=3, beta=0.5, malicious=(1, 3), groups=(2, GROUPS), single_rounds=3)
SINGLE = ("grouping.num_groups=1", "recipe.participation=0.5")


@pytest.fixture(scope="module")
def tiny_store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


def make(name, directory, store, options=OPTIONS, overrides=(), **changes):
    config = load_config(preset="digits", scale=0.1, overrides=[*SETTING, *overrides])
    return reproduce(Request(name, config, "tiny", options), Site(directory, Inline(), store, **changes))


def rows_of(made):
    with made.table.open(newline="") as lines:
        return list(csv.DictReader(lines))


def series(rows, value="certified_accuracy"):
    """The values by m of every curve of a table."""
    curves = {}
    for row in rows:
        names = tuple(row.values())[: list(row).index("m")]
        curves.setdefault(names, {})[int(row["m"])] = float(row[value])
    return curves


@pytest.mark.draws
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_writes_its_files_and_trains_nothing_twice(name, tmp_path, tiny_store):
    options = OPTIONS.model_copy(update={"malicious": (1,)})
    first = make(name, tmp_path, tiny_store, options)
    assert first.trained + first.reused > 0
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(written) == {f"{name}-tiny.{form}" for form in ("csv", "png", "svg", "pdf", "json")} | {"report.html"}
    assert written[f"{name}-tiny.png"].startswith(b"\x89PNG")
    assert f'id="{name}-tiny"' in written["report.html"].decode()
    second = make(name, tmp_path, tiny_store, options)
    assert second.trained == 0
    assert second.reused == first.trained + first.reused
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == written


@pytest.mark.parametrize("name", ["comparison", "groups", "backdoor", "base-algorithms"])
def test_certified_accuracy_never_rises_and_ends_where_the_theorem_ends(name, tmp_path, tiny_store):
    rows = rows_of(make(name, tmp_path, tiny_store))
    for names, curve in series(rows).items():
        assert sorted(curve) == list(range(len(curve)))
        assert all(later <= earlier for earlier, later in pairwise(curve.values()))
        if "FLCert-D" in names:
            assert curve[0] > 0
            number = int(names[1]) if name == "groups" else GROUPS
            assert all(value == 0 for m, value in curve.items() if m > number / 2)
        if names[0] in ("single global model", "CRFL"):
            assert curve[0] > 0
            assert all(value == 0 for m, value in curve.items() if m >= 1)


@pytest.fixture
def certified(tmp_path, tiny_store, monkeypatch):
    """What ``flcert run`` says of FLCert-D in the same setting, changed as told: the summary and each group's votes."""
    monkeypatch.setattr("flcert.report.page.write_report", lambda _: None)

    def certify(*overrides):
        config = load_config(preset="digits", scale=0.1, overrides=[*SETTING, *overrides])
        result = run(config, tmp_path / f"run-{config.digest()}", engine=Inline(), store=tiny_store)
        directory = RunDirectory(result.directory)
        votes, truth, groups = directory.array("votes"), directory.truth(), directory.manifest().groups
        return SimpleNamespace(**dict(result.summary), votes=votes, truth=truth, groups=groups)

    return certify


def told_of(method, number=GROUPS):
    """How to tell ``flcert run`` to use the groups of a method."""
    if method == "FLCert-D":
        return (f"grouping.num_groups={number}",)
    return (f'grouping={{kind="sampled",num_groups={number},group_size={round(CLIENTS / number)}}}',)


def curves_of(made, *settings):
    """Method, what is varied and the curve, for FLCert-D and FLCert-P, after a look at what there is."""
    found = [(*names, list(curve.values())) for names, curve in series(rows_of(made)).items()]
    assert {names[:2] for names in found} == set(product(("FLCert-D", "FLCert-P"), settings))
    for method in ("FLCert-D", "FLCert-P"):
        curves = [curve for name, _, curve in found if name == method]
        assert len({tuple(curve) for curve in curves}) > 1  # it makes a difference
        assert any(sum(curve[1:]) > 0 for curve in curves)  # something is certified
    return found


def same(curve, other):
    """Whether two curves are the same but for zeros at their end."""
    longest = max(len(curve), len(other))
    return np.pad(curve, (0, longest - len(curve))).tolist() == np.pad(other, (0, longest - len(other))).tolist()


def test_groups_are_as_many_as_told(tmp_path, tiny_store, certified):
    for method, number, curve in curves_of(make("groups", tmp_path, tiny_store), "2", str(GROUPS)):
        assert same(curve, certified(*told_of(method, int(number))).certified_accuracy)


def test_base_algorithms_are_those_of_their_names(tmp_path, tiny_store, certified):
    options = OPTIONS.model_copy(update={"groups": (GROUPS,)})
    made = make("base-algorithms", tmp_path, tiny_store, options)
    for method, algorithm, curve in curves_of(made, "FedAvg", "Krum", "Trimmed-mean", "Median", "FLTrust"):
        told = certified(*told_of(method), f"recipe.aggregator={algorithm.lower()}")
        assert same(curve, told.certified_accuracy)


def test_an_algorithm_keeps_the_options_that_it_was_given(tmp_path, tiny_store, certified):
    options = OPTIONS.model_copy(update={"groups": (4,)})
    given = 'recipe.aggregator={name="trimmed-mean",options={assumed_malicious=0}}'
    curves = series(rows_of(make("base-algorithms", tmp_path, tiny_store, options, [given])))
    told, usual = (certified("grouping.num_groups=4", one) for one in (given, "recipe.aggregator=trimmed-mean"))
    assert not same(told.certified_accuracy, usual.certified_accuracy)
    assert same(list(curves["FLCert-D", "Trimmed-mean"].values()), told.certified_accuracy)


def test_comparison_has_both_methods_and_both_baselines_as_a_run_has_them(tmp_path, tiny_store, certified):
    """CRFL alone is smoothed, with the settings that were given."""
    smoothing = "recipe.smoothing={clip=2.0,sigma=0.1,copies=%d}"
    curves = series(rows_of(make("comparison", tmp_path, tiny_store, overrides=[smoothing % 7])))
    told = {
        "FLCert-D": certified(*told_of("FLCert-D")),
        "FLCert-P": certified(*told_of("FLCert-P")),
        "single global model": certified(*SINGLE),
        "CRFL": certified(*SINGLE, smoothing % OPTIONS.copies),
    }
    assert not same(told["CRFL"].certified_accuracy, told["single global model"].certified_accuracy)
    assert not same(told["single global model"].certified_accuracy, certified(SINGLE[0]).certified_accuracy)
    assert {(name,) for name in told} == set(curves)
    for name, one in told.items():
        assert same(list(curves[name,].values()), one.certified_accuracy)


@pytest.mark.parametrize("name", ["groups", "backdoor", "base-algorithms"])
def test_the_picture_shows_the_table(name, tmp_path, tiny_store):
    made = make(name, tmp_path, tiny_store)
    curves = series(rows_of(made))
    assert [panel.title for panel in made.outcome.panels][:2] == ["FLCert-P", "FLCert-D"]
    assert len(made.outcome.panels) == (4 if name == "backdoor" else 2)
    for panel in made.outcome.panels[:2]:
        axes = Figure().subplots()
        draw_panel(axes, panel, styles_of_panels(made.outcome.panels))
        lines = {line.get_label().removeprefix("N = "): line for line in axes.lines}
        assert {(panel.title, label) for label in lines} == {names for names in curves if names[0] == panel.title}
        for label, line in lines.items():
            assert dict(zip(*line.get_data(), strict=True)) == curves[panel.title, label]


def fails_alone():
    """An aggregator that cannot work with one client."""
    return _of_two


def _of_two(given):
    if len(given.sizes) == 1:
        raise RuntimeError("one is too few")
    return given.updates.mean(dim=0)


def fails():
    """An aggregator that fails as soon as anybody moves."""
    return _never


def _never(given):
    if given.updates.any():
        raise RuntimeError("never")
    return given.updates[0]


def test_groups_that_fail_cost_the_figure_what_they_cost_a_run_and_are_told(tmp_path, tiny_store, certified):
    alone = f"recipe.aggregator={__name__}:fails_alone"
    made = make("comparison", tmp_path, tiny_store, overrides=[alone])
    told = certified(alone)
    failed = [group for group, entry in enumerate(told.groups) if entry.failure]
    assert 0 < len(failed) < GROUPS
    assert same(list(series(rows_of(made))["FLCert-D",].values()), told.certified_accuracy)
    sentence = f"FLCert-D: {len(failed)} of {GROUPS} groups failed; group {failed[0]}: RuntimeError: one is too few"
    assert made.failed == (sentence,)
    assert sentence in made.page.read_text()
    with pytest.raises(RunError, match="no group could be trained; group 0: RuntimeError: never"):
        make("convergence", tmp_path, tiny_store, overrides=[f"recipe.aggregator={__name__}:fails"])


@pytest.mark.draws
def test_the_page_of_figures_in_a_browser(browser, tmp_path, tiny_store):
    make("groups", tmp_path, tiny_store)
    page = make("backdoor", tmp_path, tiny_store).page
    for width in (390, 1200):
        browser.set_window_size(width, 900)
        browser.get(page.as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        boxes = (
            "return Array.from(document.querySelectorAll('.panels > svg')).map((one) => one.getBoundingClientRect())"
        )
        places = [(round(box["x"]), round(box["y"]), box["width"]) for box in browser.execute_script(boxes)]
        assert len(places) == 2 + 4
        assert len({x for x, _, _ in places}) == (1 if width == 390 else 2)  # they stack
        assert min(wide for _, _, wide in places) > 300
    ids = browser.execute_script("return Array.from(document.querySelectorAll('[id]')).map((one) => one.id)")
    assert len(set(ids)) == len(ids)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.draws
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_s_pictures_take_its_colours_and_its_print_is_light(browser, tmp_path, tiny_store, theme):
    page = make("comparison", tmp_path, tiny_store).page
    ink = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    try:
        for media in ("screen", "print"):
            features = [{"name": "prefers-color-scheme", "value": theme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
            browser.get(page.as_uri())
            text = browser.execute_script(ink, "figure svg text", "fill")
            assert text == browser.execute_script(ink, "body", "color")
            assert (text == "rgb(0, 0, 0)") == (media == "print" or theme == "light")
            hidden = browser.execute_script(ink, "nav", "display") == "none"
            assert hidden == (media == "print")
            assert browser.execute_script(ink, ".panels", "breakInside") == ("avoid" if media == "print" else "auto")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    drawn = page.read_text().split("</style>")[1]
    assert not re.search("#000000|#ffffff|<img", drawn)


def test_what_is_proved_is_drawn_in_steps_and_what_was_measured_in_marked_points(tmp_path, tiny_store):
    options = OPTIONS.model_copy(update={"malicious": (1,)})
    for name in EXPERIMENTS:
        panels = make(name, tmp_path, tiny_store, options).outcome.panels
        lines = [line for axes in picture("", panels).axes for line in axes.lines if len(line.get_xdata()) > 2]
        measured = name in ("empirical", "cost", "convergence")
        assert {line.get_drawstyle() for line in lines} <= {"default" if measured else "steps-post"}
        assert all(line.get_marker() not in ("", "None") for line in lines)


def test_a_figure_of_an_earlier_version_is_shown_as_its_picture(tmp_path, tiny_store):
    make("groups", tmp_path, tiny_store)
    facts = json.loads((tmp_path / "groups-tiny.json").read_text())
    old = {key: value for key, value in facts.items() if key not in ("panels", "columns")}
    (tmp_path / "groups-tiny.json").write_text(json.dumps({**old, "format": 2, "title": "Impact of N"}))
    page = make("comparison", tmp_path, tiny_store).page.read_text()
    assert "<h2>Impact of N: tiny</h2>" in page
    assert page.count('<img alt="Impact of N: tiny') == 1


def test_a_figure_is_as_sure_as_the_configuration_says(tmp_path, tiny_store, certified):
    proofs = [("alpha=0.001",), ("alpha=0.7",), ("alpha=0.7", "selection=paper")]
    found = []
    for number, proof in enumerate(proofs):
        overrides = [f"certificate.{one}" for one in proof]
        curve = series(rows_of(make("groups", tmp_path / str(number), tiny_store, overrides=overrides)))
        found.append(list(curve["FLCert-P", str(GROUPS)].values()))
        assert same(found[-1], certified(*told_of("FLCert-P"), *overrides).certified_accuracy)
    assert len(set(map(tuple, found))) == len(proofs)


def test_a_figure_tells_how_sure_the_certificates_of_sampled_groups_are(tmp_path, tiny_store):
    sure = "holds by itself, except with probability 0.5 over the draw of the groups."
    assert sure in make("groups", tmp_path, tiny_store).page.read_text()
    paper = make("groups", tmp_path / "paper", tiny_store, overrides=["certificate.selection=paper"])
    assert "ensemble of all possible groups" in paper.outcome.note
    assert "except with probability 2 x 0.5 over" in paper.outcome.note
    assert sure not in make("convergence", tmp_path, tiny_store).outcome.note


def test_a_figure_tells_in_how_many_groups_another_rule_acts(tmp_path, tiny_store, certified):
    options = OPTIONS.model_copy(update={"groups": (4,)})
    told = certified("recipe.aggregator=krum", "grouping.num_groups=4").groups
    count = sum(group.substitute == "median" for group in told)
    assert 0 < count < 4
    note = make("base-algorithms", tmp_path, tiny_store, options).outcome.note
    assert f"FLCert-D, Krum: the median acts in groups too small for the rule, {count} of 4." in note
    assert "FedAvg: the median" not in note


def test_the_backdoor_s_trigger_is_on_the_inputs_of_its_curve(tmp_path, tiny_store, certified):
    for method, inputs, curve in curves_of(make("backdoor", tmp_path, tiny_store), "clean", "with trigger"):
        told = certified(*told_of(method), "attack.name=backdoor", "attack.malicious=1")
        stamped = told.attack.certified_accuracy_on_stamped_inputs
        assert same(curve, told.certified_accuracy if inputs == "clean" else stamped)


def test_the_bounds_on_a_backdoor_are_those_of_the_votes_on_stamped_inputs_and_no_attack_beats_them(
    tmp_path, tiny_store, certified
):
    """Target 3. The picture shows the columns, and a run under attack has the same bound at its m."""
    aimed = ("attack.name=backdoor", "attack.options.target=3")
    made = make("backdoor", tmp_path, tiny_store, overrides=[*aimed, "attack.malicious=1"])
    rows = rows_of(made)
    bounds, implied = (series(rows, value) for value in ("success_at_most", "plain_levels_imply_at_most"))
    for names, curve in bounds.items():
        assert all(later >= earlier for earlier, later in pairwise(curve.values()))
        assert all(curve[m] <= implied[names][m] for m in curve)
    assert bounds["FLCert-D", "with trigger"] != implied["FLCert-D", "with trigger"]
    assert bounds["FLCert-D", "with trigger"] != bounds["FLCert-D", "clean"]
    for panel in made.outcome.panels[2:]:
        method = panel.title.removesuffix(", inputs with trigger")
        assert [dict(line.points) for line in panel.lines] == [one[method, "with trigger"] for one in (bounds, implied)]
    for method, m in product(("FLCert-D", "FLCert-P"), (1, 2)):
        attack = certified(*told_of(method), *aimed, f"attack.malicious={m}").attack
        assert attack.success_rate_at_most == bounds[method, "with trigger"][m]
        assert method == "FLCert-P" or attack.success_rate_under_attack <= attack.success_rate_at_most
    clean = certified(*told_of("FLCert-D"))
    levels = Disjoint(num_clients=CLIENTS).target_levels(Evidence.of_votes(clean.votes, 10), 3)
    assert targeted_success(levels, clean.truth, 3)[1] == bounds["FLCert-D", "clean"][1]
    assert "target 3" in made.outcome.note


@pytest.mark.parametrize(("method", "other"), [("FLCert-D", "grouping.key=flcert-1"), ("FLCert-P", "grouping.seed=1")])
def test_seeds_gives_mean_and_deviation_of_different_trials(method, other, tmp_path, tiny_store, certified):
    rows = [row for row in rows_of(make("seeds", tmp_path, tiny_store)) if row["method"] == method]
    trials = [certified(*told_of(method)), certified(*told_of(method), other, "recipe.seed=1")]
    assert not same(trials[0].certified_accuracy, trials[1].certified_accuracy)
    for row in rows:
        values = [dict(enumerate(one.certified_accuracy)).get(int(row["m"]), 0.0) for one in trials]
        assert float(row["mean"]) == pytest.approx(np.mean(values))
        assert float(row["standard_deviation"]) == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert {row["repeats"] for row in rows} == {"2"}


def test_known_attacks_are_measured_for_each_algorithm_and_method(tmp_path, tiny_store, certified):
    options = OPTIONS.model_copy(update={"malicious": (0, 10), "beta": 1.0, "groups": (4,)})
    made = make("empirical", tmp_path, tiny_store, options)
    assert "FLCert-D, Krum: the median acts in groups too small for the rule" in made.outcome.note
    rows = rows_of(made)
    value = {(row["algorithm"], row["method"], int(row["m"]), row["metric"]): float(row["value"]) for row in rows}
    assert len(value) == 5 * 3 * 2 * 2
    harmless, harmed = (value["FedAvg", "single global model", m, "test accuracy"] for m in (0, 10))
    assert harmed < harmless  # FedAvg with zero updates learns nothing
    asked = {row["algorithm"]: row["attack"] for row in rows if row["metric"] == "test accuracy"}
    assert asked == {"FedAvg": "zero", "Krum": "krum", "Trimmed-mean": "trim", "Median": "trim", "FLTrust": "trim"}
    methods = {method: told_of(method, 4) for method in ("FLCert-D", "FLCert-P")}
    methods["single global model"] = ("grouping.num_groups=1",)
    for algorithm, attack in asked.items():
        for method, told in methods.items():
            setting = (*told, f"recipe.aggregator={algorithm.lower()}", "attack.malicious=10")
            harm = certified(*setting, f"attack.name={attack}").attack
            assert value[algorithm, method, 10, "test accuracy"] == harm.accuracy_under_attack
    for method, told in methods.items():
        backdoor = certified(*told, "attack.malicious=10", "attack.name=backdoor").attack
        assert backdoor.success_rate_under_attack != backdoor.success_rate_without_attack
        assert value["FedAvg", method, 10, "attack success rate"] == backdoor.success_rate_under_attack
        assert value["FedAvg", method, 0, "attack success rate"] == backdoor.success_rate_without_attack


def test_cost_and_convergence_are_those_of_as_many_rounds(tmp_path, tiny_store, certified):
    cost = make("cost", tmp_path, tiny_store)
    rows = rows_of(make("convergence", tmp_path, tiny_store))
    accuracy = {(row["model"], int(row["round"])): float(row["accuracy"]) for row in rows}
    costs = {(row["method"], int(row["rounds"])): float(row["certified_accuracy"]) for row in rows_of(cost)}
    assert len(set(costs.values())) > 2
    for method, rounds in product(("FLCert-D", "FLCert-P"), (1, 2)):
        told = certified(*told_of(method), f"recipe.rounds={rounds}")
        assert costs[method, rounds] == told.certified_accuracy[1]
        first = next(votes for votes in told.votes if votes[0] >= 0)
        assert accuracy[f"a group of {method}", rounds] == np.mean(first == told.truth)
    for rounds in (1, 2, 3):
        assert accuracy["single global model", rounds] == certified(*SINGLE, f"recipe.rounds={rounds}").accuracy
    ((place, label),) = [panel.marked for panel in cost.outcome.panels]
    assert (place, label) == (0.5 * 3, "cost of the single model (T = 3, beta = 0.5)")  # beta T / beta_e


def test_cost_and_convergence_follow_the_rounds(tmp_path, tiny_store):
    costs = rows_of(make("cost", tmp_path, tiny_store))
    assert {(row["method"], row["m"], row["rounds"]) for row in costs} == {
        (method, "1", rounds) for method in ("FLCert-D", "FLCert-P") for rounds in ("1", "2")
    }
    rounds = {}
    for row in rows_of(make("convergence", tmp_path, tiny_store)):
        rounds.setdefault(row["model"], []).append(int(row["round"]))
    assert rounds == {
        "a group of FLCert-D": [1, 2],
        "a group of FLCert-P": [1, 2],
        "single global model": [1, 2, 3],
    }


def test_an_experiment_is_without_the_clients_that_were_forgotten(tmp_path, tiny_store, certified):
    forgotten = "forget=['client-0003', 'client-0007']"
    curves = series(rows_of(make("groups", tmp_path, tiny_store, overrides=[forgotten])))
    told = certified(forgotten, f"grouping.num_groups={GROUPS}")
    assert not same(told.certified_accuracy, certified(f"grouping.num_groups={GROUPS}").certified_accuracy)
    assert same(list(curves["FLCert-D", str(GROUPS)].values()), told.certified_accuracy)
    facts = json.loads((tmp_path / "groups-tiny.json").read_text())
    assert facts["data"]["clients"] == CLIENTS - 2


def test_an_experiment_that_was_stopped_goes_on(tmp_path, store):
    def stop_at_the_second(what):
        if what == "FLCert-P":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make("backdoor", tmp_path, store, announce=stop_at_the_second)
    resumed = make("backdoor", tmp_path, store)
    assert resumed.trained > 0
    config = load_config(preset="digits", scale=0.1, overrides=SETTING)
    disjoint = config.grouping.build(federation_of(config).ids)
    assert resumed.reused >= np.count_nonzero(disjoint.sizes)  # FLCert-D's groups


def test_experiments_share_a_page_and_refuse_to_write_over_other_settings(tmp_path, tiny_store):
    make("comparison", tmp_path, tiny_store)
    page = make("groups", tmp_path, tiny_store).page.read_text()
    assert 'id="comparison-tiny"' in page
    assert 'id="groups-tiny"' in page
    assert "http" not in page
    with pytest.raises(InputError, match=r"of other settings \(options.groups is \[2, 12\] there and \[3\] here\)"):
        make("groups", tmp_path, tiny_store, OPTIONS.model_copy(update={"groups": (3,)}))
    with pytest.raises(InputError, match=r"of other settings \(config.recipe.rounds is 2 there and 1 here\)"):
        make("groups", tmp_path, tiny_store, overrides=["recipe.rounds=1"])
    again = make("groups", tmp_path, tiny_store, OPTIONS.model_copy(update={"repeats": 3}))  # which it does not use
    assert again.trained == 0


@pytest.mark.parametrize("damage", ["{bro", "[1]", '{"experiment": "comparison"}'])
def test_a_damaged_record_of_another_figure_is_told_before_anything_is_trained(damage, tmp_path, store):
    (tmp_path / "comparison-tiny.csv").touch()
    (tmp_path / "comparison-tiny.json").write_text(damage)
    with pytest.raises(InputError, match=r"comparison-tiny.json (is not JSON|is damaged; delete it: \w+ is needed)"):
        make("groups", tmp_path, store)
    assert not list(store.directory.rglob("*.safetensors"))


def test_a_page_says_how_it_was_made_and_why_sampled_groups_certify_nothing(flcert, tmp_path):
    command = "flcert reproduce groups --preset digits --scale 0.1 --set recipe.rounds=1 --groups 2 --groups 4"
    result = flcert(*command.split()[1:], "-q", "--engine", "inline", "--workers", 1, "--out", "figures")
    assert result.code == 0, result.err
    page = (tmp_path / "figures" / "report.html").read_text()
    assert f"<code>{command}</code>" in page
    assert "FLCert-P certifies nothing with N = 2, 4: 450 inputs need at least 20 groups." in page


def test_the_command_says_what_was_trained_and_what_was_reused(flcert, tmp_path):
    settings = [option for setting in SETTING for option in ("--set", setting)]
    common = ("reproduce", "groups", "--preset", "digits", "--scale", 0.1, *settings, "--groups", 2, "-q")
    result = flcert(*common, "--engine", "inline")
    assert result.code == 0, result.err
    assert result.out.startswith("groups-digits-scale-0.1: 4 groups trained, 0 reused from the store\n")
    again = flcert(*common, "--engine", "inline", "--json")
    printed = json.loads(again.out)
    assert printed["groups"] == {"trained": 0, "reused": 4, "failed": []}
    assert printed["rows"][0]["method"] == "FLCert-D"
    assert (tmp_path / "results" / "groups-digits-scale-0.1.svg").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("compare",), "unknown experiment 'compare'; did you mean 'comparison'?"),
        (("groups", "--preset", "digit"), "unknown preset 'digit'; did you mean 'digits'?"),
        (("groups", "--preset", "digits", "--groups", 0), "--groups must be greater than 0, got 0"),
        (("seeds", "--preset", "digits", "--repeats", 1), "--repeats must be greater than or equal to 2, got 1"),
        (("comparison", "--preset", "digits", "--beta", 0), "--beta must be greater than 0, got 0.0"),
        (
            ("groups", "--preset", "digits", "--set", 'grouping={kind="enumerated",group_size=1}'),
            "experiments vary groups of kind hashed or balanced, got kind 'enumerated'",
        ),
        (
            ("groups", "--preset", "digits", "--groups", 2, "--groups", 300),
            "--groups must be in [1, num_clients=200], got 300",
        ),
        (
            ("empirical", "--preset", "digits", "--malicious", 300),
            "--malicious must be in [0, num_clients=200], got 300",
        ),
        (
            ("groups", "--preset", "digits", "--set", "certificate.also=['runoff']"),
            "experiments show the certificates of the paper; leave out certificate.also=runoff",
        ),
        (
            ("groups", "--preset", "digits", "--set", "compression=int8"),
            "experiments do not compress models; leave out compression='int8'",
        ),
        (("groups", "--preset", "digits", "--repeats", 3), "--repeats means nothing to groups, got 3"),
        (("backdoor", "--preset", "digits", "--out", __file__), "must be a directory, got a file"),
        (("groups", "--preset", "digits", "--preset", "mnist"), "unknown preset 'mnist'"),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, options, message):
    result = flcert("reproduce", *options, "-q", "--engine", "inline", "--set", "recipe.rounds=1")
    assert result.code == 2
    assert message in result.err


ALL = ("reproduce", "all", "--preset", "digits", "--scale", 0.1, "-q", "--engine", "inline")
QUICK = [option for setting in SETTING for option in ("--set", setting)]
QUICK += ["--repeats", 2, "--copies", 3, "--malicious", 1, "--groups", 4]


def test_all_makes_every_figure_says_which_it_is_at_and_goes_on_from_the_store(flcert, tmp_path):
    result = flcert(*[word for word in ALL if word != "-q"], *QUICK, "--json")
    assert result.code == 0, result.err
    told = [json.loads(line) for line in result.out.splitlines()]
    assert [one["figure"] for one in told] == [f"{name}-digits-scale-0.1" for name in IN_ORDER]
    assert set(IN_ORDER) == set(EXPERIMENTS)
    said = " ".join(result.err.split())
    assert "figure 1 of 8, convergence-digits-scale-0.1: a group of FLCert-D" in said
    assert "figure 8 of 8, empirical-digits-scale-0.1: single global model, FedAvg, zero, m = 1" in said
    assert re.search(r"figures +\S+ 8/8", said)
    page = (tmp_path / "results" / "report.html").read_text()
    assert re.findall(r'<section id="([\w-]+)-digits-scale-0.1">', page) == list(EXPERIMENTS)  # the paper's order
    assert re.search(r"<code>flcert reproduce seeds [^<]*alpha=0.5 --repeats 2</code>", page)  # its own options only
    groups = {one["figure"].removesuffix("-digits-scale-0.1"): one["groups"] for one in told}
    assert groups["comparison"]["trained"] == 1  # CRFL; the single global model is of convergence, the rest of cost
    assert groups["backdoor"]["trained"] == 0
    again = flcert(*ALL, *QUICK)
    assert again.code == 0
    assert re.findall(r": (\d+) groups trained", again.out) == ["0"] * 8
    assert again.out.count("report: ") == 1


def test_a_figure_that_a_setting_cannot_make_is_named_with_the_reason_and_the_others_are_made(flcert, tmp_path):
    """Without a root set of the server there is no FLTrust."""
    rootless = (*QUICK, "--set", "data.options.num_root=0")
    result = flcert(*ALL, *rootless)
    assert result.code == 1
    for name in ("base-algorithms", "empirical"):
        assert f"{name}-digits-scale-0.1 cannot be made: aggregator 'fltrust' needs a root set" in result.err
        assert not (tmp_path / f"results/{name}-digits-scale-0.1.csv").exists()
    assert "2 of 8 figures could not be made: base-algorithms-digits-scale-0.1, empirical-" in result.err
    assert len(list((tmp_path / "results").glob("*.csv"))) == 6
    assert (tmp_path / "results" / "report.html").read_text().count("<section") == 6
    told = [json.loads(line) for line in flcert(*ALL, *rootless, "--json").out.splitlines()]
    assert [one["reason"][:20] for one in told if "reason" in one] == ["aggregator 'fltrust'"] * 2


def test_all_that_was_stopped_shows_the_figures_that_were_made(tmp_path, tiny_store):
    def stop_at_the_second(_):
        if (tmp_path / "groups-tiny.csv").exists():
            raise KeyboardInterrupt

    config = load_config(preset="digits", scale=0.1, overrides=SETTING)
    requests = [Request(name, config, "tiny", OPTIONS) for name in ("groups", "backdoor")]
    with pytest.raises(KeyboardInterrupt):
        list(reproduce_all(requests, Site(tmp_path, Inline(), tiny_store, announce=stop_at_the_second)))
    assert 'id="groups-tiny"' in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--groups", 300), "--groups must be in [1, num_clients=20], got 300"),
        (("--preset", "digits", "--preset", "har", "--malicious", 25), "--malicious must be in [0, num_clients=20]"),
        (("--repeats", 1), "--repeats must be greater than or equal to 2, got 1"),
        (("--set", "compression=int8"), "experiments do not compress models"),
        (("--set", "recipe.initial=digits-28"), "public model 'digits-28' is not there yet"),
    ],
)
def test_all_refuses_wrong_options_before_anything_is_trained(flcert, tmp_path, given, message):
    result = flcert(*ALL, *given)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_the_help_lists_every_experiment(flcert):
    told = flcert("reproduce", "--help").out
    for name in (*EXPERIMENTS, "all"):
        assert re.search(rf"• {name}: ", told), name
