"""One line for each guarantee; the first that does not hold ends the script."""

import json
import os
import sys
import traceback

from proxy import Proxy

# 30 days: no test meets the end of a window.
WINDOW_MS = 2_592_000_000


def hold(*guarantees):
    """Runs the guarantees in order, with a proxy in front of the server."""
    proxy = Proxy(os.environ["TIDEGATE_URL"])
    for guarantee in guarantees:
        name = guarantee.__name__.replace("_", " ")
        proxy.taken()
        try:
            guarantee(proxy)
        except BaseException:
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)
            print("requests:", json.dumps(proxy.taken(), indent=2))
            sys.exit(1)
        print(f"ok {name}", flush=True)


def thrown(kind, call):
    """The error of that kind that a call raises; that it does is part of the guarantee."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
