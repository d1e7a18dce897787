"""What an address is, and what is in the way of watching it, by rules whose reasons can be shown.

A page is fine only if it has text of its own: cookie walls, challenges, sign-in forms and shells that scripts fill are
told from it by their markup and by how little else they say. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from itertools import islice
from typing import Any

import orjson
from selectolax.lexbor import LexborHTMLParser

from pollerd.detection.html import is_tag_bomb, visible_text
from pollerd.detection.media import classify
from pollerd.detection.noise.forms import compiled
from pollerd.detection.normalise import normalise
from pollerd.detection.pdf import is_pdf
from pollerd.detection.titles import feed_title, one_printable_line
from pollerd.lists.links import page_links
from pollerd.lists.sitemaps import read_sitemap
from pollerd.model import Detail, Media, Outcome, OutcomeKind
from pollerd.shown import SHOWN
from pollerd.texts import N_, _, recognised


class AddressKind(StrEnum):
    """What an address answers with."""

    PAGE = "page"
    PRODUCT = "product"
    """A page with one product and its price."""
    FEED = "feed"
    LIST = "list"
    """A sitemap."""
    JSON = "json"
    PDF = "pdf"
    TEXT = "text"
    FILE = "file"
    """Bytes that are no text."""


class Obstacle(StrEnum):
    """What is in the way of reading a page."""

    PASSWORD = "password"
    COOKIES = "cookies"
    """A wall that asks for consent, or a page that redirects clients without its cookies in circles."""
    CHALLENGE = "challenge"
    """A test whether a person asks."""
    SCRIPTS = "scripts"
    """Its text comes by scripts."""
    ROBOTS = "robots"
    """robots.txt does not allow it."""
    NO_TEXT = "no_text"
    FAILURE = "failure"
    """It was not answered with a page."""


@dataclass(frozen=True, slots=True)
class Recognition:
    """What an address is."""

    __pydantic_config__ = SHOWN
    kind: AddressKind | None
    """What it answers with; None: no page came."""
    title: str
    """Of the page or feed; empty without one."""
    lines: tuple[str, ...]
    """The first lines of its text, at most five of 200 characters."""
    price: str
    """Of a product, as the page states it to machines: amount and currency; empty without one."""
    price_from: Mapping[str, str]
    """Where that stands, as the `from` of a value; empty without a price."""
    obstacle: Obstacle | None
    """What is in the way of watching it; None: nothing is."""
    reason: str
    """Why that is in the way, a sentence; empty: nothing is."""
    cure: str
    """What can be done about it, a sentence; empty: nothing is in the way, or nothing is known to help."""
    feeds: tuple[str, ...]
    """URLs of feeds that the page names: they say surer, and for less, what is new."""


_Price = tuple[str, Mapping[str, str]]
LINES, LONGEST_LINE = 5, 200
_SHORT_TEXT = 1_200
"""Characters of text beyond which a page is more than a wall, a form or a notice."""
_FEW_WORDS, _NEXT_TO_NOTHING = 300, 40
"""Characters of text up to which a page may be a shell or a notice, and up to which it says nothing of its own."""
_CHALLENGE_MARKUP = (
    r"cf[-_]chl|challenge-platform/h/|captcha-delivery\.com|px-captcha|gokuprops|__jsl_clearance|acw_sc__v2|anubis[-_]"
    r"|ddos-guard/js-challenge"
)
"""What stands in tests alone."""
_GUARDED_MARKUP = (
    r"cf-turnstile|challenge-platform|_Incapsula_Resource|datadome|awswaf|/distil_|sucuri_cloudproxy|perimeterx|kasada"
    r"|g-recaptcha|h-captcha|hcaptcha\.com"
)
"""What stands in tests, and in pages behind them, or in forms."""
_CHALLENGE_TEXT = (
    r"just a moment|checking (?:your|if the site)|verif(?:y|ying) (?:that )?you(?:'re| are)|(?:are|you are) (?:you )?"
    r"(?:a |not a )(?:ro)?bot|human verification|i am human|security check|unusual traffic|attention required"
    r"|pardon our interruption|press (?:&|and) hold|ddos[- ]protection|request unsuccessful|captcha"
    r"|access (?:to this page )?(?:has been |is )?denied|bist du ein mensch|sicherheitsüberprüfung"
    r"|vérifi(?:er|cation) que vous|verificando que|проверка (?:браузера|безопасности)|人机验证|安全验证"
)
_CONSENT = (
    r"accept (?:all|cookies|and continue)|allow (?:all|cookies)|reject (?:all|cookies)|agree (?:and|to)|i agree|consent"
    r"|manage (?:cookies|preferences|options|settings)|cookie (?:settings|preferences|policy)|we use cookies"
    r"|we (?:and our|value your privacy)|our (?:\d+ )?partners|store and/?or access|continue without accepting"
    r"|alle akzeptieren|akzeptieren|zustimmen|einwilligung|ablehnen|cookie-einstellungen|wir verwenden cookies"
    r"|datenschutzeinstellungen|privatsphäre|tout accepter|accepter|refuser|consentement|nous utilisons des cookies"
    r"|aceptar(?: todas| y continuar)?|rechazar|utilizamos cookies|consentimiento|accetta(?: tutti)?|rifiuta"
    r"|utilizziamo i cookie|consenso|alles accepteren|accepteren|weigeren|toestemming|wij gebruiken cookies"
    r"|zaakceptuj|akceptuję|zgoda|aceitar|rejeitar|принять|согласие"
)
_CONSENTS, _CONSENT_SHARE = 3, 0.25
"""A wall says at least so many words of consent, and they stand in at least this share of its lines; twice the share
where it says more than `_SHORT_TEXT`."""
_LONGEST_WALL = 4_000
"""Characters of text beyond which a page is no wall, whatever it is about."""
_BANNERS = ", ".join(
    f'[{attribute}*="{word}" i]'
    for attribute in ("id", "class")
    for word in ("cookie", "consent", "gdpr", "onetrust", "didomi", "usercentrics", "truste", "sp_message", "cmpbox")
)
_NEEDS_SCRIPTS = (
    r"(?:enable|turn on|activate|requires?|needs?|without) (?:java ?script|js\b)|java ?script (?:is |has been )?"
    r"(?:disabled|required|needed|not (?:enabled|supported))|(?:aktivier\w*|benötigt|ohne) (?:sie )?"
    r"(?:bitte )?javascript"
    r"|javascript (?:aktivieren|ist (?:deaktiviert|erforderlich))|activer javascript|habilit\w+ javascript"
    r"|you need to enable javascript"
)
_LOADING = (
    r"(?:(?:now )?loading|please wait|wird geladen|l(?:a|ä)dt|laden|chargement|cargando"
    r"|caricamento|carregando|загрузка|読み込み中|加载中).{0,40}$|.{0,3}$"
)
_APPLICATION = r"^(?:root|app|__next|__nuxt|___gatsby|svelte|ember\d*|main-?app|react-root|app-root|q-app|application)$"
_SIGN_IN = (
    r"sign ?in|log ?(?:in|on)|anmeld|einlogg|connexion"
    r"|se connecter|iniciar sesión|acced[ei]|inloggen|zaloguj|entrar|войти|登录|ログイン"
)
_PRODUCT_TYPES = frozenset({"product", "productgroup", "individualproduct", "productmodel"})
_MOST_NODES = 2_000
"""Of a page's JSON-LD that are looked at."""


_CURES = {
    Obstacle.PASSWORD: N_("give a user name and password (credentials), or the cookie of a browser that is signed in"),
    Obstacle.COOKIES: N_("send the cookie that a browser has then (headers), or let a browser read the page (render)"),
    Obstacle.CHALLENGE: N_("let a browser read the page (render); if it is refused, too, the site wants no programs"),
    Obstacle.SCRIPTS: N_("let a browser read the page (render)"),
    Obstacle.ROBOTS: N_("choose another address of the site, or ask its owner to allow pollerd in robots.txt"),
}


def recognise(outcome: Outcome, url: str) -> Recognition:
    """Returns what the answer to a full request for the normalised `url` shows. Raises nothing, for any body.

    In a process of its own: PDF documents and pages are parsed.
    """
    if outcome.body is None:
        obstacle, reason = _without_page(outcome)
        return _recognition(None, obstacle=obstacle, reason=reason)
    body, content_type = outcome.body, outcome.content_type
    if is_pdf(body, content_type):
        return _of_text(
            AddressKind.PDF, "", normalise(body, content_type).content, _("the document has no text, only pictures")
        )
    read = normalise(body, content_type)
    match read.media:
        case Media.FEED:
            title = feed_title(classify(body, content_type)[1])
            entries = "\n".join(entry.title or entry.text for entry in read.entries[:LINES])
            return _of_text(AddressKind.FEED, title, entries.encode(), "")
        case Media.BINARY:
            return _recognition(AddressKind.FILE)
        case Media.JSON:
            return _of_text(AddressKind.JSON, "", read.content, _("it answered with nothing"))
        case _ if read_sitemap(body, content_type) is not None:
            return _of_text(AddressKind.LIST, "", read.content, "")
        case Media.TEXT:
            return _of_text(AddressKind.TEXT, "", read.content, _("it answered with nothing"))
    _media, html = classify(body, content_type)
    return _of_html(html, read.content.decode("utf-8", "replace"), read.no_text, url)


def _recognition(
    kind: AddressKind | None,
    *,
    title: str = "",
    lines: tuple[str, ...] = (),
    price: _Price = ("", {}),
    obstacle: Obstacle | None = None,
    reason: str = "",
    feeds: tuple[str, ...] = (),
) -> Recognition:
    cure = "" if obstacle is None else _(_CURES.get(obstacle, ""))
    return Recognition(kind, title, lines, *price, obstacle, reason, cure, feeds)


def _of_text(kind: AddressKind, title: str, content: bytes, nothing: str) -> Recognition:
    """nothing: the reason if there is no text; empty: that is no obstacle."""
    lines = _lines(content.decode("utf-8", "replace"))
    if lines or not nothing:
        return _recognition(kind, title=title, lines=lines)
    return _recognition(kind, title=title, obstacle=Obstacle.NO_TEXT, reason=nothing)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(islice(filter(None, map(one_printable_line, text.split("\n"))), LINES))


def _without_page(outcome: Outcome) -> tuple[Obstacle, str]:
    """Returns what is in the way where no page came."""
    match outcome.kind, outcome.status:
        case OutcomeKind.DENIED, _:
            return Obstacle.ROBOTS, _("the site's robots.txt does not allow programs to read this address")
        case _, HTTPStatus.UNAUTHORIZED:
            return Obstacle.PASSWORD, _("the site asks for a user name and password (401)")
        case _, HTTPStatus.FORBIDDEN:
            return Obstacle.CHALLENGE, _("the site refuses programs, or clients that are not signed in (403)")
        case _, HTTPStatus.SERVICE_UNAVAILABLE | HTTPStatus.ACCEPTED if compiled(_CHALLENGE_TEXT).search(
            outcome.detail
        ):
            return Obstacle.CHALLENGE, _("the site tests whether a person asks ({status})", status=outcome.status)
        case _, HTTPStatus.ACCEPTED:
            return Obstacle.CHALLENGE, _("the site answers with a test instead of the page (202)")
        case OutcomeKind.PROTOCOL_ERROR, _ if recognised(outcome.detail, (Detail.REDIRECT_LOOP,)):
            return Obstacle.COOKIES, _("the site redirects clients without its cookies in circles")
    return Obstacle.FAILURE, outcome.detail or _("no page came: {kind}", kind=outcome.kind.in_words)


def _of_html(html: bytes, text: str, no_text: str, url: str) -> Recognition:
    if is_tag_bomb(html):
        return _recognition(AddressKind.PAGE, lines=_lines(text))
    tree = LexborHTMLParser(html)
    node = tree.css_first("title")
    title = "" if node is None else one_printable_line(node.text())
    lines = [line for line in text.split("\n") if line.strip()]
    own = [line for line in lines if line.strip() != title]
    obstacle, reason = _obstacle(html, tree, title, own, no_text)
    price = _price(tree) if obstacle is None else None
    return _recognition(
        AddressKind.PAGE if price is None else AddressKind.PRODUCT,
        title=title,
        lines=_lines("\n".join(own)),
        price=price or ("", {}),
        obstacle=obstacle,
        reason=reason,
        feeds=page_links(html, url).feeds,
    )


def _obstacle(
    html: bytes, tree: LexborHTMLParser, title: str, own: list[str], no_text: str
) -> tuple[Obstacle | None, str]:
    """Returns what is in the way of a page with these lines besides its title, the likeliest first."""
    text = "\n".join(own)
    if len(text) <= _SHORT_TEXT:
        markup = html.decode("utf-8", "replace")
        tests = compiled(_CHALLENGE_TEXT).search(f"{title}\n{text}") is not None
        guarded = (tests or not text) and compiled(_GUARDED_MARKUP).search(markup)
        if guarded or compiled(_CHALLENGE_MARKUP).search(markup):
            return Obstacle.CHALLENGE, _("the page tests by a script whether a person asks")
        if tests and len(text) <= _FEW_WORDS:
            return Obstacle.CHALLENGE, _("the page is a test whether a person asks, or says that access is denied")
        words = f"{title}\n{text}\n{_words_of_forms(tree)}"
        if tree.css_first("input[type=password]") is not None and compiled(_SIGN_IN).search(words):
            return Obstacle.PASSWORD, _("the page is a form to sign in")
    rest = [line for line in _without_banners(html, own) if line.strip() != title]
    size = sum(map(len, rest))
    if size <= _FEW_WORDS and _is_shell(html, tree, "\n".join(rest)):
        return Obstacle.SCRIPTS, _("the page is nearly empty until its scripts have run")
    if size <= _LONGEST_WALL and _is_about_consent(own if size <= _NEXT_TO_NOTHING else rest, size):
        return Obstacle.COOKIES, _("nearly all that the page says is a question about cookies")
    if no_text:
        by_scripts = recognised(no_text, (Detail.NO_TEXT_WITHOUT_SCRIPTS,)) is not None
        return (Obstacle.SCRIPTS if by_scripts else Obstacle.NO_TEXT), no_text
    return (None, "") if text.strip() else (Obstacle.NO_TEXT, _("the page has no text"))


def _without_banners(html: bytes, lines: list[str]) -> list[str]:
    """Returns the lines of a page without what its markup calls a question about cookies."""
    tree = LexborHTMLParser(html)
    banners = [node for node in tree.css(_BANNERS) if node.tag not in ("html", "body", "main", "article", "script")]
    if not banners:
        return lines
    for node in banners:
        node.decompose()
    return [line for line in visible_text((tree.html or "").encode()).decode("utf-8", "replace").split("\n") if line]


def _is_about_consent(lines: list[str], rest: int) -> bool:
    """rest: characters of the page that stand in no banner."""
    about = [line for line in lines if compiled(_CONSENT).search(line)]
    words = sum(1 for line in about for _word in compiled(_CONSENT).finditer(line))
    share = _CONSENT_SHARE if rest <= _SHORT_TEXT else 2 * _CONSENT_SHARE
    return words >= _CONSENTS and len(about) >= share * len(lines)


def _words_of_forms(tree: LexborHTMLParser) -> str:
    """Returns the words of a form's buttons and of where it sends to, which say that it signs in."""
    nodes = tree.css("form[action], input[type=submit], button")
    return "\n".join(
        f"{node.attributes.get('action') or ''} {node.attributes.get('value') or ''} {node.text()}" for node in nodes
    )


def _is_shell(html: bytes, tree: LexborHTMLParser, text: str) -> bool:
    """text: that stands in no banner."""
    if b"<script" not in html.lower():
        return False
    asks = compiled(_NEEDS_SCRIPTS)
    if asks.search(text) or (
        len(text) <= _FEW_WORDS / 2 and any(asks.search(node.text()) for node in tree.css("noscript"))
    ):
        return True
    places = (node for node in tree.css("body [id]") if compiled(_APPLICATION).match(node.attributes.get("id") or ""))
    shown = next((one_printable_line(node.text()) for node in places), None)
    return shown is not None and (not shown or compiled(_LOADING).match(shown) is not None)


def _price(tree: LexborHTMLParser) -> _Price | None:
    """Returns the price that a page states of its one product, and where; None: it states no product, or several."""
    products = [node for node in _linked_data(tree) if _is_product(node)]
    if len(products) > 1:
        products = products[:1] if all("offers" not in other for other in products[1:]) else []
    for product in products:
        return _offered(product.get("offers"))
    for kind in ("product", "og"):
        amount = tree.css_first(f'meta[property="{kind}:price:amount"]')
        if amount is not None:
            currency = tree.css_first(f'meta[property="{kind}:price:currency"]')
            shown = _joined(amount.attributes.get("content"), currency and currency.attributes.get("content"))
            return shown, {"css": f'meta[property="{kind}:price:amount"]', "attribute": "content"}
    items = tree.css('[itemtype*="schema.org/Product"]')
    if len(items) == 1:
        price, currency = items[0].css_first("[itemprop=price]"), items[0].css_first("[itemprop=priceCurrency]")
        amount_text = None if price is None else price.attributes.get("content") or price.text(strip=True)
        stated = "" if currency is None else currency.attributes.get("content") or currency.text(strip=True)
        place = {"css": '[itemtype*="schema.org/Product"] [itemprop=price]'}
        if price is not None and price.attributes.get("content"):
            place["attribute"] = "content"
        return _joined(amount_text, stated), place if amount_text else {}
    return None


def _linked_data(tree: LexborHTMLParser) -> Iterator[dict[str, Any]]:
    """Yields the objects of a page's JSON-LD, outer ones first."""
    waiting: list[Any] = []
    for node in tree.css('script[type="application/ld+json"]'):
        try:
            waiting.append(orjson.loads(node.text()))
        except orjson.JSONDecodeError:
            continue
    for _node in range(_MOST_NODES):
        if not waiting:
            return
        value = waiting.pop(0)
        if isinstance(value, dict):
            yield value
            waiting += [value[key] for key in ("@graph", "mainEntity", "mainEntityOfPage") if key in value]
        elif isinstance(value, list):
            waiting += value


def _is_product(node: dict[str, Any]) -> bool:
    types = node.get("@type")
    names = types if isinstance(types, list) else [types]
    return any(str(name).rsplit("/", 1)[-1].lower() in _PRODUCT_TYPES for name in names)


def _offered(offers: Any) -> _Price:
    for offer in offers if isinstance(offers, list) else [offers]:
        if isinstance(offer, dict):
            stated = offer.get("priceSpecification")
            of = stated if isinstance(stated, dict) and "price" in stated else offer
            key = "price" if "price" in of else "lowPrice"
            shown = _joined(of.get(key), of.get("priceCurrency", offer.get("priceCurrency")))
            if shown:
                return shown, {"jsonpath": f"$..offers..{key}"}
    return "", {}


def _joined(amount: object, currency: object) -> str:
    """Returns an amount with its currency, as the page writes them."""
    if not isinstance(amount, str | int | float) or isinstance(amount, bool) or not str(amount).strip():
        return ""
    return "".join(sign for sign in f"{amount} {currency or ''}".strip()[:40] if sign.isprintable())
