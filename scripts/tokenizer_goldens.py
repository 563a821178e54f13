#!/usr/bin/env python3
"""Tokenizers of every kind that tokenizer/ knows, and the ids that the Hugging Face library gives with them.

  tokenizer_goldens.py write           rewrites tests/golden/tokenizer (needs the package tokenizers and Python 3.11,
                                       whose Unicode is 14)
  tokenizer_goldens.py check SHOAL     compares the program SHOAL with the library, live

The corpus has every character of Unicode 14 beside a letter, a digit, a blank, a combining mark and a line end; the
C++ test builds the same lines (tokenizer/unicode_corpus_test_util.h) and compares the first 8 digits of the SHA-256 of
each line's ids.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests/golden/tokenizer"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
VOCABULARY = 700
PER_LINE = 256


# ---- texts

def characters():
    for code in range(1, 0x110000):
        category = unicodedata.category(chr(code))
        if category not in ("Cn", "Cs", "Co"):
            yield chr(code)


def corpus():
    """Lines of PER_LINE characters each."""
    every = list(characters())
    for first in range(0, len(every), PER_LINE):
        yield "".join(f"{c} {c}a{c}1{c}\u0301{c}\n" for c in every[first:first + PER_LINE])


TEXTS = [
    "", " ", "a", "Hello, world!", "The quick brown fox jumps over the lazy dog.", "  two  blanks   three ",
    "line\nline\r\nline\n\n\nend\n", "\ttab\tand\x0bvertical\x0c", "it's we'll I'M they'RE don't 's 'S \u017f'\u017f",
    "1234567890 3.14159 1,000,000 \u0661\u0662\u0663 \u00bd\u00b2", "naïve café résumé Ångström",
    "nai\u0308ve cafe\u0301 A\u030angstro\u0308m", "привет мир, как дела?", "こんにちは世界。漢字かな交じり文",
    "你好,世界!这是一个测试。", "안녕하세요 세계", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "ไทยไม่มีช่องว่าง",
    "😀😃👩\u200d👩\u200d👧\u200d👦🏳️\u200d🌈🇩🇪", "if (x < 3) { return x->y[0] + 1; } // comment",
    "https://example.org/a?b=c&d=e#f", "<|endoftext|>", "before<|endoftext|>after", "<|endoftext|><|endoftext|> x",
    "<s>text</s>", "<|im_start|>user\nhi<|im_end|>",
    " <mask> ", "a<mask>b", "a  <mask>  b", "<|endoftext", "x" * 300, "ab" * 200 + " " + "\u00e9" * 100, " " * 50 + "x",
    "\n" * 40, "a\u00a0b\u2003c\u3000d\u2028e\u180ef", "\ufeffbom", "\u0000nul\u0001", "\U0001d400\U00020000\U000e0001",
    "\u1100\u1161\u11a8 \uac01", "\u0344\u0958\u2126\ufb01\u2460", "ﬁ ﬃ ½ ①", "▁under▁mark ▁", "<0x41><0x0A>",
    "MixedCASE camelCase snake_case kebab-case", "'''\"\"\"```", "a.b.c...", "\u0938\u094d\u0924\u0940", "end ",
]


# ---- tokenizers

def training_text():
    text = (ROOT / "README.md").read_text() + "".join(TEXTS * 3)
    for page in ("first_job.md", "glossary.md", "models.md"):
        text += (ROOT / "docs" / page).read_text()
    return [text]


def byte_level(tokenizer, special, **options):
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **options)
    tokenizer.train_from_iterator(training_text(), trainer)
    return tokenizer


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return byte_level(tokenizer, ["<|endoftext|>"])


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = split_then_bytes(LLAMA3)
    byte_level(tokenizer, ["<|begin_of_text|>", "<|end_of_text|>"])
    first = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                      special_tokens=[("<|begin_of_text|>", first)])])
    return tokenizer


def qwen2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split_then_bytes(QWEN2)
    byte_level(tokenizer, ["<|endoftext|>"])
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return tokenizer


def gpt4o():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Split(Regex(GPT4O), behavior="removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)])
    byte_level(tokenizer, ["<|endoftext|>"])
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, normalized=True)])
    return tokenizer


def with_bytes(tokenizer, special):
    """BPE of characters that falls back on bytes, as converted from SentencePiece."""
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - 256, special_tokens=special, show_progress=False,
                                  limit_alphabet=120)
    tokenizer.train_from_iterator(training_text(), trainer)
    content = json.loads(tokenizer.to_str())
    old, model = content["model"]["vocab"], content["model"]
    tokens = list(special) + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [token for token in sorted(old, key=old.get) if token not in special]
    model.update(vocab={token: i for i, token in enumerate(tokens)}, byte_fallback=True, fuse_unk=True,
                 unk_token="<unk>")
    for added in content["added_tokens"]:
        added["id"] = model["vocab"][added["content"]]
    return Tokenizer.from_str(json.dumps(content))


def llama2():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # only to train on words
    tokenizer = with_bytes(tokenizer, ["<unk>", "<s>", "</s>"])
    content = json.loads(tokenizer.to_str())
    content["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def metaspace():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer = with_bytes(tokenizer, ["<unk>", "<s>", "</s>"])
    content = json.loads(tokenizer.to_str())
    content["model"]["byte_fallback"] = False
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return tokenizer


KINDS = {make.__name__: make for make in (gpt2, llama3, qwen2, gpt4o, llama2, metaspace)}


# ---- goldens

def digest(ids):
    return hashlib.sha256(b"".join(i.to_bytes(4, "little") for i in ids)).hexdigest()[:8]


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def golden(tokenizer):
    texts = []
    for text in TEXTS:
        ids = encode(tokenizer, text)
        texts.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                      "plain": tokenizer.decode(ids)})
    framed = tokenizer.encode("a").ids
    return {"texts": texts, "framed": framed, "vocabulary": tokenizer.get_vocab_size(),
            "corpus": " ".join(digest(encode(tokenizer, line)) for line in corpus())}


def write():
    assert unicodedata.unidata_version == "14.0.0", "the corpus is that of Unicode 14: use Python 3.11"
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "texts.json").write_text(json.dumps(TEXTS, indent=0) + "\n")
    for name, make in KINDS.items():
        tokenizer = make()
        tokenizer.save(str(FOLDER / f"{name}.json"), pretty=False)
        (FOLDER / f"{name}.golden.json").write_text(json.dumps(golden(tokenizer)) + "\n")
        print(name, tokenizer.get_vocab_size())


# ---- live

def shoal_ids(shoal, file, text):
    done = subprocess.run([shoal, "tokenizer", "encode", "--tokenizer", file, "--json"], input=text.encode(),
                          capture_output=True, check=True)
    return json.loads(done.stdout)["tokens"]


def check_same(shoal, name, file):
    tokenizer = Tokenizer.from_file(str(file))
    bad = 0
    lines = TEXTS + list(corpus())[::8]  # the test of C++ has them all
    for line in lines:
        if shoal_ids(shoal, file, line) != encode(tokenizer, line):
            bad += 1
            print(f"{name}: other ids for {line[:60]!r}", file=sys.stderr)
    print(f"{name}: {len(lines) - bad} of {len(lines)} texts have the library's ids")
    return bad


def check_trained(shoal, folder):
    """`shoal tokenizer train` finds the tokens that the library's trainer finds, and the library reads its file."""
    text, file = folder / "text.txt", folder / "tokenizer.json"
    text.write_text(training_text()[0])
    subprocess.run([shoal, "tokenizer", "train", text, "--vocab", "1000", "-o", file], check=True, capture_output=True)
    ours = Tokenizer.from_file(str(file))
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = split_then_bytes(LLAMA3)
    trainer = trainers.BpeTrainer(vocab_size=1000, min_frequency=2, special_tokens=["<|endoftext|>"],
                                  show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    library.train_from_iterator([text.read_text()], trainer)
    same = ours.get_vocab() == library.get_vocab()
    merges = [json.loads(t.to_str())["model"]["merges"] for t in (ours, library)]
    print(f"trained: {ours.get_vocab_size()} tokens, the library's: {same}, its merges: {merges[0] == merges[1]}")
    bad = 0 if same and merges[0] == merges[1] else 1
    return bad + check_same(shoal, "trained", file)


def check(shoal):
    bad = sum(check_same(shoal, name, FOLDER / f"{name}.json") for name in KINDS)
    with tempfile.TemporaryDirectory() as folder:
        bad += check_trained(shoal, pathlib.Path(folder))
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        write()
    elif len(sys.argv) == 3 and sys.argv[1] == "check":
        sys.exit(check(sys.argv[2]))
    else:
        sys.exit(__doc__)
