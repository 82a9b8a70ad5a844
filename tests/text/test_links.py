"""Which texts only lead elsewhere?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.text.links import link_share

LISTS = [
    '## What\'s next\n\n* Learn about [Secrets](/docs/secrets/)\n* Read [the design of Pods](/docs/pods/ "Pods")\n',
    "## 関連情報\n\n- [画像の最適化](/ja/images)\n- [キャッシュ][cache]\n",
    "See also\n--------\n\n- :ref:`Ray tasks <tasks>`\n- `The dashboard <https://example.org/d>`_\n",
    "- {ref}`serve-intro`\n- https://example.org/one\n- <https://example.org/two>\n",
]
TEXTS = [
    "## Secrets\n\nA Secret holds a small amount of data, such as a password. See [Pods](/pods) for more of that.\n",
    "A text without any link.",
    "",
    "`code` and `more code` in a sentence that says what both of them do.",
]


@pytest.mark.parametrize("text", LISTS)
def test_a_list_of_links_is_mostly_links(text: str) -> None:
    assert link_share(text) > 0.4


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_with_sentences_is_not(text: str) -> None:
    assert link_share(text) < 0.2


@given(st.text(alphabet="[]()`<>{}:/ ahtps.\n", max_size=200))
def test_it_is_a_share_of_any_text(text: str) -> None:
    assert 0 <= link_share(text) <= 1


@pytest.mark.parametrize("text", ["[" * 200_000, "`" * 200_000, "{{" * 100_000, "](" * 100_000, "`a<" * 60_000])
def test_marks_that_close_nothing_take_no_time(text: str) -> None:
    assert link_share(text) <= 1
