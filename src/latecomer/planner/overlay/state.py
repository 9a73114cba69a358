"""From a problem and a configuration to the arrays of the kernels."""

from __future__ import annotations

import numpy as np

from latecomer.planner.overlay.problem import Configuration, OverlayProblem
from latecomer.planner.overlay.state_kernels import Case, State, begin


def case_of(problem: OverlayProblem) -> Case:
    parents, depths, rows = problem.trees
    start, wanting = problem.by_topic
    starts, ends = problem.fingers
    measured = problem.delays is not None
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    into = np.zeros(len(starts), np.int64)
    into[1:] = np.cumsum(np.bincount(ends, minlength=len(starts) - 1))
    rtt = np.zeros((1, 1), np.int64) if problem.delays is None else problem.delays * problem.delay_weight
    return Case(
        roots=problem.roots,
        row=rows,
        parent=parents,
        depth=depths,
        published=problem.counts,
        relay=problem.relay_weight,
        delay=0 if measured else problem.delay_weight,
        first=problem.first,
        wanted=problem.wanted,
        start=start,
        wanting=wanting,
        measured=measured,
        rtt=rtt,
        edge=problem.edges if measured else np.zeros((1, 1), np.int32),
        fingers=starts,
        ends=ends,
        into=into,
        incoming=np.argsort(ends, kind="stable"),
        origin=owners,
    )


def state_of(case: Case, configuration: Configuration) -> State:
    topics, count = len(case.roots), len(configuration)
    work = np.zeros((4, count), np.int64)
    state = State(
        place=configuration.astype(np.int64),
        who=np.zeros(count, np.int64),
        role=np.zeros((topics, count), np.uint8),
        price=np.zeros((topics, count), np.int64),
        alone=np.zeros((topics, count), np.int32),
        burden=np.zeros(count, np.int64),
        below=work[0],
        only=work[1],
        held=work[2],
        top=work[3],
        flow=np.zeros(len(case.ends), np.int64),
    )
    begin(case, state)
    return state
