"""One module defines every metric; rules, Grafana, documents and endpoints use no other name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily

from exporters._shared import metrics
from exporters.grafana import READY
from exporters.prometheus.live import live_families
from exporters.prometheus.report import report_families
from tests.fakes.reports import full_report

from .test_prometheus_metrics import registry, run

ROOT = Path(__file__).resolve().parents[3]
EXPORTERS = ROOT / "exporters"
RULES = EXPORTERS / "rules/phasewatt.rules.yml"
RULE_TESTS = EXPORTERS / "rules/phasewatt.test.yml"
DOCUMENTS = [
    path
    for folder in (".", "exporters", "examples", "docs", "probe", "dashboard", "optimizers")
    for path in sorted((ROOT / folder).glob("*.md" if folder == "." else "**/*.md"))
]
NAMES = {definition.prometheus_name for definition in metrics.served()}
NAME = re.compile(r"(?<![\w:])phasewatt_[a-z0-9_<>]*[a-z0-9]")
RECORDED = re.compile(r"^\s*- record: (\S+)$", re.MULTILINE)
# A metric under the prefix that is another exporter's everywhere.
OLD_NAME = re.compile(r"\bprobe_\w+_(joules|watts|seconds|bytes|ratio|total|info)\b")


def names_in(text: str) -> set[str]:
    """Names of metrics in a text, without those of recording rules (``level:metric:operation``)."""
    return set(NAME.findall(re.sub(r"\b[a-z_]+:phasewatt_\w+:\w+", "", text)))


@pytest.mark.parametrize("path", [RULES, RULE_TESTS, READY, *DOCUMENTS], ids=str)
def test_every_name_in_a_file_is_defined(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    of_any_device = {
        definition.prometheus_name
        for by_kind in metrics.OF_DEVICES
        for definition in by_kind.values()
    }
    assert names_in(text) <= NAMES | of_any_device
    assert not OLD_NAME.search(text)


def test_the_rules_and_the_dashboard_use_names_at_all() -> None:
    assert len(names_in(RULES.read_text(encoding="utf-8"))) >= 7
    assert len(names_in(READY.read_text(encoding="utf-8"))) >= 12


def test_recorded_names_say_level_metric_and_operation() -> None:
    recorded = RECORDED.findall(RULES.read_text(encoding="utf-8"))
    assert len(recorded) == 4
    assert all(re.fullmatch(r"run[a-z_]*:phasewatt_\w+:(rate|ratio)\dm", name) for name in recorded)


def test_the_endpoint_serves_only_defined_names() -> None:
    text = generate_latest(registry(run())).decode()
    served = set(re.findall(r"^([a-z_]+)[{ ]", text, re.MULTILINE)) - {"#"}
    created = {name for name in served if name.endswith("_created")}
    assert len(served - created) >= 14 and served - created <= NAMES
    # The client library's own, from the start of a counter.
    assert {name.removesuffix("_created") + "_total" for name in created} <= NAMES


def test_a_stored_run_has_only_defined_names() -> None:
    samples = {
        sample.name for family in report_families(full_report()) for sample in family.samples
    }
    assert len(samples) == 13 and samples <= NAMES


def test_help_and_type_are_those_of_the_definition() -> None:
    families = {family.name: family for family in live_families([run()], 20)}
    energy = families["phasewatt_phase_energy_joules"]
    assert isinstance(energy, CounterMetricFamily)
    assert energy.documentation == metrics.PHASE_ENERGY.help
    assert families["phasewatt_run_idle_seconds"].type == "gauge"


def test_names_follow_the_practice_of_prometheus() -> None:
    """Base units as the last word, ``_total`` for counters only, one prefix."""
    units = {"joules", "watts", "seconds", "bytes", "ratio", "celsius", "hertz", "grams", "second"}
    for definition in metrics.served():
        name = definition.prometheus_name
        words = name.split("_")
        assert re.fullmatch(r"phasewatt(_[a-z0-9]+)+", name)
        assert (words[-1] == "total") == (definition.type is metrics.MetricType.COUNTER)
        if definition.unit not in ("", "{step}"):
            assert words[-2 if words[-1] == "total" else -1] in units, name
        assert definition.help and not definition.help.endswith(".")
    assert not {name for name in NAMES if "_milli" in name or "_kwh" in name}


def test_no_two_metrics_share_a_name() -> None:
    assert len(NAMES) == len(metrics.served())


def test_the_readme_lists_all_of_them() -> None:
    text = (EXPORTERS / "README.md").read_text(encoding="utf-8")
    assert metrics.table() in text, "put there what python -m exporters._shared.metrics prints"
