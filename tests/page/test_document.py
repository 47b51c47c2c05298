"""The data of a page is JSON that its element can hold."""

import json

import pytest

from simloop.page.page import safe_json

MARKUP = '</script><script>forged = 1</script><img src=x onerror="forged = 1">\u2028{{data}}'


@pytest.mark.parametrize("text", [MARKUP, "\ud800 \U0001f600 <!--", "]]>\u2029&amp;"])
def test_json_in_a_page_comes_back_and_cannot_end_its_element(text: str) -> None:
    shown = safe_json({"text": text})
    assert json.loads(shown) == {"text": text}
    assert shown.isascii()
    assert not set("<>&") & set(shown)
