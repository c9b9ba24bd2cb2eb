"""Forty secrets that must go, sixty harmless words that must stay."""

from __future__ import annotations

import pytest

from probe.redact import HIDDEN, redact_command, redact_config, redact_text

S = "Zk93xQv7LmT2pRw8"  # what must never be seen
L = S + "aB4cD6eF8gH0jK2m"
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{S}"

COMMANDS = [
    [f"--api-key={S}"],
    ["--password", S],
    ["--token", S],
    [f"TOK={S}"],
    [f"AWS_SECRET_ACCESS_KEY={S}"],
    ["--hf-token", f"hf_{L}"],
    ["--model", f"hf_{L}"],
    [f"sk-{L}"],
    [f"sk-proj-{L}"],
    [f"ghp_{L}"],
    [f"github_pat_{L}"],
    [f"glpat-{L}"],
    [f"https://u:{S}@h"],
    [f"--registry=https://u:{S}@h:5000/v2"],
    [f"postgresql://trainer:{S}@db/runs"],
    ["-H", f"Authorization: Bearer {S}"],
    ["--header", f"X-Api-Key: {S}"],
    ["--auth-header", JWT],
    [f"--jwt={S}"],
    ["AKIAZ93QV7LMT2PRW8XY"],
    [f"+trainer.logger.api_key={S}"],
    ["--wandbApiKey", S],
    ["curl", "--user", f"ann:{S}"],
    [f"NETRC_PASS={S}"],
    [f"DB_PASS={S}"],
    ["bash", "-c", f"TOK={S} python train.py --password {S}"],
    [f"http://h/x?a=1&access_token={S}&b=2"],
]
TEXTS = [
    f"401 for url: https://u:{S}@h/x",
    f"cannot connect: password={S} host=db",
    f'cannot run "train.py --password={S}"',
    f'{{"api_key": "{S}", "a": 1}}',
    f"Command '['curl', '--token', '{S}']' returned 1",
    f"headers: {{'Authorization': 'Basic {S}'}}",
    f"OSError: xoxb-{L} was refused",
    f"-----BEGIN RSA PRIVATE KEY-----\n{S}\n-----END RSA PRIVATE KEY-----",
]
CONFIGS = [
    {"wandb": {"key": {"api_key": S}}},
    {"credentials": {"user": "u", "value": S}},
    {"hfToken": S, "lr": 0.1},
    {"args": ["--password", S]},
    {"url": f"s3://k:{S}@bucket"},
]
MORE_COMMANDS = [
    ["--pin", "482913"],
    ["--user-pin=482913"],
    ["--bearer", S],
    ["--password", f"-{S}"],
    ["--password", f"two words {S}"],
    [f"--user=ann:{S}"],
    ["bash", "-c", f"curl -u ann:{S} https://h/x"],
    ["--otp=482913"],
]

INNOCENTS = [
    *("max_tokens=512", "tokenizer=gpt2", "pad_token_id=0", "--keyboard", "key_dim=64", "passes=3"),
    *("--pass-through", "--token-dropout=0.1", "pad_token=<pad>", "eos_token=</s>", "cls_token=x"),
    *("num_key_value_heads=8", "sort_key=length", "public_key=abc", "primary_key=id", "--key=loss"),
    *(
        "tokens_per_batch=4096",
        "--tokens=1000000",
        "two_pass=fast",
        "bypass=layer",
        "compass=north",
    ),
    *("passage=long", "--password-file=/run/pw", "--token-file=/run/token", "secret_name=db"),
    *("author=ann", "authors=ann", "--task-classification-of-many-long-names", "hf_hub=on"),
    *("disk-cache-directory-of-2026-run", "sk-learn", "--max-new-tokens=20", "next_token=greedy"),
    *("https://h:8080/a@b", "tcp://10.0.0.1:29500", "git@github.com:a/b.git", "ssh://git@h/x"),
    *("https://h/x?page=2&key=a", "lr=0.1", "data/tokens.bin", "--monkey=1", "keyframes=3"),
    *(
        "mask_token=[MASK]",
        "use_auth=true",
        "token_type=word",
        "loss=1e-3",
        "http://localhost:4318",
    ),
    *(
        "--sep-token=|",
        "--no-token",
        "--user=1000:1000",
        "image_token=<image>",
        "--key-padding-mask",
        "per_token=true",
        "passk=10",
    ),
    *("model.attention.key_dim=64", "/home/ann/secretary/data", "tokenize=true", "--top-k=50"),
]
INNOCENT_COMMANDS = [
    ["--token-dropout", "0.1"],
    ["--password-length", "12"],
    ["--key", "a.pem"],
    *(["--pin", "0-3"], ["--pin-memory", "2026"], ["--hub-token", "-lr", "0.1"]),
    *(["docker", "-u", "1000:1000"], ["bash", "-c", "docker run -u 1000:1000 i"]),
]
INNOCENT_TEXTS = [
    "KeyError: 'token'",
    "SyntaxError: unexpected token: }",
    "TypeError: got an unexpected keyword argument 'api_key'",
    "the bearer of this is a basic example",
]


def test_there_are_as_many_as_promised() -> None:
    assert len(COMMANDS) + len(TEXTS) + len(CONFIGS) == 40
    assert len(INNOCENTS) + len(INNOCENT_COMMANDS) + len(INNOCENT_TEXTS) >= 60


@pytest.mark.parametrize("words", [*COMMANDS, *MORE_COMMANDS], ids=str)
def test_a_command_keeps_no_secret(words: list[str]) -> None:
    command = redact_command(["train.py", *words, "--lr", "0.1"])
    line = " ".join(command)
    assert HIDDEN in line and not any(part in line for part in (S, "AKIAZ", "482913"))
    assert len(command) == len(words) + 3
    assert command[0] == "train.py" and command[-2:] == ["--lr", "0.1"]
    assert redact_command(command) == command


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_keeps_no_secret(text: str) -> None:
    redacted = redact_text(text)
    assert S not in redacted and HIDDEN in redacted
    assert redact_text(redacted) == redacted


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_config_keeps_no_secret(config: dict[str, object]) -> None:
    redacted = redact_config(config)
    assert S not in str(redacted) and HIDDEN in str(redacted)
    assert set(redacted) == set(config)


@pytest.mark.parametrize("word", INNOCENTS)
def test_what_is_harmless_stays(word: str) -> None:
    assert redact_command(["train.py", word, "x"]) == ["train.py", word, "x"]
    assert redact_text(f"failed with {word} at once") == f"failed with {word} at once"
    name, sign, value = word.partition("=")
    if sign and "://" not in word:
        assert redact_config({name: value}) == {name: value}


@pytest.mark.parametrize("words", INNOCENT_COMMANDS, ids=str)
def test_harmless_options_stay(words: list[str]) -> None:
    assert redact_command(words) == words


@pytest.mark.parametrize("text", INNOCENT_TEXTS)
def test_harmless_errors_stay(text: str) -> None:
    assert redact_text(text) == text


def test_types_of_a_config_stay() -> None:
    config = {"max_tokens": 512, "a": [1, "x", None], "b": {"c": (1.5, True)}, "token": 3, 7: "y"}
    assert redact_config(config) == config | {"b": {"c": [1.5, True]}}
    assert redact_config({"password": 1234, "use_auth_token": True}) == {
        "password": HIDDEN,
        "use_auth_token": True,
    }


def test_a_long_text_takes_no_time() -> None:
    import time

    for text in (
        "a" * 200_000,
        "a=" * 100_000,
        "://" * 60_000,
        "- " * 100_000,
        "sk-" * 60_000,
        "eyJ-" * 60_000,
        "token=$A " * 30_000,
        "'" * 200_000,
    ):
        began = time.process_time()
        redact_text(text)
        assert time.process_time() - began < 2.0
