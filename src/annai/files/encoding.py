"""In which encoding are these bytes written? Bytes to text, with what Japanese and Western files need.

Certain signs come first (byte order marks, escape sequences, valid UTF-8), then what the text looks like in CP932 and
EUC-JP, and only then a guess. Line endings stay as they are, and the result can always be stored as UTF-8.
"""

import codecs
import re

from annai.errors import SkippedFile

BAD_SHARE = 0.001
"""Up to this share of a text may be broken before another encoding is tried."""
CONTROL_SHARE = 0.05
"""More control characters than this, and the file is no text."""
SAMPLE = 5_000
"""As many characters outside ASCII tell which encoding it is."""
SAMPLE_BYTES = 65_536

_REPLACEMENT = "\ufffd"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Tab, line feed, form feed, carriage return and escape (colours of a terminal) are found in texts.
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\f\r\x1b")
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")
_ISO_2022_JP = re.compile(rb"\x1b(?:\$[@B]|\$\(D|\([IJ])")
_ASCII = re.compile("[\x00-\x7f]+")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_JAPANESE_SIGNS = re.compile(
    "[\u3000-\u3015\u301c\u30fb\u30fc\uff01-\uff5e\u2015\u2018-\u201d\u2025\u2026\u2190-\u2193①-⑳○●◎□■△▲▽▼◇◆☆★※→×÷°]"
)
_LATIN = re.compile("[A-Za-z]")
# What Western European texts use beyond ASCII; in texts of other languages CP1252 yields signs such as ³, ¥ or þ.
_WESTERN = re.compile("[ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüÿŒœ¡¿«»“”„‘’–—…•€£©®™°§·\xa0]")
_COMMON_UTF_16 = re.compile(
    "[\t\n\f\r -~\u00a0-\u024f\u0370-\u052f\u2010-\u2027\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff9f]"
)


def decode(data: bytes) -> str:
    """The text that the bytes spell, without its byte order mark; raises `SkippedFile` if they are not a text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = _decode_most(data[len(mark) :], encoding)
            if text is not None and "\0" not in text and _is_text(text):
                return text
    if b"\0" in data:
        text = _decode_utf_16(data)
        if text is None:
            raise SkippedFile("binary file")
        return text
    if len(data) - len(data.translate(None, _CONTROLS)) > len(data) * CONTROL_SHARE:
        raise SkippedFile("binary file")
    if b"\x1b" in data and data.isascii() and _ISO_2022_JP.search(data):
        text = _decode_most(data, "iso2022_jp_ext")
        if text is not None:
            return text
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        text = _decode_broken_utf_8(data, error)
    text = text or _decode_japanese(data) or _decode_western(data) or _decode_by_guess(data)
    if text is None:
        raise SkippedFile("unknown encoding; save it as UTF-8 to have it indexed")
    # A guessed codec may yield what UTF-8 cannot hold.
    return text.encode("utf-8", "replace").decode().removeprefix("\ufeff")


def _is_text(text: str) -> bool:
    return len(_CONTROL_CHARACTERS.findall(text[: 40 * SAMPLE])) <= len(text) * CONTROL_SHARE


def _decode_most(data: bytes, encoding: str) -> str | None:
    """The text if next to nothing of it is broken; a character cut off at the end does not count."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
    bad = text.count(_REPLACEMENT) - text.endswith(_REPLACEMENT)
    return text if bad <= len(text) * BAD_SHARE and len(text) > 1 else None


def _decode_utf_16(data: bytes) -> str | None:
    """The text if zero bytes are there because every character has two bytes."""
    zeros = data[1::2].count(0), data[0::2].count(0)
    encodings = ["utf-16-le", "utf-16-be"]
    for encoding in encodings if zeros[0] >= zeros[1] else reversed(encodings):
        text = _decode_most(data, encoding)
        if text is None or "\0" in text:
            continue
        sample = text[: 4 * SAMPLE]
        if len(_COMMON_UTF_16.findall(sample)) >= 0.95 * len(sample):
            return text
    return None


def _decode_broken_utf_8(data: bytes, error: UnicodeDecodeError) -> str | None:
    """The text if it is UTF-8 that was cut off, or has a few bad bytes among many good characters."""
    text = data.decode("utf-8", "replace")
    bad = text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
    good = len(_ASCII.sub("", text)) - bad
    cut = error.reason == "unexpected end of data" and good > 0
    return text if cut or (bad <= len(data) * BAD_SHARE and good >= 10 * bad) else None


def _decode_japanese(data: bytes) -> str | None:
    """The text in CP932 or EUC-JP, if it then looks Japanese."""
    best, best_score = None, 0.0
    for encoding in ("cp932", "euc_jp", "euc_jis_2004"):
        text = _decode_most(data, encoding)
        score = _japanese_score(text) if text is not None else 0.0
        if score > best_score:
            best, best_score = text, score
    return best


def _japanese_score(text: str) -> float:
    """How much the characters outside ASCII look like Japanese prose, up to 1; 0 if they hardly do."""
    sample = _ASCII.sub("", text[: 40 * SAMPLE])[:SAMPLE].replace(_REPLACEMENT, "")
    if not sample:
        return 0.0
    kana = len(_KANA.findall(sample))
    # In EUC-JP the common kanji of JIS level 1 begin with the bytes B0 to CF.
    coded = (character.encode("euc_jp", "ignore") for character in sample if "\u4e00" <= character <= "\u9fff")
    common = sum(1 for code in coded if len(code) == 2 and 0xB0 <= code[0] <= 0xCF)
    score = (kana + common + len(_JAPANESE_SIGNS.findall(sample))) / len(sample)
    # Chinese and Korean bytes also spell common kanji, but never kana.
    if score < 0.7 or (kana == 0 and len(sample) > 20):
        return 0.0
    return score + kana / len(sample) / 100


def _decode_western(data: bytes) -> str | None:
    """The text in CP1252 if it is Latin letters with some accents: short texts give a guesser too little to go by."""
    text = data.decode("cp1252", "replace")
    sample = text[: 40 * SAMPLE]
    others = _ASCII.sub("", sample)
    western = len(_WESTERN.findall(others)) == len(others)
    return text if western and len(others) <= len(_LATIN.findall(sample)) / 3 else None


def _decode_by_guess(data: bytes) -> str | None:
    """The text in the likeliest of all other encodings, or else in CP1252 if most of it is readable so."""
    from charset_normalizer import from_bytes  # slow to load, and seldom needed

    guess = from_bytes(data[:SAMPLE_BYTES], cp_exclusion=["utf_7", "utf_16", "utf_32"]).best()
    if guess is not None:
        text = _decode_most(data, guess.encoding)
        if text is not None and not _CONTROL_CHARACTERS.search(text):
            return text
    text = data.decode("cp1252", "replace")
    readable = len(_LATIN.findall(text)) + len(re.findall(r"\s", text))
    return text if readable >= 0.7 * len(text) else None
