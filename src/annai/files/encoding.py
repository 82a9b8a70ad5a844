"""Which text do these bytes encode? Detects the encodings that Japanese and Western files use.

First come signs that leave no doubt (byte order marks, escape sequences, valid UTF-8, or UTF-8 with a few bad bytes),
then what the text looks like in CP932 and EUC-JP, and only then a guess. Line endings do not change, and UTF-8 can
always hold the result.
"""

import codecs
import re

from annai.errors import SkippedFile

MAX_BAD_SHARE = 0.001
"""If more than this share of a text is broken, another encoding is tried."""
MAX_CONTROL_SHARE = 0.05
"""A file with a larger share of control characters is not a text."""
MIN_VALID_SHARE = 4
"""Text with this many valid continuation bytes for each bad byte is UTF-8: other encodings hardly ever look like it."""
MAX_STRAY_BYTES = 2
"""So few bytes outside ASCII tell nothing of an encoding."""
SAMPLE_CHARACTERS = 5_000
"""This many characters outside ASCII are enough to tell the encoding."""
SAMPLE_BYTES = 65_536
"""This many bytes are enough to guess it."""

_REPLACEMENT = "\ufffd"
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Texts may have tabs, line feeds, form feeds, carriage returns and escapes (terminal colours).
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\f\r\x1b")
_HIGH_BYTES = bytes(range(128, 256))
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")
_ISO_2022_JP = re.compile(rb"\x1b(?:\$[@B]|\$\(D|\([IJ])")
_ASCII = re.compile("[\x00-\x7f]+")
# In every Japanese encoding a word has bytes outside ASCII next to each other, or every second one.
_CLOSE_BYTES = re.compile(rb"[\x80-\xff].?[\x80-\xff]", re.DOTALL)
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_JAPANESE_SYMBOLS = re.compile(
    "[\u3000-\u3015\u301c\u30fb\u30fc\uff01-\uff5e\u2015\u2018-\u201d\u2025\u2026\u2190-\u2193①-⑳○●◎□■△▲▽▼◇◆☆★※→×÷°]"
)
_LATIN = re.compile("[A-Za-z]")
# What Western European texts use beyond ASCII. Other languages read as CP1252 give symbols such as ³, ¥ or þ.
_WESTERN = re.compile("[ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüÿŒœ¡¿«»“”„‘’–—…•€£©®™°§·\xa0]")
_COMMON_UTF_16 = re.compile(
    "[\t\n\f\r -~\u00a0-\u024f\u0370-\u052f\u2010-\u2027\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff9f]"
)


def decode(data: bytes) -> str:
    """The text without its byte order mark. Raises `SkippedFile` if the bytes are not a text."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            text = _decode_most(data[len(mark) :], encoding)
            if text is not None and "\0" not in text and _is_text(text):
                return text
    if b"\0" in data:
        text = _decode_utf_16(data)
        if text is None:
            raise SkippedFile("binary file")
        return text
    if len(data) - len(data.translate(None, _CONTROLS)) > len(data) * MAX_CONTROL_SHARE:
        raise SkippedFile("binary file")
    if b"\x1b" in data and data.isascii() and _ISO_2022_JP.search(data):
        text = _decode_most(data, "iso2022_jp_ext")
        if text is not None:
            return text
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        text = _decode_other(data, is_cut_off=error.reason == "unexpected end of data")
    if text is None:
        raise SkippedFile("unknown encoding", "save it as UTF-8 to index it")
    # A guessed codec may yield characters that UTF-8 cannot hold.
    return text.encode("utf-8", "replace").decode().removeprefix("\ufeff")


def _decode_other(data: bytes, *, is_cut_off: bool) -> str | None:
    """The text in broken UTF-8 or another encoding, whichever there is more evidence for."""
    broken = data.decode("utf-8", "replace")
    bad = broken.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
    valid = _ASCII.sub("", broken).replace(_REPLACEMENT, "")
    if (is_cut_off and valid) or len(valid.encode()) - len(valid) >= MIN_VALID_SHARE * bad:
        return broken
    text = _decode_japanese(data)
    if text is None and len(valid) >= bad:
        return broken
    text = text or _decode_western(data)
    if text is None and len(data) - len(data.translate(None, _HIGH_BYTES)) <= MAX_STRAY_BYTES:
        return broken
    return text or _decode_by_guess(data)


def _is_text(text: str) -> bool:
    return len(_CONTROL_CHARACTERS.findall(text[: 40 * SAMPLE_CHARACTERS])) <= len(text) * MAX_CONTROL_SHARE


def _decode_most(data: bytes, encoding: str) -> str | None:
    """The text if almost none of it is broken; a character cut off at the end does not count."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
    bad = text.count(_REPLACEMENT) - text.endswith(_REPLACEMENT)
    return text if bad <= len(text) * MAX_BAD_SHARE and len(text) > 1 else None


def _decode_utf_16(data: bytes) -> str | None:
    """The text if it has zero bytes because every character has two bytes."""
    zeros = data[1::2].count(0), data[0::2].count(0)
    encodings = ["utf-16-le", "utf-16-be"]
    for encoding in encodings if zeros[0] >= zeros[1] else reversed(encodings):
        text = _decode_most(data, encoding)
        if text is None or "\0" in text:
            continue
        sample = text[: 4 * SAMPLE_CHARACTERS]
        # Other text with a few zero bytes in it reads as rare kanji, not as Japanese.
        is_likely = not _is_utf_8_with_zeros(data) or (_KANA.search(sample) and _japanese_score(sample))
        if is_likely and len(_COMMON_UTF_16.findall(sample)) >= 0.95 * len(sample):
            return text
    return None


def _is_utf_8_with_zeros(data: bytes) -> bool:
    """Whether the bytes are UTF-8 with a few zeros; in ASCII that is stored as UTF-16, every second byte is zero."""
    rest = data.replace(b"\0", b"")
    if (len(data) - len(rest)) * 3 >= len(data) or len(rest) != len(rest.translate(None, _CONTROLS)):
        return False
    try:
        rest.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decode_japanese(data: bytes) -> str | None:
    """The text in CP932 or EUC-JP, if it looks Japanese in one of them."""
    best, best_score = None, 0.0
    if not _CLOSE_BYTES.search(data):
        return best
    for encoding in ("cp932", "euc_jp", "euc_jis_2004"):
        text = _decode_most(data, encoding)
        score = _japanese_score(text) if text is not None else 0.0
        if score > best_score:
            best, best_score = text, score
    return best


def _japanese_score(text: str) -> float:
    """How much the characters outside ASCII look like Japanese prose, up to about 1; 0 if they hardly do."""
    sample = _ASCII.sub("", text[: 40 * SAMPLE_CHARACTERS])[:SAMPLE_CHARACTERS].replace(_REPLACEMENT, "")
    if not sample:
        return 0.0
    kana = len(_KANA.findall(sample))
    # In EUC-JP the common kanji of JIS level 1 begin with the bytes B0 to CF.
    coded = (character.encode("euc_jp", "ignore") for character in sample if "\u4e00" <= character <= "\u9fff")
    common = sum(1 for code in coded if len(code) == 2 and 0xB0 <= code[0] <= 0xCF)
    score = (kana + common + len(_JAPANESE_SYMBOLS.findall(sample))) / len(sample)
    # Chinese and Korean bytes also decode to common kanji, but never to kana.
    if score < 0.7 or (kana == 0 and len(sample) > 20):
        return 0.0
    return score + kana / len(sample) / 100


def _decode_western(data: bytes) -> str | None:
    """The text in CP1252 if it is Latin letters with some accents: short texts are too little for a guess."""
    text = data.decode("cp1252", "replace")
    sample = text[: 40 * SAMPLE_CHARACTERS]
    others = _ASCII.sub("", sample)
    is_western = len(_WESTERN.findall(others)) == len(others)
    return text if is_western and len(others) <= len(_LATIN.findall(sample)) / 3 else None


def _decode_by_guess(data: bytes) -> str | None:
    """The text in the most likely of all other encodings, or else in CP1252 if most of it is readable."""
    from charset_normalizer import from_bytes  # slow to load, and seldom needed

    guess = from_bytes(data[:SAMPLE_BYTES], cp_exclusion=["utf_7", "utf_16", "utf_32"]).best()
    if guess is not None:
        text = _decode_most(data, guess.encoding)
        if text is not None and not _CONTROL_CHARACTERS.search(text):
            return text
    text = data.decode("cp1252", "replace")
    readable = len(_LATIN.findall(text)) + len(re.findall(r"\s", text))
    return text if readable >= 0.7 * len(text) else None
