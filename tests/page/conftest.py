from collections.abc import Iterator

import pytest
from browsing import Browser, browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for all tests of the page."""
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found
