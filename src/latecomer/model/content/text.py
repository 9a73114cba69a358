"""Reading a content filter: `brand = "IBM" and price <= 1600 and kind in ("a", "b") and exists size`.

    text   := blank | term ("and" term)*
    term   := "true" | "false" | "exists" name | name op value | name "in" "(" [value ("," value)*] ")"
    op     := "=" | "!=" | "<" | "<=" | ">" | ">=" | "prefix" | "suffix" | "contains"
    value  := number | string in "double" or 'single' quotes | "true" | "false"
    name   := word, or anything between `backquotes`

Keywords are read in any case; a name that looks like one goes between backquotes. In all three kinds of
quotes a backslash escapes: backslash + quote, backslash + backslash, and the n, r, t and uXXXX of JSON. One
regular expression cuts tokens, one loop reads terms: time is linear in the text, and there is no recursion.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from latecomer.model.content.terms import (
    KEYWORDS,
    MAX_CONSTRAINTS,
    MAX_MEMBERS,
    MAX_TEXT,
    NOTHING,
    TEXT_OPS,
    Constraint,
    Op,
    Value,
    constraint_problem,
)
from latecomer.model.errors import FilterError

_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r\n]+)
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<quoted>`(?:[^`\\]|\\.)*`)
    | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
    | (?P<word>[A-Za-z_][A-Za-z0-9_.-]*)
    | (?P<op><=|>=|!=|=(?!=)|<(?!>)|>)
    | (?P<mark>[(),])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'", "`": "`", "/": "/"}
_HINTS = {
    "==": "write = to compare",
    "<>": "write != for 'is not'",
    "&": "write the word and between constraints",
    "|": "there is no 'or': make two subscriptions",
    '"': "a string is not closed",
    "'": "a string is not closed",
    "`": "a backquoted name is not closed",
}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def read_constraints(text: str) -> list[Constraint]:
    """The constraints of a text as written, in order; FilterError with the place where reading stopped."""
    if len(text) > MAX_TEXT:
        raise FilterError(
            text[:79] + "…", f"a content filter has at most {MAX_TEXT} characters, this one has {len(text)}"
        )
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _cut(text)
        self.next = 0

    def read(self) -> list[Constraint]:
        found: list[Constraint] = []
        if self.peek().kind == "end":
            return found
        while True:
            found.extend(self.term())
            if len(found) > MAX_CONSTRAINTS:
                raise FilterError(self.text[:79] + "…", f"a content filter has at most {MAX_CONSTRAINTS} constraints")
            token = self.take()
            if token.kind == "end":
                return found
            if _word(token) != "and":
                raise self.error(token, f"expected 'and' or the end, not {token.text!r}")

    def term(self) -> tuple[Constraint, ...]:
        first = self.peek()
        word = _word(first)
        if word == "true":
            self.take()
            return ()
        if word == "false":
            self.take()
            return NOTHING.constraints
        if word == "exists":
            self.take()
            return (self.build(first, self.name(), Op.EXISTS, None),)
        name = self.name()
        op = self.op()
        if op is Op.IN:
            return (self.build(first, name, op, self.members()),)
        return (self.build(first, name, op, self.value()),)

    def name(self) -> str:
        token = self.take()
        if token.kind == "quoted":
            return self.unquote(token)
        if token.kind != "word":
            raise self.error(token, f"expected an attribute name, not {token.text!r}")
        if _word(token) in KEYWORDS:
            raise self.error(token, f"{token.text!r} is a keyword; put a name like this between backquotes")
        return token.text

    def op(self) -> Op:
        token = self.take()
        word = _word(token)
        if token.kind == "op" or word == "in" or word in TEXT_OPS:
            return Op(word)
        raise self.error(token, f"expected an operator such as = or <= or prefix, not {token.text!r}")

    def value(self) -> Value:
        token = self.take()
        if token.kind == "string":
            return self.unquote(token)
        if token.kind == "number":
            plain = token.text.lstrip("+-").isdigit()
            return int(token.text) if plain else float(token.text)
        word = _word(token)
        if word in ("true", "false"):
            return word == "true"
        hint = "; put text between double quotes" if token.kind == "word" else ""
        raise self.error(token, f"expected a value, not {token.text!r}{hint}")

    def members(self) -> tuple[Value, ...]:
        token = self.take()
        if token.text != "(":
            raise self.error(token, "'in' needs its values between parentheses")
        if self.peek().text == ")":
            self.take()
            return ()
        values = [self.value()]
        while (token := self.take()).text == ",":
            values.append(self.value())
        if token.text != ")":
            raise self.error(token, f"expected ',' or ')', not {token.text!r}")
        if len(values) > MAX_MEMBERS:
            raise self.error(token, f"'in' takes at most {MAX_MEMBERS} values, here are {len(values)}")
        return tuple(values)

    def build(self, first: _Token, name: str, op: Op, value: Value | tuple[Value, ...] | None) -> Constraint:
        problem = constraint_problem(name, op, value)
        if problem is not None:
            raise self.error(first, problem)
        return Constraint(name, op, value)

    def unquote(self, token: _Token) -> str:
        inner = token.text[1:-1]
        if "\\" not in inner:
            return inner

        def replace(match: re.Match[str]) -> str:
            code = match[1]
            if len(code) == 5:
                return chr(int(code[1:], 16))
            if code not in _ESCAPED:
                at = token.at + 1 + match.start()
                raise FilterError(self.text, f"a backslash cannot stand before {code!r}; double it", position=at)
            return _ESCAPED[code]

        return _ESCAPE.sub(replace, inner)

    def peek(self) -> _Token:
        return self.tokens[self.next]

    def take(self) -> _Token:
        token = self.tokens[self.next]
        if token.kind != "end":  # the end stays where it is, so that nobody reads behind it
            self.next += 1
        return token

    def error(self, token: _Token, problem: str) -> FilterError:
        return FilterError(self.text, problem, position=token.at)


def _word(token: _Token) -> str:
    """The token as a keyword would be spelled; what is quoted is never a keyword."""
    return "" if token.kind in ("string", "quoted") else token.text.lower()


def _cut(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            hint = _HINTS.get(text[at : at + 2]) or _HINTS.get(text[at]) or f"cannot read {text[at]!r}"
            raise FilterError(text, hint, position=at)
        kind = match.lastgroup
        assert kind is not None
        if kind != "blank":
            tokens.append(_Token(kind, match[0], at))
        at = match.end()
    tokens.append(_Token("end", "the end", len(text)))
    return tokens
