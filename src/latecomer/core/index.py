"""Filters by topic: which match a topic, which cover a filter, which a filter covers.

Filters without wildcards, the great majority, live in a dictionary; the others in a trie with one level per topic
level. All walks are iterative, so a deep topic cannot exhaust the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from latecomer.model.filters import Filter, filter_covers
from latecomer.model.topics import topic_covers


@dataclass(slots=True)
class _Node:
    children: dict[str, _Node] = field(default_factory=dict)
    filters: list[Filter] = field(default_factory=list)


def has_wildcard(topic_filter: str) -> bool:
    return "+" in topic_filter or "#" in topic_filter


ALONE = "\0"
"""Stands for the second level of a topic that has one only; no topic has such a level."""


def _head(topic: str) -> tuple[str, str]:
    """The first two levels."""
    first, slash, rest = topic.partition("/")
    return first, rest.partition("/")[0] if slash else ALONE


def strictly_covers(a: Filter, b: Filter) -> bool:
    """Whether `a` may stand for `b`. Of two filters that say the same in other words, only the smaller one may."""
    if a == b or _plainly_apart(a, b):
        return False
    return filter_covers(a, b) and (str(a) < str(b) or not filter_covers(b, a))


def _plainly_apart(a: Filter, b: Filter) -> bool:
    """Whether both ask for one value of the same attribute, and not for the same value: the common case of many
    clients that each want their own, told apart without a look at the rest."""
    if a.where is None or b.where is None:
        return False
    for one in a.where.constraints:
        if one.op == "=":
            for other in b.where.constraints:
                if other.op == "=" and other.attribute == one.attribute and other.value != one.value:
                    return True
    return False


@dataclass(slots=True)
class FilterIndex:
    """A set of filters that can be asked by topic."""

    _exact: dict[str, list[Filter]] = field(default_factory=dict)
    _heads: dict[str, dict[str, dict[str, None]]] = field(default_factory=dict)
    """The topics of `_exact` by their first two levels."""
    _wild: dict[Filter, None] = field(default_factory=dict)
    _root: _Node = field(default_factory=_Node)

    def add(self, filter: Filter) -> None:
        if not has_wildcard(filter.topic):
            same = self._exact.get(filter.topic)
            if same is None:
                same = self._exact[filter.topic] = []
                first, second = _head(filter.topic)
                self._heads.setdefault(first, {}).setdefault(second, {})[filter.topic] = None
            same.append(filter)
            return
        self._wild[filter] = None
        node = self._root
        for level in filter.topic.split("/"):
            below = node.children.get(level)
            if below is None:
                below = node.children[level] = _Node()
            node = below
        node.filters.append(filter)

    def remove(self, filter: Filter) -> None:
        if not has_wildcard(filter.topic):
            same = self._exact[filter.topic]
            same.remove(filter)
            if not same:
                del self._exact[filter.topic]
                self._remove_head(filter.topic)
            return
        del self._wild[filter]
        path = [self._root]
        levels = filter.topic.split("/")
        for level in levels:
            path.append(path[-1].children[level])
        path[-1].filters.remove(filter)
        for above, level in zip(reversed(path[:-1]), reversed(levels), strict=True):
            below = above.children[level]
            if below.children or below.filters:
                break
            del above.children[level]

    def match(self, topic: str) -> list[Filter]:
        """Filters whose topic part matches; their content part is not looked at."""
        found = list(self._exact.get(topic, ()))
        if not self._wild:
            return found
        # [MQTT-4.7.2-1]: a wildcard on the first level does not match a topic that begins with $.
        hidden = topic.startswith("$")
        nodes = [self._root]
        for depth, level in enumerate(topic.split("/")):
            below: list[_Node] = []
            for node in nodes:
                children = node.children
                wild = not (hidden and depth == 0)
                if wild and (rest := children.get("#")) is not None:
                    found.extend(rest.filters)
                if wild and (any_one := children.get("+")) is not None:
                    below.append(any_one)
                if (same := children.get(level)) is not None:
                    below.append(same)
            nodes = below
            if not nodes:
                return found
        for node in nodes:
            found.extend(node.filters)
            if (rest := node.children.get("#")) is not None:  # "a/#" matches "a"
                found.extend(rest.filters)
        return found

    def covering(self, filter: Filter) -> list[Filter]:
        """Filters that may stand for this one."""
        candidates = list(self._exact.get(filter.topic, ()))
        if self._wild:
            candidates += self._wild_candidates(filter.topic)
        return [other for other in candidates if strictly_covers(other, filter)]

    def covered(self, filter: Filter) -> list[Filter]:
        """Filters that this one may stand for."""
        if not has_wildcard(filter.topic):
            return [other for other in self._exact.get(filter.topic, ()) if strictly_covers(filter, other)]
        candidates: list[Filter] = []
        # Most topics are told apart by what stands before the first wildcard; "a/#" also covers "a".
        literal = re.split("[+#]", filter.topic, maxsplit=1)[0]
        for topic in self._below(filter.topic):
            if (topic.startswith(literal) or topic == literal[:-1]) and topic_covers(filter.topic, topic):
                candidates += self._exact[topic]
        candidates += self._wild_below(filter.topic)
        return [other for other in candidates if strictly_covers(filter, other)]

    def _below(self, pattern: str) -> Iterator[str]:
        """A superset of the topics without wildcards that a pattern covers: those with its first two levels."""
        first, second = _head(pattern)
        if first in ("+", "#"):
            heads = list(self._heads.values())
        else:
            heads = [self._heads[first]] if first in self._heads else []
        for head in heads:
            if first == "#" or second in ("+", "#"):
                for topics in head.values():
                    yield from topics
            else:
                yield from head.get(second, ())

    def _remove_head(self, topic: str) -> None:
        first, second = _head(topic)
        head = self._heads[first]
        del head[second][topic]
        if not head[second]:
            del head[second]
        if not head:
            del self._heads[first]

    def _wild_below(self, pattern: str) -> list[Filter]:
        """A superset of the wildcard filters whose topic part the pattern covers: where the pattern has a wildcard, the
        walk takes every branch."""
        nodes = [self._root]
        for level in pattern.split("/"):
            if level == "#":
                return self._subtree(nodes)
            if level == "+":
                nodes = [child for node in nodes for child in node.children.values()]
            else:
                nodes = [node.children[level] for node in nodes if level in node.children]
        return [filter for node in nodes for filter in node.filters]

    @staticmethod
    def _subtree(nodes: list[_Node]) -> list[Filter]:
        found: list[Filter] = []
        todo = list(nodes)
        while todo:
            node = todo.pop()
            found += node.filters
            todo.extend(node.children.values())
        return found

    def _wild_candidates(self, pattern: str) -> list[Filter]:
        """A superset of the wildcard filters whose topic part covers the pattern: a walk as in `match`, where the
        pattern's own wildcards are only met by wildcards. '#' at the end of the pattern is met by '#', or by '+/#'."""
        found: list[Filter] = []
        nodes = [self._root]
        for level in pattern.split("/"):
            below: list[_Node] = []
            for node in nodes:
                children = node.children
                if (rest := children.get("#")) is not None:
                    found.extend(rest.filters)
                if (any_one := children.get("+")) is not None:
                    below.append(any_one)
                if level not in ("+", "#") and (same := children.get(level)) is not None:
                    below.append(same)
            nodes = below
        for node in nodes:
            found.extend(node.filters)
            if (rest := node.children.get("#")) is not None:
                found.extend(rest.filters)
        return found
