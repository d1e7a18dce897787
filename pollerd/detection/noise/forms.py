"""Noise by form: relative times, view counters and times taken, which change by themselves, in many languages.

A form is hidden wherever it occurs in a page, once it was seen to differ: the age of a post is the same noise in a new
post. What is hidden is the phrase alone, `3 minutes ago`, and all else stays byte for byte. So only a difference
between two phrases of one form is no difference; one that comes or goes still is one.

Patterns are tried only in lines that have a word of their language. All repetitions are bounded, so that time is linear
in the size of any page.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from pollerd.detection.edits import unmatched
from pollerd.detection.noise.templates import MARK, MARK_END
from pollerd.texts import N_, _


class NoiseForm(StrEnum):
    """A form of noise."""

    AGO = "relative time"
    """`3 minutes ago`, `vor 3 Minuten`, `just now`; `yesterday` by itself."""
    VIEWS = "view counter"
    """`1,234 views`, `Besucher heute: 532`: how often a page was looked at, or by how many."""
    TOOK = "time taken"
    """`Page generated in 0.034 s`."""

    @property
    def in_words(self) -> str:
        """The form as pages name it."""
        return _(_FORMS[self])


_FORMS = {
    NoiseForm.AGO: N_("relative time"),
    NoiseForm.VIEWS: N_("view counter"),
    NoiseForm.TOOK: N_("time taken"),
}


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A pattern for lines with one of the words, in lower case."""

    words: tuple[str, ...]
    text: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """What it looks like."""
        return compiled(self.text)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Returns a pattern that ignores case, compiled when it is first needed: most languages never are."""
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


def _phrase(words: str, pattern: str) -> _Phrase:
    return _Phrase(tuple(words.split("|")), pattern)


# Relative times. In each language: its words, what follows or precedes them, units, small numbers and "about" in words.

_NOT_IN_WORD = r"(?![^\W\d_])"
_FEW = r"\d(?<![\w.,:/]\d)\d{0,3}+(?:[.,]\d)?"


def _before(words: str, lead: str, near: str, few: str, units: str) -> _Phrase:
    """Returns a phrase such as `vor 3 Minuten`."""
    amount = rf"(?:(?:{_FEW}|{few}) ?)"
    more = rf"(?:,? (?:and |und |et |y |e )?{_FEW} ?(?:{units}){_NOT_IN_WORD})?"
    return _phrase(words, rf"(?<!\w)(?:{lead}) (?:(?:{near}) ?)?{amount}(?:{units}){_NOT_IN_WORD}{more}")


def _after(words: str, tail: str, near: str, few: str, units: str, *, alone: bool = False) -> _Phrase:
    """Returns a phrase such as `3 minutes ago`; `alone`: a unit needs no number."""
    amount = rf"(?:(?:{_FEW}|(?<!\w)(?:{few})) ?){'?' if alone else ''}"
    more = rf"(?:,? (?:and |und |en |i |и |e )?{_FEW} ?(?:{units}){_NOT_IN_WORD}){{0,2}}"
    start = r"(?<![^\W\d_])" if alone else ""
    about = rf"(?:(?<!\w)(?:{near}) )?"
    return _phrase(words, rf"{about}{amount}{start}(?:{units}){_NOT_IN_WORD}{more} ?(?<!\w)(?:{tail}){_NOT_IN_WORD}")


_CJK_FEW = r"(?<![\d.,])\d{1,4}+"
_AGO: tuple[_Phrase, ...] = (
    _after(
        "ago",
        "ago",
        r"about|over|almost|around|approximately|approx\.|nearly|less than|more than|just|~",
        r"an?|one|two|three|four|five|six|seven|eight|nine|ten|(?:a )?few|several|a couple(?: of)?|half an|some",
        r"s|secs?\.?|seconds?|m|mins?\.?|minutes?|h|hrs?\.?|hours?|d|days?|w|wks?\.?|weeks?|mos?|mths?\.?|months?"
        r"|y|yrs?\.?|years?|moments?|while",
        alone=True,
    ),
    _phrase("just now|moment ago", r"(?<!\w)(?:just now|right now(?= ?$)|a moment ago)(?!\w)"),
    _before(
        "vor ",
        "vor",
        r"etwa|ca\.|circa|ungefähr|rund|über|mehr als|weniger als|knapp|fast|gut",
        r"eine[mr]?|ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|wenigen|einigen|mehreren|ein paar"
        r"|einer halben|einem halben",
        r"s|sek\.?|sekunden?|min\.?|minuten?|std\.?|h|stunden?|tag(?:e|en)?"
        r"|d|wochen?|mon\.|monat(?:e|en)?|jahr(?:e|en)?"
        r"|augenblick(?:en)?|momenten?",
    ),
    _phrase("gerade eben|soeben|eben gerade|vor kurzem", r"(?<!\w)(?:gerade eben|soeben|eben gerade|vor kurzem)(?!\w)"),
    _before(
        "il y a",
        "il y a",
        r"environ|plus d['’e]|moins d['’e]|presque|à peine|près d['’e]",
        r"une?|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|quelques|plusieurs|une demi[- ]",
        r"s|sec\.?|secondes?|mn|min\.?|minutes?|h|heures?|j|jours?|sem\.?|semaines?|mois|ans?|années?|instants?",
    ),
    _phrase("à l'instant|à l’instant", r"(?<!\w)à l['’]instant(?!\w)"),
    _before(
        "hace ",
        "hace",
        r"cerca de|más de|menos de|casi|aproximadamente|alrededor de",
        r"una?|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|un[ao]s(?: pocos)?|poc[ao]s|vari[ao]s|algun[ao]s|media",
        r"s|seg\.?|segundos?|min\.?|minutos?|h|hrs?\.?|horas?|d|d[ií]as?|sem\.?|semanas?|mes(?:es)?|años?|instantes?"
        r"|momentos?|rato",
    ),
    _phrase("ahora mismo|justo ahora", r"(?<!\w)(?:ahora mismo|justo ahora)(?!\w)"),
    _before(
        "há |faz ",
        "há|faz",
        r"cerca de|mais de|menos de|quase|aproximadamente",
        r"uma?|dois|duas|três|quatro|cinco|seis|sete|oito|nove|dez|pouc[ao]s|algun[s]|algumas|meia",
        r"s|seg\.?|segundos?|min\.?|minutos?|h|horas?|d|dias?|sem\.?|semanas?|m[eê]s(?:es)?|anos?|instantes?|momentos?",
    ),
    _after(
        "atrás",
        "atrás",
        r"cerca de|mais de|menos de|quase",
        r"uma?|dois|duas|três|pouc[ao]s|alguns|algumas|meia",
        r"s|seg\.?|segundos?|min\.?|minutos?|h|horas?|d|dias?|sem\.?|semanas?|m[eê]s(?:es)?|anos?",
    ),
    _phrase("agora mesmo|agora há pouco", r"(?<!\w)agora (?:mesmo|há pouco)(?!\w)"),
    _after(
        " fa",
        "fa",
        r"circa|più di|meno di|quasi|oltre",
        r"una?|uno|un['’]|due|tre|quattro|cinque|sei|sette|otto|nove|dieci|poch[ei]|alcun[ei]|qualche|mezz['’]",
        r"s|sec\.?|second[oi]|min\.?|minut[oi]|h|or[ae]|g|gg|giorn[oi]|sett\.?|settiman[ae]|mes[ei]|ann[oi]|attim[oi]"
        r"|istant[ei]|poco",
        alone=True,
    ),
    _phrase("proprio ora|in questo momento", r"(?<!\w)proprio ora(?!\w)"),
    _after(
        "geleden",
        "geleden",
        r"ongeveer|meer dan|minder dan|bijna|ruim|circa",
        r"een|één|twee|drie|vier|vijf|zes|zeven|acht|negen|tien|enkele|een paar|een half",
        r"s|sec\.?|seconden?|min\.?|minuut|minuten|uur|uren|u|d|dag(?:en)?|wk\.?|week|weken|mnd\.?|maand(?:en)?|jaar"
        r"|jaren",
    ),
    _phrase("zojuist|zonet|daarnet", r"(?<!\w)(?:zojuist|zonet|daarnet)(?!\w)"),
    _after(
        "temu",
        "temu",
        r"około|ok\.|ponad|prawie|mniej niż|niecał[eą]",
        r"jed[en]+|jedną|dwie|dwa|trzy|cztery|pięć|kilka|parę|pół",
        r"s|sek\.?|sekund[aęy]?|min\.?|minut[aęy]?|g|godz\.?|godzin[aęy]?|h|dni|dzień|dnia|tydz\.?|tydzień|tygodni[ae]?"
        r"|mies\.?|miesiąca?|miesiące|miesięcy|roku?|lata?|chwilę",
        alone=True,
    ),
    _phrase("przed chwilą", r"(?<!\w)przed chwilą(?!\w)"),
    _after(
        "назад",
        "назад",
        r"около|почти|более|менее|примерно|больше|меньше|~",
        r"одну|один|две|два|три|четыре|пять|несколько|пару|пол",
        r"с|сек\.?|секунд[аыу]?|м|мин\.?|минут[аыу]?|ч\.?|час(?:а|ов)?|д\.?|дн\.?|день|дня|дней|сут(?:ки|ок)|нед\.?"
        r"|недел[июья]|недель|мес\.?|месяц(?:а|ев)?|г\.?|года?|лет",
        alone=True,
    ),
    _phrase("только что|щойно", r"(?<!\w)(?:только что|щойно)(?!\w)"),
    _after(
        "тому",
        "тому(?: назад)?",
        r"близько|майже|понад|приблизно",
        r"одну|один|дві|два|три|чотири|п['’]ять|кілька|декілька",
        r"с|сек\.?|секунд[аиу]?|хв\.?|хвилин[аиу]?|год\.?|годин[аиу]?|дн\.?"
        r"|день|дні|дня|днів|тиж\.?|тижд?(?:ень|ні|нів)"
        r"|міс\.?|місяц(?:ь|і|ів)|рік|роки|років",
    ),
    _phrase(
        "před |pred ",
        rf"(?<!\w)př?e[dď] (?:{_FEW} ?)?(?:sek\.?|sekund(?:ami|ou)|vteřinami"
        rf"|min\.?|minut(?:ami|ou|ami)|hod\.?|hodin(?:ami"
        rf"|ou)|dn(?:y|em|ěmi|ami)|týdn(?:y|em)|měsíc(?:i|em)|lety|rokem|chvílí|chvíľou){_NOT_IN_WORD}",
    ),
    _after(
        "sedan",
        "sedan",
        "ungefär|cirka|ca|över|nästan|mindre än|mer än|för",
        "en|ett|två|tre|några|ett par",
        r"s|sek\.?|sekund(?:er)?|min\.?|minut(?:er)?|tim\.?|timm(?:e|ar)|h|dag(?:ar)?|veck(?:a|or)|mån(?:ad|ader)?|år",
    ),
    _after(
        "siden",
        "siden",
        "cirka|ca|over|nesten|næsten|mindre enn|mindre end|for",
        "en|et|ett|to|tre|noen|nogle|få",
        r"s|sek\.?|sekund(?:er)?|min\.?|minutt?(?:er)?|tim\.?|timer?|t|dag(?:er|e)?|d|uger?|uker?|måned(?:er)?|mdr?\.?|år",
    ),
    _after(
        "sitten",
        "sitten",
        "noin|yli|lähes|alle",
        "yksi|kaksi|kolme|muutama",
        r"s|sek\.?|sekunti|sekuntia|min\.?|minuutti|minuuttia|t|tunti|tuntia|pv|päivä|päivää|vk|viikko|viikkoa|kk"
        r"|kuukausi|kuukautta|v|vuosi|vuotta|hetki",
        alone=True,
    ),
    _after(
        "önce",
        "önce",
        "yaklaşık",
        "bir|iki|birkaç",
        r"sn\.?|saniye|dk\.?|dakika|sa\.?|saat|gün|hafta|ay|yıl",
    ),
    _phrase("az önce|şimdi", r"(?<!\w)az önce(?!\w)"),
    _after(
        "ezelőtt",
        "ezelőtt",
        "körülbelül|kb\\.",
        "egy|két|néhány|pár",
        "másodperccel|mp-cel|perccel|órával|nappal|héttel|hónappal|évvel",
    ),
    _before(
        "acum ",
        "acum",
        "aproximativ|circa|peste",
        "un|o|două|doi|câteva|câțiva",
        r"(?:de )?(?:sec\.?|secund[ăe]|min\.?|minut(?:e)?|or[ăe]|h|zi|zile|săptămân[ăi]|lun[ăi]|ani?)",
    ),
    _phrase(
        "πριν",
        rf"(?<!\w)πριν (?:από )?(?:{_FEW} ?|ένα |μία |λίγα "
        rf"|λίγες )?(?:δευτερόλεπτ\w{{1,3}}|δευτ\.?|λεπτ\w{{1,3}}|ώρ\w{{1,3}}"
        rf"|η?μέρ\w{{1,3}}|εβδομάδ\w{{1,3}}|μήν\w{{1,3}}|χρόν\w{{1,3}}|έτ\w{{1,3}}|λίγο){_NOT_IN_WORD}",
    ),
    _phrase(
        "منذ|قبل",
        rf"(?<!\w)(?:منذ|قبل) (?:{_FEW} ?|بضع |عدة )?(?:لحظات|ثانية|ثوان[يٍ]?|دقيقة|دقائق|دقيقتين|ساعة|ساعات|ساعتين"
        rf"|يوم|أيام|يومين|أسبوع|أسابيع|شهر|أشهر|سنة|سنوات){_NOT_IN_WORD}",
    ),
    _phrase(
        "לפני",
        rf"(?<!\w)לפני (?:כ-?)?(?:{_FEW} ?|כמה )?(?:שניות|שנייה|דקות|דקה|שעות|שעה|שעתיים|ימים|יום|יומיים|שבועות|שבוע"
        rf"|חודשים|חודש|שנים|שנה){_NOT_IN_WORD}",
    ),
    _phrase("पहले", rf"{_FEW} ?(?:सेकंड|सेकेंड|मिनट|घंटे|घंटा|घण्टे|दिन|हफ़्ते|हफ्ते|सप्ताह|महीने|महीना|साल|वर्ष) पहले"),
    _after(
        "lalu",
        "(?:yang )?lalu",
        "sekitar|lebih dari",
        "satu|dua|beberapa",
        "detik|dtk|menit|mnt|minit|jam|hari|minggu|bulan|tahun|saat",
    ),
    _after("trước", "trước", "khoảng", "một|hai|vài", "giây|phút|giờ|ngày|tuần|tháng|năm"),
    _phrase("ที่แล้ว", r"(?<!\d)\d{1,4}+ ?(?:วินาที|นาที|ชั่วโมง|ชม\.|วัน|สัปดาห์|เดือน|ปี) ?ที่แล้ว"),
    _phrase(
        "전|방금", rf"(?:약 ?)?{_CJK_FEW} ?(?:초|분|시간|일|주일?|개월|달|년) ?전(?![가-힣])|방금(?: 전)?(?![가-힣])"
    ),
    _phrase(
        "前|刚|剛|今",
        rf"(?:约|約|大约|大約|およそ)? ?(?:{_CJK_FEW}"
        rf"|[数幾几半]) ?(?:秒钟?|秒鐘|分间|分間|分钟?|分鐘?|个?小时|個?小時|時間|天"
        r"|日間?|周|週間?|个?星期|個?星期|个?月|個?月|[かヶカヵケ]月|年)(?:ほど"
        r"|くらい|ぐらい|以上|之|以)?前(?!まで|に|半|後|后|回)"
        r"|刚刚|剛剛|刚才|剛才|たった今|つい先ほど",
    ),
)

# Days by their names are relative only where they stand by themselves, perhaps with a time, which is kept.

_EDGE = r"(?:^|(?<=[|·•,;:：()\[\]–—/>»-])|(?<=[|·•,;:：()\[\]–—/>»-] ))"
_FIELD_END = r"(?= ?(?:$|[|·•,;()\[\]–—/<]))"
_CLOCK_BEHIND = r"(?=,? (?:at |um |à |a las |alle |às |om |o |в |kl\.? ?)?\d{1,2}[:.h]\d\d)"
_DAYS = (
    "today|yesterday|heute|gestern|vorgestern|aujourd['’]hui|hier|avant-hier|hoy|ayer|anteayer|oggi|ieri|hoje|ontem"
    "|vandaag|gisteren|dzisiaj|dziś|wczoraj|сегодня|вчера|позавчера|сьогодні|вчора|idag|igår|i dag|i går|tänään|eilen"
    "|bugün|dün|dnes|včera|今日|本日|昨日|一昨日|今天|昨天|前天|오늘|어제|그제"
)
_NOWS = "now|jetzt|maintenant|ahora|adesso|ora|agora|nu|nå|nyt|teraz|сейчас|зараз|今|现在|現在|지금"
_DAY = rf"{_EDGE}(?:(?:{_DAYS}|{_NOWS}){_FIELD_END}|(?:{_DAYS}){_CLOCK_BEHIND})"
_DAY_WORDS = tuple(word.split("[")[0] for word in f"{_DAYS}|{_NOWS}".split("|"))

# View counters. A strong word makes a number beside it one anywhere, a weak one only in a field of its own.

_SCALE = rf"(?: ?(?:(?:k|m|b|mio\.?|mln\.?|mrd\.?|tsd\.?|mil|mille|тыс\.?|млн\.?){_NOT_IN_WORD}|[万萬億亿만천]))?"
_COUNT = rf"\d(?<![\d.,:/]\d)\d{{0,14}}+(?:[.,'’ ]\d{{3}}(?!\d)){{0,5}}(?:[.,]\d{{1,2}}(?!\d))?{_SCALE}"
_STRONG = (
    r"(?:page ?)?views?|page ?hits?|impressions?|(?:seiten)?aufrufe?|seitenabrufe?|zugriffe?|vues?|pages vues"
    r"|visualizaci(?:ón|ones)|visualizzazion[ei]|visualizaç(?:ão|ões)|weergaven?|wyświetle(?:nie|nia|ń)|odsłon[ya]?"
    r"|просмотр(?:а|ов|ы)?|перегляд(?:и|ів|у)?|visning(?:ar|er)?|görüntülenme|görüntüleme|zobrazení|zhlédnutí|zobrazeni"
    r"|megtekintés|προβολ(?:ή|ές)|vizualiz[aă]ri|katselukertaa|katselua|näyttökertaa"
)
_WEAK = (
    r"visitors?|visits?|reads?|clicks?|readers?|guests? online"
    r"|users? online|members? online|people online|online users?"
    r"|viewers?|watching(?: now)?|viewing(?: now)?|ansichten|besucher(?: online)?|besuche|klicks|leser|gäste online"
    r"|benutzer online|nutzer online|visites?|visiteurs?|lectures?|consultations?|affichages?|connectés?|visitas?"
    r"|visitantes?|lecturas?|vistas?|accesos?|usuarios (?:en línea|conectados)|visite|visitator[ei]|letture"
    r"|utenti (?:online|connessi)|acessos?|leituras?|usuários online|bezoekers?(?: online)?|bezoeken|kliks|keer bekeken"
    r"|keer gelezen|odwiedzin(?:y)?|odwiedzających|użytkowników online|osób online|посетител(?:ь|я|ей|и)"
    r"|посещени(?:е|я|й)|прочтени(?:е|я|й)|пользователей онлайн|онлайн|відвідувач(?:і|ів)|besökare|besøgende|besøkende"
    r"|kävijää|návštěv|návštěvníků|ziyaretçi|okunma|látogató|vizitatori"
)
_PEOPLE = (
    r"(?:people|persons?|others?|users?|visitors?|guests?|shoppers?|travell?ers?|personen|personnes|personas|persone)"
)
_LOOK = (
    r"(?:are |is )?(?:currently |now |also )?(?:viewing|watching|looking at|reading|browsing)"
    r"|(?:sehen|schauen|betrachten)|(?:regardent|consultent)|(?:están )?(?:viendo|mirando)|stanno guardando"
)
_WHEN = (
    r"today|yesterday|total|totals?|all[- ]time|this (?:week|month|year|page)|last (?:week|month)|now|online|currently"
    r"|unique|so far|heute|gestern|gesamt|insgesamt|aktuell|diese woche|diesen monat|aujourd['’]hui|hier|au total"
    r"|en ligne|hoy|ayer|en total|en línea|totales|oggi|ieri|totali|oggi|hoje|ontem|no total|vandaag|gisteren|totaal"
    r"|dzisiaj|dziś|wczoraj|łącznie|ogółem|сегодня|вчера|всего|за день|за сутки"
)
_COUNTER_LABELS = (
    r"hits?|hit counter|view count|visitor counter|visit counter|times viewed|number of (?:views|visitors|visits)"
    r"|besucherzähler|anzahl (?:aufrufe|zugriffe|besucher)"
    r"|contador de visitas|compteur(?: de visites)?|contatore visite"
    r"|licznik odwiedzin|сч[её]тчик(?: посещений)?|gelesen|bekeken|leíd[ao]s|online"
)
_CJK_COUNTERS = (
    r"閲覧数|閲覧回数|再生回数|視聴回数|表示回数|アクセス数|アクセスカウンター"
    r"|アクセス|訪問者数?|来場者数|ビュー(?:数)?|PV(?:数)?"
    r"|浏览[量数]|浏览次数|浏览|瀏覽[量數]|瀏覽次數|瀏覽|阅读[量数]|阅读次数|阅读|閱讀"
    r"|访问[量数]|访问人数|访问|訪問量|點擊|点击[量数]|点击次数"
    r"|点击|观看次数|观看|觀看次數|播放[量数]|播放次数|查看次数|查看|人气|人氣"
    r"|围观|在线人数|在线|在線人數|조회수|조회|방문자(?:수)?"
)
_CJK_COUNTED = (
    r"回(?:視聴|再生|表示|閲覧)|人が(?:閲覧|視聴)中?|ビュー|次(?:观看|觀看"
    r"|浏览|瀏覽|阅读|閱讀|播放|查看|访问|訪問|点击|點擊)"
    r"|人(?:阅读|閱讀|浏览|瀏覽|观看|觀看|在看|在线|围观)|(?:阅读|閱讀|浏览|瀏覽"
    r"|播放|点击)|회 ?(?:조회|재생)|명 ?(?:접속|방문)"
)
_WORDS_OF_VIEWS = (
    "view|hit|visit|visitor|read|click|impression|online|watch|look|brows|aufruf|abruf|zugriff|ansicht|besuch|gelesen"
    "|klick|leser|angesehen|sehen|schauen|betracht|vue|vu |lu |visite|lecture|consult|affichage|connect|regard|visita"
    "|visualiz|vista|visto|lectura|leíd|acces|acess|conect|viendo|mirando|guardando|letture|letto|leitura|lido|weergave"
    "|bezoek|bekeken|gelezen|klik|wyświetl|odsłon|odwiedz|osób|просм|посет|посещ|прочт|прочит|онлайн|счётчик|счетчик"
    "|перегляд|відвід|visning|besök|besøg|besøk|görüntül|ziyaret|okunma|zobraz|zhléd|návštěv|megtekint|látogat|προβολ"
    "|vizit|katsel|näyttök|kävij|compteur|contador|contatore|licznik"
)
_CJK_WORDS = (
    "閲覧|再生|視聴|表示|アクセス|訪問|来場|ビュー|pv|浏览|瀏覽|阅读|閱讀|访问"
    "|點擊|点击|观看|觀看|播放|查看|人气|人氣|围观|在线|在線"
    "|在看|人目|조회|방문|재생|접속|访客|訪客"
)
_TIMES = (
    r"(?: ?x|×)? ?(?:times|mal|fois|veces|volte|vezes|keer|razy|raz(?:a)?|раз[а]?|gånger|ganger|gange"
    r"|kertaa|krát|回|次)"
)
_SEEN = (
    r"viewed|read|visited|seen|watched|accessed|angesehen|gelesen"
    r"|aufgerufen|besucht|vue?s?|lue?s?|consultée?s?|visitée?s?"
    r"|vist[ao]s?|leíd[ao]s?|visitad[ao]s?|lett[aoei]|visualizzat[aoei]"
    r"|lid[ao]s?|visualizad[ao]s?|bekeken|gelezen|bezocht"
    r"|wyświetlono|przeczytano|odwiedzono|просмотрен[ао]?|прочитан[ао]?|просматривали"
)
_ORDINAL = r"(?:\.|st|nd|rd|th|e|ème|º|ª|-?й|-?го|-?m[aą])?"
_VIEWS: tuple[_Phrase, ...] = (
    _phrase(
        _WORDS_OF_VIEWS,
        rf"{_COUNT}(?: (?:{_STRONG})(?!\w)|{_TIMES} (?:{_SEEN})(?!\w)| {_PEOPLE} (?:{_LOOK})(?!\w)"
        rf"|{_ORDINAL} (?:visitor|besucher(?:in)?|visiteur|visitante|visitatore|bezoeker|посетитель)(?!\w))",
    ),
    _phrase(
        _WORDS_OF_VIEWS,
        rf"{_EDGE} ?(?:{_COUNT} (?:(?:{_WHEN}) )?(?:{_WEAK})(?: (?:{_WHEN}))?{_FIELD_END}"
        rf"|(?:{_STRONG})(?: (?:{_WHEN}))? {_COUNT}{_FIELD_END}"
        rf"|(?:(?:{_WHEN})[’s]{{0,2}} )?(?:{_WEAK}|{_COUNTER_LABELS})(?: \(?(?:{_WHEN})\)?)? ?[:：] ?{_COUNT}(?!\w))",
    ),
    _phrase(
        _WORDS_OF_VIEWS,
        rf"(?<!\w)(?:(?:{_STRONG})(?: (?:{_WHEN}))? ?[:：] ?{_COUNT}(?!\w)"
        rf"|(?:{_SEEN})(?: by)?:? {_COUNT}{_TIMES}(?!\w)"
        rf"|(?:visitor|besucher|visiteur|visitante|visitatore|bezoeker|посетитель)"
        rf" ?(?:number|nummer|numéro|número|no\.?|nr\.?|n[º°.]|№|#) ?{_COUNT})",
    ),
    _phrase(
        _CJK_WORDS,
        rf"(?:{_CJK_COUNTERS}) ?[:：(（]? ?{_COUNT}"
        rf"|{_COUNT} ?(?:{_CJK_COUNTED}|人目の)|第 ?{_COUNT} ?[位个個名](?:访客|訪客|访问者)",
    ),
)
_LABEL_ABOVE = rf"(?:{_STRONG}|{_WEAK}|{_COUNTER_LABELS}|{_CJK_COUNTERS})(?: (?:{_WHEN}))? ?[:：]?"
_LABEL_BELOW = rf"{_STRONG}|{_CJK_COUNTERS}"
_LONGEST_LABEL = 40

# Times taken.

_SECONDS = (
    r"(?:ms|msec|µs|s|secs?\.?|second\(s\)|seconds?|milliseconds?|sek\.?"
    r"|sekunden?|millisekunden|secondes?|millisecondes?|segundos?"
    r"|seg\.?|milisegundos|second[oi]|millisecondi|seconden?"
    r"|sekund[aęy]?|сек\.?|секунд[аыу]?|мс|миллисекунд|秒|毫秒|ミリ秒)"
)
_MADE = (
    r"generated|rendered|created|processed|loaded|served|executed|built"
    r"|took|generation time|(?:page )?load(?:ing)? time"
    r"|execution time|render(?:ing)? time|query time|processing time|parse time|erstellt|generiert|erzeugt|geladen"
    r"|aufgebaut|berechnet|generierungszeit|ladezeit|ausführungszeit|seitenaufbau|généré(?:e|s|es)?|créée?|chargée?"
    r"|exécutée?|temps de (?:génération|chargement|calcul|traitement)|generad[ao]|cargad[ao]|procesad[ao]|cread[ao]"
    r"|tiempo de (?:carga|generación|ejecución)|generat[ao]|caricat[ao]|elaborat[ao]|creat[ao]"
    r"|tempo di (?:caricamento|generazione|esecuzione)|gerad[ao]|carregad[ao]|processad[ao]|criad[ao]"
    r"|tempo de (?:carregamento|geração|execução)|gegenereerd|aangemaakt|opgebouwd|laadtijd|wygenerowan[aoy]"
    r"|załadowan[aoy]|czas (?:generowania|ładowania|wykonania)|сгенерирован[ао]?|создан[ао]?|загружен[ао]?"
    r"|время (?:генерации|загрузки|выполнения)|生成時間|処理時間"
    r"|表示時間|読み込み時間|実行時間|生成时间|執行時間|执行时间|处理时间"
    r"|加载时间|耗时|用时|처리 ?시간|생성 ?시간"
)
_DURATION = rf"\d{{1,6}}+(?:[.,]\d{{1,9}})? ?{_SECONDS}{_NOT_IN_WORD}"
_QUERIES = (
    r"(?:,? ?\(?(?:with |using |mit |avec |con |com |met |and |und )?\d{1,6}+ (?:sql |db |database )?"
    r"(?:queries|abfragen|requêtes|consultas|query|zapytań|запрос(?:ов|а)?)\)?)?"
)
_WORDS_OF_MADE = (
    "generat|render|creat|process|load|served|execut|built|took|time|query|erstell|generier|erzeug|geladen|aufgebaut"
    "|berechnet|zeit|génér|créé|charg|exécut|temps|generad|cargad|procesad|tiempo|caricat|elaborat|tempo|gerad|carregad"
    "|criad|gegenereerd|aangemaakt|opgebouwd|laadtijd|wygenerowan|załadowan|czas|сгенерир|создан|загруж|время|時間|时间"
    "|耗时|用时|시간|sec|sek|seg|сек|秒"
)
_TOOK: tuple[_Phrase, ...] = (
    _phrase(
        _WORDS_OF_MADE,
        rf"(?<!\w)(?:{_MADE})[^\n\d]{{0,24}}(?<![\w.,]){_DURATION}{_QUERIES}"
        rf"|(?<![\w.,]){_DURATION}{_QUERIES}[^\n\d]{{0,12}}(?<!\w)(?:{_MADE})(?!\w)"
        rf"|(?:生成時間|処理時間|表示時間|読み込み時間|実行時間|生成时间|执行时间|处理时间"
        rf"|加载时间|耗时|用时)[^\n\d]{{0,12}}{_DURATION}"
        rf"|(?<=\()\d{{1,3}}[.,]\d{{1,6}} ?{_SECONDS}(?=\))",
    ),
)


def grows(before: str, after: str) -> bool:
    """Returns whether two lines differ only in one number, near a word of view counters, that is larger now.

    Where that is no form of its own (`read by 532 of you`), it is known by a row of changes.
    """
    number = compiled(_LARGE)
    if len(after) > _LONGEST_LINE or number.sub("0", before) != number.sub("0", after):
        return False
    pairs = zip(number.finditer(before), number.finditer(after), strict=True)
    differing = [(former, other) for former, other in pairs if former[0] != other[0]]
    if len(differing) != 1 or _whole(differing[0][0][0]) >= _whole(differing[0][1][0]):
        return False
    start, end = differing[0][1].span()
    near = after[max(start - _NEAR, 0) : end + _NEAR].lower()
    return any(word in near for word in (*_WORDS_OF_VIEWS.split("|"), *_CJK_WORDS.split("|")))


_LARGE = r"\d{1,15}(?:[.,'’ ]\d{3}(?!\d))*"
_NEAR = 16
"""Characters to either side."""


def _whole(number: str) -> int:
    return int("".join(filter(str.isdecimal, number)))


# Hiding forms in a content, and finding those in which two contents differ.

_LONGEST_LINE = 4_096
_MOST_CHARACTERS = 65_536
_DIGIT = re.compile(r"\d")
_PHRASES: dict[NoiseForm, tuple[_Phrase, ...]] = {
    NoiseForm.AGO: (*_AGO, _Phrase(_DAY_WORDS, _DAY)),
    NoiseForm.VIEWS: _VIEWS,
    NoiseForm.TOOK: _TOOK,
}


def named(form: NoiseForm) -> str:
    """Returns what stands in a content in place of a phrase of the form."""
    return (MARK + form.encode() + MARK_END).decode()


def without_forms(content: bytes, forms: Collection[NoiseForm]) -> bytes:
    """Returns a content (UTF-8, errors included) with each phrase of the forms replaced by its name; lines stay lines.

    Lines over 4,096 characters are left as they are, and in a content what is beyond 65,536 characters of lines with
    words of a form: that bounds the time. Raises nothing. Idempotent.
    """
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    _replace_at(lines, range(len(lines)), forms)
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _replace_at(lines: list[str], places: Iterable[int], forms: Collection[NoiseForm]) -> None:
    """Replaces the phrases of the forms in the lines at these places; others are looked at as labels only."""
    short = [at for at in places if len(lines[at]) <= _LONGEST_LINE]
    counted = [at for at in short if _DIGIT.search(lines[at])]
    for form in sorted(forms):
        _replace(lines, short if form is NoiseForm.AGO else counted, form)
        if form is NoiseForm.VIEWS:
            _replace_beside_labels(lines, counted)


def _there(words: tuple[str, ...], text: str) -> list[str]:
    if text.isascii():
        words = _of_ascii(words)
    return [word for word in words if word in text]


@lru_cache(maxsize=256)
def _of_ascii(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(str.isascii, words))


def _replace(lines: list[str], places: Sequence[int], form: NoiseForm) -> None:
    """Replaces the phrases of a form in the lines at these places."""
    lower = "\n".join([lines[at] for at in places]).lower()
    present = {words: _there(words, lower) for words in {phrase.words for phrase in _PHRASES[form]}}
    phrases = [(present[phrase.words], phrase.pattern) for phrase in _PHRASES[form] if present[phrase.words]]
    if not phrases:
        return
    left, name = _MOST_CHARACTERS, named(form)
    for at in places:
        line, lower = lines[at], lines[at].lower()
        for words, pattern in phrases:
            if left > 0 and any(word in lower for word in words):
                left -= len(line)
                line = pattern.sub(name, line)
        lines[at] = line


def _replace_beside_labels(lines: list[str], places: Sequence[int]) -> None:
    """Replaces numbers that are a line of their own, under or above a line that only says what they count.

    Where numbers are on both sides of that line it is theirs above only by a colon: else it may be another's.
    """
    alone = [at for at in places if _is_count(lines, at)]
    labelled = [at for at in alone if _is_under_label(lines, at) or _is_over_label(lines, at)]
    for at in labelled:
        lines[at] = named(NoiseForm.VIEWS)


def _is_count(lines: Sequence[str], at: int) -> bool:
    return 0 <= at < len(lines) and len(lines[at]) <= _LONGEST_LABEL and bool(compiled(_COUNT).fullmatch(lines[at]))


def _is_under_label(lines: Sequence[str], at: int) -> bool:
    above = lines[at - 1] if at else ""
    shared = not above.endswith((":", "：")) and _is_count(lines, at - 2)
    return len(above) <= _LONGEST_LABEL and not shared and compiled(_LABEL_ABOVE).fullmatch(above) is not None


def _is_over_label(lines: Sequence[str], at: int) -> bool:
    below = lines[at + 1] if at + 1 < len(lines) else ""
    if len(below) > _LONGEST_LABEL or _is_count(lines, at + 2):
        return False
    return compiled(_LABEL_BELOW).fullmatch(below) is not None


def differing_forms(before: bytes, after: bytes) -> dict[NoiseForm, str]:
    """Returns the forms whose phrases alone make lines of the two contents differ, each with a phrase of the second."""
    lines, others = (content.decode("utf-8", "surrogateescape").split("\n") for content in (before, after))
    places, other_places = [*unmatched(lines, others)], [*unmatched(others, lines)]
    bare, other_bare = [*lines], [*others]
    _replace_at(bare, places, tuple(NoiseForm))
    _replace_at(other_bare, other_places, tuple(NoiseForm))
    waiting: dict[str, list[int]] = {}
    for at in places:
        waiting.setdefault(bare[at], []).append(at)
    forms: dict[NoiseForm, str] = {}
    for at in other_places:
        partners = waiting.get(other_bare[at])
        if partners:
            forms = _differing(lines[partners.pop(0)], others[at]) | forms
    return {form: text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for form, text in forms.items()}


def _differing(line: str, other: str) -> dict[NoiseForm, str]:
    forms = {}
    for form in NoiseForm:
        ours, theirs = list(_phrases(line, form)), list(_phrases(other, form))
        if ours != theirs and theirs:
            forms[form] = theirs[0]
    return forms or {NoiseForm.VIEWS: other}  # a number under the line that says what it counts


def _phrases(line: str, form: NoiseForm) -> Iterator[str]:
    lower = line.lower()
    for phrase in _PHRASES[form]:
        if any(word in lower for word in phrase.words):
            yield from (match[0] for match in phrase.pattern.finditer(line))
