"""Access control: by Host header, by token, and never for other sites' pages.

A page on the internet that a user of this machine has open must not read the dashboard, though it
listens on loopback: a foreign Host header (DNS rebinding) and requests that another site made are
refused. All other requests need the token, if there is one; on addresses other than loopback there
must be one.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from flask import Flask, Response, request

from probe.errors import UsageError
from probe.host_names import is_loopback, names_this_server

from .wrong_tokens import WrongTokens

_COOKIE_DAYS = 30


@dataclass(frozen=True, slots=True)
class Access:
    """Where to listen, and what guards the server.

    ``allowed`` are further names by which a proxy or another machine may call this one.

    Raises:
        UsageError: other than loopback without a token; a port that is none.
    """

    host: str = "127.0.0.1"
    port: int = 8050
    token: str | None = None
    allowed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise UsageError(f"port {self.port}: 1 to 65535, or 0 for any free one")
        if self.token is not None and not self.token.strip():
            raise UsageError("the token is empty: choose one, or leave --token out")
        if self.token is None and not is_loopback(self.host):
            raise UsageError(
                f"{self.host} can be reached from other machines: give a token "
                "(--token-file or PROBE_TOKEN)"
            )

    @property
    def cookie(self) -> str:
        """Cookies know no port: two dashboards of one machine must not share theirs."""
        return f"phasewatt-{self.port}"

    def knows(self, host: str) -> bool:
        """Whether a Host header means this server."""
        return names_this_server(host, self.host, self.allowed)

    def matches(self, given: str | None) -> bool:
        """Whether a text is the token, compared in constant time."""
        return (
            self.token is not None
            and given is not None
            and hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())
        )


def guard(server: Flask, access: Access, base: str) -> None:
    """Check every request before anything else, and add security headers to every answer."""
    wrong = WrongTokens()

    @server.before_request
    def admit() -> Any:
        if not access.knows(request.headers.get("Host", "")):
            return refusal(403, "this server is not known by that name: give it with --allow-host")
        if _from_elsewhere():
            return refusal(403, "another site asked for this")
        if access.token is None or any(map(access.matches, _kept_tokens(access))):
            return None
        if access.matches(request.args.get("token")):
            return _welcome(access, base)
        if any(_kept_tokens(access)) or request.args.get("token"):
            wait_s = wrong.add()
            if wait_s:
                response = refusal(429, f"too many wrong tokens: try again in {wait_s} s")
                response.headers["Retry-After"] = str(wait_s)
                return response
        return refusal(
            401, "a token is needed: ?token=… in the address, or Authorization: Bearer …"
        )

    @server.after_request
    def harden(response: Response) -> Response:
        headers = response.headers
        headers.setdefault("X-Content-Type-Options", "nosniff")
        headers.setdefault("X-Frame-Options", "DENY")
        headers.setdefault("Referrer-Policy", "same-origin")
        if response.mimetype == "text/html":
            headers.setdefault("Content-Security-Policy", server.config["CSP"]())
        # Scripts change only when another version is installed.
        suites = request.path.startswith(f"{base}_dash-component-suites/")
        headers.setdefault("Cache-Control", "private, max-age=600" if suites else "no-store")
        return response


def is_own_page() -> bool:
    """Whether a page of this very server sent the request, which :func:`guard` has let in.

    Browsers send Origin with every POST; who has no browser has `probe tag`.
    """
    origin = urlsplit(request.headers.get("Origin", ""))
    own = origin.scheme in ("http", "https") and origin.netloc == request.headers.get("Host")
    return own and request.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"


def refusal(code: int, why: str) -> Response:
    """An error response of one line of text."""
    response = Response(f"{why}\n", code, mimetype="text/plain")
    if code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _from_elsewhere() -> bool:
    site = request.headers.get("Sec-Fetch-Site", "none")
    if site not in ("none", "same-origin"):
        # A link on another page may lead here; its scripts and forms may not.
        return request.method != "GET" or request.headers.get("Sec-Fetch-Mode") != "navigate"
    origin = request.headers.get("Origin")
    if origin is None or request.method in ("GET", "HEAD"):
        return False
    return urlsplit(origin).netloc != request.headers.get("Host")


def _kept_tokens(access: Access) -> tuple[str | None, str | None]:
    """The tokens that a request brings along: of its header and of its cookie."""
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    bearer = given.strip() if kind.lower() == "bearer" else None
    return bearer, request.cookies.get(access.cookie)


def _welcome(access: Access, base: str) -> Response:
    """Keep the token in a cookie and take it out of the address.

    With a page, not a redirect: after a link from another site, the browser sends a strict cookie
    only with requests that come from a page of this server.
    """
    rest = [(key, value) for key, value in request.args.items(multi=True) if key != "token"]
    # Quoted: browsers take a backslash for a slash, and "//name" for another site.
    where = "/" + quote(request.path.lstrip("/")) + (f"?{urlencode(rest)}" if rest else "")
    target = escape(where, quote=True)
    response = Response(
        f"<!doctype html><html lang='en'><title>phasewatt</title>"
        f"<meta http-equiv='refresh' content='0;url={target}'><a href='{target}'>go on</a>",
        mimetype="text/html",
    )
    assert access.token is not None
    response.set_cookie(
        access.cookie,
        access.token,
        max_age=_COOKIE_DAYS * 86400,
        path=base,
        httponly=True,
        samesite="Strict",
        secure=request.is_secure,
    )
    return response
