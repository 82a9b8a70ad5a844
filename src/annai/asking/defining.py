"""Which term does a question want explained, and does a text say what it is?

「Xとは何ですか」 and "what is X used for" ask for X. A text explains it in a sentence (`X is a …`, `X とは…`), as the
term of a glossary (`X: …`, or a line of its own with what follows indented) or of a list of definitions.
"""

import re

from annai.definitions import lazy_pattern
from annai.text.tokens import STOP_WORDS

_ENGLISH = lazy_pattern(
    r"(?:what|who)(?:'s|\s+is|\s+are)\s+(?:an?\s+|the\s+)?(?P<is>.+?)(?:\s+(?:used\s+)?for)?|"
    r"what\s+(?:does|do)\s+(?:an?\s+|the\s+)?(?P<means>.+?)\s+(?:do|mean|stand\s+for)|"
    r"define\s+(?P<define>.+)|(?:definition|meaning)\s+of\s+(?:an?\s+|the\s+)?(?P<of>.+)"
)
_JAPANESE = lazy_pattern(
    r"(?P<term>[^はをがにでへ、。]+?)\s*(?:(?:とは|って)\s*(?:何|なに|どういう(?:意味|もの|こと))?|の(?:意味|定義)は?)"
    r"\s*(?:のこと)?\s*(?:です|でしょう|だ)?か?"
)
_END = " \t\r\n?？。.!！"

MAX_CHARACTERS, MAX_WORDS = 80, 4
"""A longer question asks for more, and a longer term is a description: its words are searched for one by one."""


def defined_term(question: str) -> str | None:
    """The term that a question wants explained; None if it asks something else."""
    question = question.strip(_END)
    if len(question) > MAX_CHARACTERS:
        return None
    for pattern in (_ENGLISH, _JAPANESE):
        if match := re.fullmatch(pattern.pattern, question, re.IGNORECASE):
            term = next(each for each in match.groups() if each).strip()
            words = term.lower().split()
            is_name = len(words) <= MAX_WORDS and not STOP_WORDS.intersection(words)
            return term if is_name else None
    return None


def asks_for(term: str, heading: str) -> bool:
    """Whether a heading is a question for the definition of the same term."""
    asked = defined_term(heading)
    return asked is not None and asked.casefold() == term.casefold()


def defining_pattern(term: str) -> re.Pattern[str]:
    """What a text that explains a term holds."""
    name = r"\s+".join(map(re.escape, term.split()))
    name = rf"[*_`\"“「『]{{0,3}}{name}(?:e?s)?[*_`\"”」』]{{0,3}}(?:[ \t]*[(（][^()（）\n]{{1,60}}[)）])?"
    begin = r"(?:^(?P<indent>[ \t]*)(?:[-*+>][ \t]+|:)?|(?<=[.!?。])[ \t]+)"
    says = r"(?:is|are)\s+(?:an?|the|any|one)\b|refers?\s+to\b|means?\b|stands?\s+for\b"
    entry = r"[ \t]*(?:[：—–]|[:-][ \t])[ \t]*\S|[ \t]*\n[ \t]*\n?(?:[ \t]*[:：][ \t]|(?P=indent)[ \t]{2,})\S"
    return re.compile(
        rf"{begin}(?:(?:an?|the)\s+)?{name}(?:\s+(?:{says})|{entry})|{name}\s*(?:とは|は[^。\n]{{1,100}}(?:です|である|ます)。)",
        re.IGNORECASE | re.MULTILINE,
    )
