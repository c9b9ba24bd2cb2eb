"""The node's power by Redfish, where PROBE_REDFISH_URL names the resource.

    PROBE_REDFISH_URL=https://bmc.example/redfish/v1/Chassis/1/Power    (or …/EnvironmentMetrics)
    PROBE_REDFISH_TOKEN=…      sent as X-Auth-Token
    PROBE_REDFISH_CA=FILE.pem  the controller's own certificate, where no authority signed it

Nothing is looked up and nothing is asked unless the address is given. A controller averages over up
to a minute: good for the total of a run, never for its phases. It is asked every ten seconds, each
time for a few seconds at most; the token is in no reason, no note and no file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from ...errors import SensorUnavailable
from ...units import NS_PER_S
from .._polled import PolledMeter, PolledSensor
from ._node_power import node_power

PERIOD_NS = 10 * NS_PER_S
LIMIT_S = 4.0
MOST_BYTES = 1 << 20
URL, TOKEN, CA = "PROBE_REDFISH_URL", "PROBE_REDFISH_TOKEN", "PROBE_REDFISH_CA"
_NO_TOKEN = f"{TOKEN} is missing or not accepted"


class RedfishSensor(PolledSensor):
    """Power of the whole node, as its controller says over HTTP."""

    name: ClassVar[str] = "redfish"

    def find(self) -> list[PolledMeter]:
        """One meter, if an address is given and answers."""
        url = os.environ.get(URL, "").strip()
        if not url:
            raise SensorUnavailable(
                f"{URL} is not set",
                f"{URL}=https://<controller>/redfish/v1/Chassis/<id>/Power, and {TOKEN}",
            )
        if not url.startswith(("http://", "https://")) or "@" in url.split("/")[2]:
            raise SensorUnavailable(
                f"{URL} is no http:// or https:// address without a password",
                f"the password's place is {TOKEN}",
            )
        try:
            redfish_watts(url)
        except (OSError, ValueError) as error:
            raise SensorUnavailable(f"Redfish: {error}", f"check {URL} and {TOKEN}") from None
        meter = PolledMeter(node_power("redfish", "redfish"), lambda: redfish_watts(url), PERIOD_NS)
        return [meter]


def redfish_watts(url: str) -> float:
    """The node's power in W by the resource at ``url``.

    Raises:
        OSError: no answer in time, or a refusal.
        ValueError: an answer that says nothing of power.
    """
    import http.client
    import urllib.error
    import urllib.request

    headers = {"Accept": "application/json"}
    if token := os.environ.get(TOKEN):
        headers["X-Auth-Token"] = token
    try:
        request = urllib.request.Request(url, headers=headers)
        with _opener().open(request, timeout=LIMIT_S) as answer:
            body = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        reason = _NO_TOKEN if error.code in (401, 403) else f"HTTP {error.code}"
        raise OSError(reason) from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        raise OSError(f"no answer ({getattr(error, 'reason', None) or error})") from None
    if len(body) > MOST_BYTES:
        raise ValueError("the answer is too long for a power reading")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the answer is no JSON") from None
    watts = _watts_of(document)
    if not 0 < watts <= 100_000:
        raise ValueError("the answer holds no power (PowerConsumedWatts or PowerWatts)")
    return watts


def _opener() -> Any:
    """An opener that hands the token to no other address than the given one."""
    import ssl
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    context = ssl.create_default_context(cafile=os.environ.get(CA) or None)
    proxies = urllib.request.ProxyHandler({})  # a controller lies in the node's own network
    handler = urllib.request.HTTPSHandler(context=context)
    return urllib.request.build_opener(NoRedirect, proxies, handler)


def _watts_of(document: object) -> float:
    """Of a Power or an EnvironmentMetrics resource; not a number where there is none."""
    if not isinstance(document, Mapping):
        return math.nan
    control = document.get("PowerControl")
    parts = control if isinstance(control, list) else [document.get("PowerWatts")]
    for part in parts:
        if isinstance(part, Mapping):
            value = part.get("PowerConsumedWatts", part.get("Reading"))
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
    return math.nan
