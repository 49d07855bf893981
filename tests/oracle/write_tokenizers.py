"""Writes tests/oracle/tokenizers.jsonl: tokenizers, and what the package `tokenizers`
(of Hugging Face; 0.23.3 when it was written last) makes of texts and ids with them;
and texts with their normal forms by python's unicodedata.

    python3 tests/oracle/write_tokenizers.py > tests/oracle/tokenizers.jsonl
"""
import json
import random
import subprocess
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders as D
from tokenizers import models as M
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from tokenizers import trainers as T

random.seed(7)
WORDS = (
    "the quick brown fox jumps over the lazy dog and the other dogs who don't care "
    "we'll see what they've said about it in 1984 or 2026; it's 3.14 (pi) "
)
OTHERS = (
    "Übergröße naïve café déjà vu Ångström 你好世界 今天天气很好。 こんにちは カタカナ ガギグ "
    "한국어 문장 Привет Ёлка ελληνικά ΣΊΣΥΦΟΣ हिन्दी में עברית العربية 😀👨‍👩‍👧‍👦🇩🇪 ﬁne ½ ² ™ "
    "Å ＡＢＣ １２３ x_y-z \t\n\u00a0\u3000"
)
CORPUS = [WORDS] * 20 + [OTHERS] * 4
BYTES = ["<0x%02X>" % i for i in range(256)]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ADDED = [
    AddedToken("<s>", special=True, normalized=False),
    AddedToken("</s>", special=True, normalized=False),
    AddedToken("[MASK]", lstrip=True, special=True, normalized=False),
    AddedToken("<|x|>", rstrip=True, normalized=False),
    AddedToken("Fox", normalized=True),
    AddedToken("ab", single_word=True, normalized=True),
]


def old_codes():
    """Characters up to Unicode 9: newer ones are not normalized by the package."""
    script = 'print join " ", grep { chr($_) =~ /\\p{Present_In: 9.0}/ } 0x20 .. 0xd7ff'
    text = subprocess.run(["perl", "-e", script], check=True, capture_output=True)
    return [int(c) for c in text.stdout.split()]


OLD = old_codes()


def draw():
    kind = random.random()
    if kind < 0.25:
        start = random.randrange(len(WORDS))
        return WORDS[start : start + random.randrange(60)]
    if kind < 0.5:
        return "".join(random.choice(OTHERS) for _ in range(random.randrange(25)))
    if kind < 0.7:
        parts = ["<s>", "</s>", "[MASK]", "<|x|>", "Fox", "fox", "ab", "abc", " ", "  ",
                 "▁", "<0x41>", "\n", "é", "e\u0301", "1", "the"]  # fmt: skip
        return "".join(random.choice(parts) for _ in range(random.randrange(12)))
    return draw_marks()


def draw_marks():
    ranges = [(0x20, 0x7F), (0x300, 0x370), (0xC0, 0x250), (0xAC00, 0xD7A4), (0x1100, 0x1200)]
    codes = []
    for _ in range(random.randrange(14)):
        if random.random() < 0.3:
            codes.append(random.choice(OLD))
        else:
            codes.append(random.randrange(*random.choice(ranges)))
    return "".join(map(chr, codes))


def train(model, norm, pre, decoder, size=300, **options):
    t = Tokenizer(model)
    if norm:
        t.normalizer = norm
    if pre:
        t.pre_tokenizer = pre
    if decoder:
        t.decoder = decoder
    kinds = {M.BPE: T.BpeTrainer, M.WordPiece: T.WordPieceTrainer,
             M.Unigram: T.UnigramTrainer, M.WordLevel: T.WordLevelTrainer}  # fmt: skip
    special = ["<unk>"] + options.pop("special", [])
    trainer = kinds[type(model)](
        vocab_size=size, show_progress=False, special_tokens=special, **options
    )
    t.train_from_iterator(CORPUS, trainer)
    t.add_tokens([a for a in ADDED if not a.special])
    t.add_special_tokens([a for a in ADDED if a.special])
    return t


def tokenizers():
    fallback = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    spaces = [D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]
    alphabet = P.ByteLevel.alphabet()
    level = P.ByteLevel(add_prefix_space=False, use_regex=False)
    few = dict(special=BYTES, size=400, limit_alphabet=50)
    yield "llama 2", train(
        M.BPE(**fallback), N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None,
        D.Sequence(spaces + [D.Strip(" ", 1, 0)]), **few)  # fmt: skip
    yield "mistral", train(
        M.BPE(**fallback), None, P.Metaspace("▁", prepend_scheme="first", split=False),
        D.Sequence(spaces + [D.Strip(" ", 1, 0)]), **few)  # fmt: skip
    yield "gemma", train(
        M.BPE(**fallback), N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"),
        D.Sequence(spaces), **few)  # fmt: skip
    yield "llama 3", train(
        M.BPE(ignore_merges=True), None,
        P.Sequence([P.Split(Regex(LLAMA3), "isolated"), level]), D.ByteLevel(),
        initial_alphabet=alphabet)  # fmt: skip
    yield "qwen 2", train(
        M.BPE(), N.NFC(), P.Sequence([P.Split(Regex(LLAMA3), "isolated"), level]),
        D.ByteLevel(), initial_alphabet=alphabet)  # fmt: skip
    for scheme in "always", "never":
        yield "metaspace " + scheme, train(
            M.BPE(unk_token="<unk>"), N.Sequence([N.NFKC(), N.Strip()]),
            P.Metaspace("▁", prepend_scheme=scheme),
            D.Metaspace("▁", prepend_scheme=scheme), limit_alphabet=60)  # fmt: skip
    yield "lower case", train(
        M.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]),
        P.Sequence([P.Whitespace(), P.Digits(True), P.Punctuation()]),
        D.BPEDecoder("</w>"), end_of_word_suffix="</w>")  # fmt: skip
    yield "bert", train(
        M.WordPiece(unk_token="<unk>"), N.BertNormalizer(), P.BertPreTokenizer(),
        D.WordPiece("##"))  # fmt: skip
    yield "unigram", train(
        M.Unigram(), N.NFKD(), P.Metaspace("▁"), D.Metaspace("▁"), unk_token="<unk>")
    yield "words", train(
        M.WordLevel(unk_token="<unk>"), N.Replace(Regex("[0-9]+"), "#"),
        P.Sequence([P.WhitespaceSplit(), P.Split(Regex("[^a-z]"), "contiguous")]), None)


def main():
    for name, t in tokenizers():
        text = t.to_str()
        encoded, decoded = [], []
        for i in range(60):
            words, special = draw(), i % 3 != 0
            t.encode_special_tokens = not special
            ids = t.encode(words, add_special_tokens=False).ids
            encoded.append([words, special, ids])
            if i % 2:
                ids = random.choices(sorted(t.get_vocab().values()), k=i % 9)
            back = t.decode(ids, skip_special_tokens=False)
            decoded.append([ids, back])
        case = {"name": name, "tokenizer": text, "encoded": encoded, "decoded": decoded}
        print(json.dumps(case, ensure_ascii=False))
    for form in "NFC", "NFD", "NFKC", "NFKD":
        texts = [draw_marks() for _ in range(150)]
        pairs = [[x, unicodedata.normalize(form, x)] for x in texts]
        print(json.dumps({"name": form, "normal": pairs}, ensure_ascii=False))


main()
