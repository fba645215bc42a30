"""On which line of a settings file something stands. TOML readers do not report it, so the text is searched."""

import re


def line_of(text: str, dotted: str) -> int:
    """The line of a key; 1 if it is written too oddly."""
    section, _, name = dotted.rpartition(".")
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = re.sub(r"[\s\"']", "", line.partition("#")[0])
        if bare.startswith("["):
            table = bare.strip("[]")
            if not section and table.partition(".")[0] == name:
                return number
        written = bare.partition("=")[0]
        spelt = f"{table}.{written}" if table else written
        if (
            spelt == dotted
            or spelt.startswith(f"{dotted}.")
            or (not table and written == section and name in line)
        ):
            return number
    return 1


def line_of_entry(text: str, entry: str, key: str) -> int:
    """The line of a key of "site 2" or "group cdn", else of the entry itself; 1 if it is written too oddly."""
    kind, _, which = entry.partition(" ")
    found = 1
    passed, table, inside = 0, "", False
    for number, line in enumerate(text.splitlines(), start=1):
        bare = re.sub(r"[\s\"']", "", line.partition("#")[0])
        if bare.startswith("["):
            header = bare.strip("[]")
            passed += bare == "[[site]]"
            begins = bare == "[[site]]" if kind == "site" else header in (f"group.{which}", which)
            mine = kind == "group" or passed == int(which)
            table = header.removeprefix("site.") if header != "site" else ""
            inside = mine and (begins or (kind == "site" and header.startswith("site.")))
            if begins and mine:
                found, table = number, ""
        elif inside and key:
            written = bare.partition("=")[0]
            spelt = f"{table}.{written}" if table else written
            if spelt == key or spelt.startswith(f"{key}.") or (written and key.startswith(f"{spelt}.")):
                return number
        elif found == 1 and re.split(r"[.=]", bare)[0] == kind:  # site = [{...}], group.cdn.hosts = [...]
            found = number
    return found
