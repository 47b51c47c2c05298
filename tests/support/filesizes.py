"""A limit to the size of files, as on a full disk."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def file_size_limit(most: int) -> Iterator[None]:
    """Let no file have more than `most` bytes, so that writes fail half way.

    No fixture: pytest's own report may go to a file, and is written before a fixture ends.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
