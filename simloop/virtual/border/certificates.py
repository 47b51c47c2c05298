"""The certificates of a TLS context, which a run does not use and so leaves unread.

To read 200 KB of them takes longer than a short run. A context that is used later reads them then.
"""

import functools
import os
import ssl
from collections.abc import Callable
from typing import Any

from simloop.virtual.border.answers import Answers, is_importing, stand_in

_UNREAD = "_simloop_unread"


def _reading(original: Callable[..., Any]) -> Callable[..., Any]:
    def read(_: Answers, context: Any, *args: Any, **kwargs: Any) -> None:
        paths = [*args, *kwargs.values()]
        # A text of certificates is too long for a path, about which `Path.exists` raises OSError.
        is_usual = all(path is None or (isinstance(path, str) and os.path.exists(path))  # noqa: PTH110
                       for path in paths)  # fmt: skip
        if is_importing() or not is_usual or not hasattr(context, "__dict__"):
            original(context, *args, **kwargs)
            return
        load = functools.partial(original, context, *args, **kwargs)
        vars(context).setdefault(_UNREAD, []).append(load)

    return stand_in(original, read)


def _using(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def use(context: Any, *args: Any, **kwargs: Any) -> Any:
        for load in vars(context).pop(_UNREAD, ()):
            load()
        return original(context, *args, **kwargs)

    return use


_NATIVE: Any = ssl.SSLContext.__base__
_LOADING = ("load_verify_locations", "set_default_verify_paths")
METHODS = tuple((_NATIVE, name, _reading(getattr(_NATIVE, name))) for name in _LOADING)
# Not exchanged with the others: the context may be used after its run.
for _name in ("wrap_socket", "wrap_bio", "get_ca_certs", "cert_store_stats"):
    setattr(ssl.SSLContext, _name, _using(getattr(ssl.SSLContext, _name)))
