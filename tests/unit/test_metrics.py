"""What Prometheus reads, read by the parser of its own library."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from latecomer.runtime.metrics import GAUGES, Counters, Histogram, StoreCounters, render

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: bytes) -> Samples:
    return {
        (sample.name.removeprefix("latecomer_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_every_metric_has_a_name_of_ours_and_says_what_it_is() -> None:
    counters = Counters()
    counters.drop("queue-full")
    counters.refuse("not-authorised")
    counters.internal_errors["send"] = 1
    counters.link("b2")
    counters.store = StoreCounters()
    families = list(text_string_to_metric_families(render(counters, dict.fromkeys(GAUGES, 1.0)).decode()))
    assert {family.name for family in families} >= {f"latecomer_{name}" for name in GAUGES}
    for family in families:
        assert family.name.startswith("latecomer_")
        assert family.documentation.endswith(".")
        assert family.samples, family.name
        assert family.type in ("counter", "gauge", "histogram", "summary")
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)


def test_what_is_counted_is_shown() -> None:
    counters = Counters(connections_opened=3, connections_closed=1, bytes_in=7, bytes_out=2**60)
    counters.publish_received[1] += 5
    counters.publish_delivered[2] += 4
    counters.drop("queue-full")
    counters.drop("queue-full", 2)
    counters.refuse("websocket-origin")
    counters.link("b2").frames_out += 9
    counters.link("b2").bytes_in += 10
    found = samples(render(counters, {"sessions": 12}))
    assert found["connections_opened_total", ()] == 3
    assert found["connections_closed_total", ()] == 1
    assert found["bytes_total", (("direction", "in"),)] == 7
    assert found["bytes_total", (("direction", "out"),)] == 2**60
    assert found["publish_received_total", (("qos", "1"),)] == 5
    assert found["publish_received_total", (("qos", "0"),)] == 0
    assert found["publish_delivered_total", (("qos", "2"),)] == 4
    assert found["dropped_total", (("reason", "queue-full"),)] == 3
    assert found["refused_total", (("reason", "websocket-origin"),)] == 1
    assert found["link_frames_total", (("direction", "out"), ("peer", "b2"))] == 9
    assert found["link_bytes_total", (("direction", "in"), ("peer", "b2"))] == 10
    assert found["sessions", ()] == 12


def test_a_store_is_counted_where_there_is_one() -> None:
    assert not [name for name, _ in samples(render(Counters(), {})) if name.startswith("store")]
    found = samples(render(Counters(store=StoreCounters(5, 4, 3, 7, 2)), {"store_events": 9}))
    assert {name: value for (name, _), value in found.items() if name.startswith("store")} == {
        "store_appended_total": 5,
        "store_refused_total": 4,
        "store_requests_served_total": 3,
        "store_request_hops_count": 3,
        "store_request_hops_sum": 7,
        "store_replayed_total": 2,
        "store_events": 9,
    }


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "new\nline", "é–☃", "}", ""])
def test_names_are_escaped(name: str) -> None:
    counters = Counters()
    counters.link(name).frames_in = 1
    assert samples(render(counters, {}))["link_frames_total", (("direction", "in"), ("peer", name))] == 1


def test_half_a_surrogate_pair_does_not_hide_the_metrics() -> None:
    counters = Counters(bytes_in=1)
    counters.link("\ud800")
    found = samples(render(counters, {}))
    assert ("link_frames_total", (("direction", "in"), ("peer", "\\ud800"))) in found


def test_a_gauge_without_a_sentence_is_our_mistake() -> None:
    with pytest.raises(KeyError):
        render(Counters(), {"nonsense": 1})


def test_histogram() -> None:
    histogram = Histogram((0.001, 0.01))
    for seconds in (0.0, 0.001, 0.002, 0.01, 5.0):
        histogram.observe(seconds)
    assert histogram.cumulative() == [("0.001", 2), ("0.01", 4), ("+Inf", 5)]
    assert math.isclose(histogram.sum_s, 5.013)


def test_histograms_are_shown() -> None:
    counters = Counters()
    counters.commits.observe(0.0015)
    counters.commits.observe(60)
    counters.loop_lag.observe(0.3)
    found = samples(render(counters, {}))
    assert found["commit_seconds_bucket", (("le", "0.001"),)] == 0
    assert found["commit_seconds_bucket", (("le", "0.002"),)] == 1
    assert found["commit_seconds_bucket", (("le", "+Inf"),)] == 2
    assert found["commit_seconds_count", ()] == 2
    assert found["commit_seconds_sum", ()] == 60.0015
    assert found["loop_lag_seconds_count", ()] == 1
