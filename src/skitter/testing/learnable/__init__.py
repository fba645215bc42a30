"""Webs with something to learn, for judging what a crawler learns: they share no code with what is judged.

`hostile` is a site of real pages among six generators without end; `parameters` one whose URLs have forty
kinds of parameters, most of them needless. Each lists its own real pages, and is judged by the server's log.

    web = HostileWeb()
    with serving(web) as server:
        ...  # crawl server.seeds, asking server.nameserver for addresses, scope "domain"
        judged(web, server.log())
"""

from skitter.testing.learnable.hostile import HostileWeb
from skitter.testing.learnable.judging import Judged, judged
from skitter.testing.learnable.parameters import KINDS, Kind, ParameterWeb
from skitter.testing.learnable.serving import Serving, serving

__all__ = ["KINDS", "HostileWeb", "Judged", "Kind", "ParameterWeb", "Serving", "judged", "serving"]
