"""What a URL and the words of its link look like, each between 0 and 1 and with a weight in the settings."""

from skitter.model import Level
from skitter.settings import ScheduleSettings

_PAGES = ("html", "htm", "xhtml", "php", "asp", "aspx", "jsp", "cgi")  # extensions that say nothing


class Features:
    """The strategy `features`."""

    def __init__(self, settings: ScheduleSettings) -> None:
        self._settings = settings
        self._words = tuple(word.lower() for word in settings.words)

    def place(self, url: str, _host: str, depth: int, anchor: str) -> tuple[Level, float]:
        """The level and score of a link."""
        return Level.NORMAL, sum(value for value, _ in self._weighed(url, depth, anchor))

    def terms(self, url: str, _host: str, depth: int, score: float) -> list[tuple[float, str]]:
        """What the score of a link is made of. The words of its link are not kept, so what is left is theirs."""
        found = self._weighed(url, depth, "")
        rest = score - sum(value for value, _ in found)
        if self._words and abs(rest - self._settings.feature_words) < 1e-6:
            found.append((rest, "a word of its link (schedule.words)"))
        return found

    def _weighed(self, url: str, depth: int, anchor: str) -> list[tuple[float, str]]:
        weights = self._settings
        path, _, query = url[url.find("/", 8) :].partition("?")
        folders = path.count("/") - 1
        name, _, extension = path.rpartition("/")[2].rpartition(".")
        is_page = not name or extension.lower() in _PAGES
        found = [
            (weights.feature_depth / (1 + depth), f"its depth, {depth}"),
            (weights.feature_path / (1 + folders), f"its path, in {folders} folders"),
        ]
        if not query:
            found.append((weights.feature_query, "it has no query"))
        if is_page:
            found.append((weights.feature_extension, "its extension, none or that of a page"))
        if url.startswith("https:"):
            found.append((weights.feature_https, "https"))
        if self._words and self._says(f"{path}?{query}".lower()):
            found.append((weights.feature_words, "a word of its URL (schedule.words)"))
        elif anchor and self._says(anchor.lower()):
            found.append((weights.feature_words, "a word of its link (schedule.words)"))
        return found

    def _says(self, text: str) -> bool:
        return any(word in text for word in self._words)
