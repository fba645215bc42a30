"""RFC 9309: what a robots.txt permits, and what applies when it cannot be read. All of it is pure.

`robots_rules` reads a file once and answers for any number of URLs; `judge` says what one answer to a
robots.txt request means: what is in force from now on, and how long the host has to wait. In the order of
work:

    answer.py    an Outcome becomes a RobotsCopy, a hop to follow, or a host that waits
    reading.py   a file becomes the rules and delays of the group that applies to us
    matching.py  which rule decides about a URL, paths normalised (2.2.2), and what else the rules ask for

The semantics are those of Google's parser and matcher, which site owners test with: misspelt directives, a
missing colon and odd line ends are accepted, the longest rule decides, Allow wins a tie.
"""

from skitter.robots.answer import RobotsAnswer, RobotsVerdict, judge, rules_in_force
from skitter.robots.matching import RobotsLine, RobotsRules, path_of
from skitter.robots.reading import MAX_SIZE, product_token, robots_rules, valid_product_token

__all__ = [
    "MAX_SIZE",
    "RobotsAnswer",
    "RobotsLine",
    "RobotsRules",
    "RobotsVerdict",
    "judge",
    "path_of",
    "product_token",
    "robots_rules",
    "rules_in_force",
    "valid_product_token",
]
