"""Language tags as ISO 639-3 codes, which Common Crawl's index uses."""

from functools import lru_cache

# ISO 639-1 and the ISO 639-3 code that means the same, written together.
_CODES = """
aaaar ababk aeave afafr akaka amamh anarg arara asasm avava ayaym azaze babak bebel bgbul bibis bmbam bnben bobod brbre
bsbos cacat ceche chcha cocos crcre csces cuchu cvchv cycym dadan dedeu dvdiv dzdzo eeewe elell eneng eoepo esspa etest
eueus fafas ffful fifin fjfij fofao frfra fyfry gagle gdgla glglg gngrn guguj gvglv hahau heheb hihin hohmo hrhrv hthat
huhun hyhye hzher iaina idind ieile igibo iiiii ikipk ioido isisl itita iuiku jajpn jvjav kakat kgkon kikik kjkua kkkaz
klkal kmkhm knkan kokor krkau kskas kukur kvkom kwcor kykir lalat lbltz lglug lilim lnlin lolao ltlit lulub lvlav mgmlg
mhmah mimri mkmkd mlmal mnmon mrmar msmsa mtmlt mymya nanau nbnob ndnde nenep ngndo nlnld nnnno nonor nrnbl nvnav nynya
ococi ojoji omorm orori ososs papan pipli plpol pspus ptpor quque rmroh rnrun roron rurus rwkin sasan scsrd sdsnd sesme
sgsag shhbs sisin skslk slslv smsmo snsna sosom sqsqi srsrp ssssw stsot susun svswe swswa tatam tetel tgtgk ththa titir
tktuk tltgl tntsn toton trtur tstso tttat twtwi tytah uguig ukukr ururd uzuzb veven vivie vovol wawln wowol xhxho yiyid
yoyor zazha zhzho zuzul
"""
_LONG = {pair[:2]: pair[2:] for pair in _CODES.split()}
_KNOWN = frozenset(_LONG.values())


@lru_cache(1 << 10)
def iso_639_3(tag: str) -> str | None:
    """The code of a language tag such as en-GB; null for none, and for what is no usual language."""
    first = tag.strip().replace("_", "-").partition("-")[0].lower()
    return _LONG.get(first) or (first if first in _KNOWN else None)
