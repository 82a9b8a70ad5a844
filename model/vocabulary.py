"""Which pieces do words have? Two unigram vocabularies, Latin and Japanese, learnt from word counts and merged."""

import gzip
import io
import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from annai.embedders.subwords import WORD_START, units
from model.pairs import pair_files
from model.settings import Settings, Vocabulary

logger = logging.getLogger(__name__)

MIN_SCORE = -16.0
"""The score of a character that is in no counted word; lower than any learnt score."""
MAX_LETTER_SCORE = -9.0
"""The best score of a single Latin letter or digit, and of a word start alone."""
NAMES = ("▁c++", "▁c#", "▁f#")
NAME_SCORE = -8.0
"""About as likely as a common programming word."""

Scores = dict[str, float]


def build_vocabulary(data: Path, settings: Settings) -> Scores:
    """Piece → log likelihood. No piece spans two of the units into which the product cuts a text."""
    limits = settings.vocabulary
    latin = _unit_counts(data / "words_latin.tsv.gz", "en", limits)
    japanese = _unit_counts(data / "words_ja.tsv.gz", "ja", limits)
    learnt = {
        **learn_pieces(latin, limits.latin, limits.longest_piece_latin, limits.least_count_latin),
        **learn_pieces(japanese, limits.japanese, limits.longest_piece_japanese, limits.least_count_japanese),
    }
    # Without a limit, single letters and the word start are so likely that frequent words are cut into them.
    learnt.update({piece: min(score, MAX_LETTER_SCORE) for piece, score in learnt.items() if _is_letter(piece)})
    for counts in (latin, japanese):
        total = counts.total()
        for unit, count in counts.most_common(limits.whole_words):
            learnt.setdefault(unit, math.log(count / total))
    scores = {piece: score - limits.merge_penalty for piece, score in learnt.items()}
    for name in NAMES:
        scores.setdefault(name, NAME_SCORE)
    for character in sorted(_dictionary_characters(data, settings)):
        scores.setdefault(character, MIN_SCORE)
    if len(scores) > limits.most:
        raise ValueError(f"{len(scores)} pieces are more than [vocabulary] most = {limits.most}; learn fewer.")
    logger.info("%d pieces, %d of them learnt", len(scores), len(learnt))
    return scores


def learn_pieces(counts: Mapping[str, int], size: int, longest_piece: int, least_count: int) -> Scores:
    """A unigram vocabulary of about `size` pieces for counted units; all of these or none have a word start."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer  # only this step needs it

    kept = sorted(unit for unit, count in counts.items() if count >= least_count)
    trained = io.BytesIO()
    with TemporaryDirectory() as folder:
        file = Path(folder, "counts.tsv")
        # The trainer adds the word start itself, as the space before a word.
        lines = (f"{unit.removeprefix(WORD_START)}\t{counts[unit]}\n" for unit in kept)
        file.write_text("".join(lines), "utf-8")
        SentencePieceTrainer.train(
            input=str(file),
            input_format="tsv",
            model_writer=trained,
            model_type="unigram",
            vocab_size=size,
            hard_vocab_limit=False,
            max_sentencepiece_length=longest_piece,
            add_dummy_prefix=bool(kept) and kept[0].startswith(WORD_START),
            character_coverage=1.0,
            normalization_rule_name="identity",
            split_by_unicode_script=False,
            split_by_number=False,
            num_threads=2,
            bos_id=-1,
            eos_id=-1,
            minloglevel=1,
        )
    model = SentencePieceProcessor(model_proto=trained.getvalue())
    numbers = (number for number in range(model.get_piece_size()) if not model.is_unknown(number))
    return {model.id_to_piece(number): model.get_score(number) for number in numbers}


def write_vocabulary(scores: Mapping[str, float], path: Path) -> None:
    """Write one piece and its score on each line, with a tab between; the number of the line is the piece's id."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{piece}\t{score:.6f}\n" for piece, score in scores.items()), "utf-8")


def read_vocabulary(path: Path) -> Scores:
    """What `write_vocabulary` wrote, in the same order."""
    lines = (line.rsplit("\t", 1) for line in path.read_text("utf-8").split("\n") if line)
    return {piece: float(score) for piece, score in lines}


def _unit_counts(path: Path, language: str, settings: Vocabulary) -> Counter[str]:
    """How often each unit occurs, in documentation and in everyday language."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        words = {word: int(count) for word, _, count in (line.rstrip("\n").partition("\t") for line in lines)}
    total = sum(words.values()) * settings.general_share
    counts = Counter[str]()
    for word, count in [*words.items(), *_everyday_words(language, total, settings.general_words)]:
        for unit in units(word):
            if unit.startswith(WORD_START) == (language == "en") and len(unit) <= settings.longest_word:
                counts[unit] += count
    return counts


def _everyday_words(language: str, total: float, most: int) -> Iterator[tuple[str, int]]:
    """The most frequent words of wordfreq's list, with counts as in a text of `total` words."""
    if not total:
        return
    from wordfreq import get_frequency_dict  # 40 MB of data, needed only with general_share

    frequencies: Iterable[tuple[str, float]] = get_frequency_dict(language, "large").items()
    for word, frequency in sorted(frequencies, key=lambda entry: (-entry[1], entry[0]))[:most]:
        if count := int(frequency * total):
            yield word, count


def _is_letter(piece: str) -> bool:
    return piece == WORD_START or (len(piece) == 1 and next(units(piece), "").startswith(WORD_START))


def _dictionary_characters(data: Path, settings: Settings) -> set[str]:
    """Every Japanese character in the words of dictionaries."""
    words = (left for file in pair_files(data, settings) if file.source.kind == "word" for left, _ in file)
    found = (unit for word in words for unit in units(word) if not unit.startswith(WORD_START))
    return {character for unit in found for character in unit}
