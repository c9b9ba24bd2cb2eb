"""Secrets out of what is stored, logged or printed.

A run's files are read by more people than its command line was meant for. Names say most of it
(``--api-key``, ``password``), known forms the rest (``ghp_…``, ``https://user:password@host``).
Names of language models look alike and stay: ``max_tokens``, ``pad_token``, ``key_dim``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

HIDDEN = "***"

_SECRET_WORDS = {
    *("password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets"),
    *("credential", "credentials", "authorization", "apikey", "jwt", "sshpass", "bearer", "otp"),
}
_SECRET_ENDS = (
    *("password", "passwd", "passphrase", "apikey", "secretkey", "accesskey", "privatekey"),
    *("authtoken", "accesstoken", "clientsecret"),
)
# Which keys are secret; all others (key_dim, sort_key, public_key) are not.
_OF_KEY = {
    *("api", "access", "private", "secret", "account", "auth", "encryption", "signing", "master"),
    *("license", "ssh", "openai", "anthropic", "wandb", "comet", "neptune", "hf", "aws", "azure"),
}
_OF_PASS = {
    *("db", "user", "smtp", "mysql", "admin", "root", "login", "http", "proxy", "ftp", "mail"),
    *("redis", "pg", "postgres", "registry"),
}
_OF_PIN = {"user", "card", "device", "sim", "token", "security"}
_OF_TOKENS = {"api", "access", "auth", "hf", "bearer", "refresh"}
# What a token of text is called.
_OF_TEXT = {
    *("pad", "eos", "bos", "unk", "mask", "sep", "cls", "class", "image", "img", "audio", "video"),
    *("special", "start", "end", "stop", "next", "prev", "first", "last", "per", "num", "n"),
    *("max", "min", "new", "register", "patch", "prompt", "extra", "word", "text", "input"),
    *("output", "target", "source", "blank", "think", "placeholder", "language", "lang", "task"),
    *("sot", "eot", "begin", "newline", "trigger", "delimiter", "by", "each", "every", "to"),
    *("visual", "mel", "tool", "eod", "fim", "pixel", "frame", "speech", "code"),
}
# The name of a thing about a secret that is none itself: password_file, secret_name.
_ABOUT = {
    *("file", "path", "dir", "env", "name", "var", "type", "length", "len", "count", "policy"),
    *("size", "ratio", "limit", "dim", "dropout", "rotation", "min", "max", "required"),
}
_USER = re.compile(r"[^:\s/]+:(?!\d+$)\S+")  # of containers it may be 1000:1000
_NO_VALUE = {"", "true", "false", "none", "null", "yes", "no", "on", "off", "auto", HIDDEN}


def redact_command(words: Sequence[str]) -> list[str]:
    """A command line without its secrets; as many words as before."""
    return list(_words(words))


def redact_config(value: Any) -> Any:
    """A value of JSON without its secrets: what secret keys hold, and secrets in its texts.

    A value that holds itself becomes one hidden entry.
    """
    try:
        return _without_secrets(value)
    except RecursionError:
        return {"config": HIDDEN}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            redact_text(key) if isinstance(key, str) else key: (
                _hidden(held, str(key)) if _is_secret(str(key)) else _without_secrets(held)
            )
            for key, held in value.items()
        }
    if isinstance(value, list | tuple):
        return (
            list(_words(value)) if _all_text(value) else [_without_secrets(item) for item in value]
        )
    return redact_text(value) if isinstance(value, str) else value


def redact_text(text: str) -> str:
    """A text (an error, a line of a log, a URL) without the secrets in it."""
    forms, url, user, header, pair, flag, value = _patterns()
    text = url.sub(rf"\1{HIDDEN}@", text)
    text = user.sub(rf"\1{HIDDEN}", text)
    text = header.sub(rf"\1{HIDDEN}", text)
    text = _without_values(flag, value, _without_values(pair, value, text))
    return forms.sub(HIDDEN, text)


def _words(words: Sequence[str]) -> Iterator[str]:
    owner = ""  # the option before, if it takes a secret
    owner_of_user = False  # it takes name:password, as curl's
    for word in words:
        name, sign, value = word.partition("=")
        is_option = word.startswith("-")
        if owner and not (is_option and _is_option(word) and not _looks_random(word)):
            yield word if _is_harmless(word, owner) else HIDDEN
        elif sign and _is_name(name) and _is_secret(name):
            yield word if _is_harmless(value, name) else f"{name}={HIDDEN}"
        elif owner_of_user and _USER.fullmatch(word):
            yield f"{word.partition(':')[0]}:{HIDDEN}"
        else:
            yield redact_text(word)
        owner_of_user = word in ("-u", "--user", "--proxy-user")
        owner = word if is_option and not sign and _is_secret(word) else ""


def _hidden(value: Any, key: str) -> Any:
    """What a secret key holds, however deep."""
    if isinstance(value, Mapping):
        return {inner: _hidden(held, key) for inner, held in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(held, key) for held in value]
    if value is None or isinstance(value, bool) or _is_harmless(str(value), key):
        return value
    return HIDDEN


def _without_values(names: re.Pattern[str], value: re.Pattern[str], text: str) -> str:
    """A text without the values that follow secret names."""
    parts, kept, position = [], 0, 0
    while match := names.search(text, position):
        position = match.end()  # a harmless name's value may be a name: "error: password=x"
        if not _is_secret(match[1]):
            continue
        held = value.match(text, position)
        if held is not None and not _is_harmless(held["value"], match[1]):
            parts += [text[kept : held.start("value")], HIDDEN]
            kept = position = held.end("value")
    return "".join([*parts, text[kept:]])


def _is_option(word: str) -> bool:
    return re.fullmatch(r"--?[A-Za-z][\w.-]*(=.*)?", word, re.DOTALL) is not None


def _looks_random(word: str) -> bool:
    """``-Zk93xQv7`` after ``--password`` is no option: those are letters or begin with ``--``."""
    return re.fullmatch(r"-(?!-)(?=.*\d)(?=.*[A-Za-z]).{6,}", word) is not None


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[-+]*[A-Za-z_][\w./-]*", text) is not None


def _all_text(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_harmless(value: str, name: str) -> bool:
    """Whether a secret name holds nothing that is one."""
    plain = value.strip().strip("\"'")
    if plain.lower() in _NO_VALUE or re.fullmatch(r"\$[A-Z_]+|\$\{\w+\}", plain):
        return True
    if not re.search(r"\w", plain):
        return True  # "unexpected token: }"
    # A PIN has four digits or more; `--pin 0-3` pins to cores.
    if _parts(name)[-1:] == ["pin"]:
        return not re.fullmatch(r"\d{4,12}", plain)
    # A token may be counted, a password never is.
    return _parts(name)[-1:] in (["token"], ["tok"]) and bool(
        re.fullmatch(r"-?\d{1,5}(\.\d*)?", plain)
    )


@functools.lru_cache(1024)
def _is_secret(name: str) -> bool:
    words = _parts(name)
    if not words or words[-1] in _ABOUT or words[0] == "no":
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in ("token", "tok"):
        return before not in _OF_TEXT
    if last == "tokens":
        return before in _OF_TOKENS
    if last == "pass":
        return not before or before in _OF_PASS or name.isupper()
    if last == "pin":
        return not before or before in _OF_PIN
    if last in ("cookie", "dsn"):
        return True
    if last == "auth":
        return not before or before in ("basic", "http", "proxy")
    keys = pairwise(words)
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or words[-1].endswith(_SECRET_ENDS)
        or any(what in _OF_KEY and key in ("key", "keys") for what, key in keys)
    )


def _parts(name: str) -> list[str]:
    """``hf_token``, ``--hf-token`` and ``hfToken`` in words."""
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    return [word.lower() for word in words]


@functools.cache  # compiled when first needed: importing phasewatt must stay fast
def _patterns() -> tuple[re.Pattern[str], ...]:
    forms = re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
        r"|https://hooks\.slack\.com/services/[\w/]+"
        r"|(?<![A-Za-z0-9])(?:"
        r"hf_[A-Za-z0-9]{20,}|sk-(?=[\w-]{0,100}\d)[\w-]{20,}|[rs]k_(?:live|test)_\w{10,}"
        r"|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
        r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
        r"|eyJ[\w-]{8,500}\.[\w-]{4,9999}\.[\w-]*|pypi-[\w-]{40,}|npm_\w{30,}|dop_v1_\w{20,}"
        r"|SG\.[\w-]{16,99}\.[\w-]{16,}|nvapi-[\w-]{20,}|gsk_\w{20,}|r8_\w{20,}|dckr_pat_[\w-]{20,}"
        r"|(?<=[?&]sig=)[\w%+/=-]{16,}|(?<=X-Amz-Signature=)\w{16,}"
        r")",
        re.DOTALL,
    )
    # Lengths are bounded: a long word must not take the square of its length.
    # Up to the last @ of the authority. A name alone is a secret if a machine has made it.
    url = re.compile(
        r"((?:(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{0,30}:|(?<![\w:/]))//)"
        r"(?:[^\s/'\"@:]{0,200}:[^\s/'\"]{0,500}|(?=[A-Za-z]{0,200}\d)[\w-]{16,200})@"
    )
    user = re.compile(
        r"((?<!\S)(?:-u|--user|--proxy-user)(?:\s{1,9}|=)['\"]?[^\s:/'\"]{1,200}:)"
        r"(?!\d+(?!\S)|\*\*\*)[^\s'\"]+"
    )
    header = re.compile(
        r"((?i:authorization)['\"]?\s{0,9}[:=]\s{0,9}['\"]?"
        r"(?:(?i:bearer|basic|token|digest)\s{1,9})?"
        r"|\b[Bb]earer\s{1,9}(?=\S{0,200}\d|\S{20}))[^\s'\",]+"
    )
    pair = re.compile(r"(?<!\w)([A-Za-z_][\w.-]{0,100})[\"']?\s{0,9}[=:]\s{0,9}")
    flag = re.compile(r"(?<![\w-])(--?[A-Za-z][\w.-]{0,100})[\"']?,?\s{1,9}(?!-)")
    value = re.compile(r"[\"']?(?P<value>(?<=\")[^\"]*(?=\")|(?<=')[^']*(?=')|[^\s\"'&;,)}\]]+)")
    return forms, url, user, header, pair, flag, value
