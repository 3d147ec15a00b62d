"""What schemathesis has to know about us."""

import os

import schemathesis

# Names that are there, one of them deleted: of those that are made up, hardly any would be.
NAMESPACES = ["email", "email", os.environ["TIDEGATE_NAMESPACE_DELETED"]]
IDENTIFIERS = ["user-1", "premium_*"]

# Longer texts are left alone: they are there to try the bounds.
LENGTH_MAX = 100


def _whole(value):
    """Numbers without a fraction, written without one.

    A JSON Schema takes 5.0 for an integer. The server does not: it reads numbers as they are
    written, because a float cannot hold all of them.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return value


def _known(text, names):
    """One of the names instead of most texts; always the same instead of the same text."""
    if not isinstance(text, str) or not 0 < len(text) <= LENGTH_MAX:
        return text
    turn = sum(map(ord, text)) % (len(names) + 1)
    return names[turn] if turn < len(names) else text


def _met(value):
    """The same body, about something that is there."""
    if isinstance(value, list):
        return [_met(item) for item in value]
    if not isinstance(value, dict):
        return value
    known = {"namespace": NAMESPACES, "identifier": IDENTIFIERS}
    return {name: _known(item, known.get(name, [])) for name, item in value.items()}


@schemathesis.hook
def map_body(context, body):
    return _met(_whole(body))
