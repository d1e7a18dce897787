"""What an address is and what is in the way, by answers of every kind."""

from __future__ import annotations

import pytest

from pollerd.api.inputs import check_selections
from pollerd.detection.selection.preview import preview
from pollerd.lists.recognise import AddressKind, Obstacle, recognise
from pollerd.model import Outcome, OutcomeKind

URL = "https://example.org/a"
ARTICLE = "".join(
    f"<p>In paragraph {n} the council of the town decided how the bridge is to be repaired.</p>" for n in range(30)
)
BANNER = (
    '<div id="onetrust-banner-sdk"><h2>We value your privacy</h2><p>We use cookies. Our 812 partners store and access'
    " information.</p><button>Accept all</button><button>Reject all</button><button>Manage preferences</button></div>"
)
WALL = (
    "<h1>Before you continue</h1><p>We use cookies and data to deliver our services.</p><p>If you choose Accept all, we"
    " will also use cookies to show ads.</p><form><button>Reject all</button><button>Accept all</button></form>"
    "<a>More options</a><a>Privacy</a><a>Terms</a>"
)
ABOUT_COOKIES = "".join(
    f"<p>{n}. Sites ask for consent: we use cookies, they say, accept all or reject all. The law of {2000 + n} wants a"
    " free choice, and courts have decided many times what that means for banners.</p>"
    for n in range(40)
)
JSON_LD = '<script type="application/ld+json">%s</script>'


def page(body: str, title: str = "News", head: str = "") -> str:
    return f"<html><head><title>{title}</title>{head}</head><body>{body}</body></html>"


PAGES: dict[str, tuple[str, AddressKind, Obstacle | None]] = {
    "an article": (page(ARTICLE), AddressKind.PAGE, None),
    "a short page": (page("<h1>Opening hours</h1><p>Monday to Friday, 9 to 17.</p>"), AddressKind.PAGE, None),
    "an article under a banner": (page(BANNER + ARTICLE), AddressKind.PAGE, None),
    "a short page under a banner": (
        page(
            f"{BANNER}<h1>Opening hours</h1>" + "<p>Monday to Friday from nine to five o'clock, closed in July.</p>" * 8
        ),
        AddressKind.PAGE,
        None,
    ),
    "a long article about cookies": (page(ABOUT_COOKIES, "Cookie law"), AddressKind.PAGE, None),
    "a page with a form to sign in beside its text": (
        page(ARTICLE + '<form action="/login"><input type=password><button>Sign in</button></form>'),
        AddressKind.PAGE,
        None,
    ),
    "an article about captchas": (
        page(ARTICLE + "<p>What is a captcha? A security check.</p>"),
        AddressKind.PAGE,
        None,
    ),
    "an application whose text is there": (
        page(f'<div id="__next">{ARTICLE}</div><script src="/app.js"></script><noscript>Enable JavaScript</noscript>'),
        AddressKind.PAGE,
        None,
    ),
    "a newsletter form with a captcha": (
        page(ARTICLE + '<div class="g-recaptcha" data-sitekey="x"></div>'),
        AddressKind.PAGE,
        None,
    ),
    "a very short page under a banner": (
        page(f"{BANNER}<h1>Opening hours</h1><p>Monday to Friday, from nine to five.</p>"),
        AddressKind.PAGE,
        None,
    ),
    "a form with a captcha": (
        page(
            '<h1>Contact</h1><p>Write to us, we answer within two days.</p><form><div class="g-recaptcha"></div></form>'
        ),
        AddressKind.PAGE,
        None,
    ),
    "a short page behind Cloudflare": (
        page('<p>All systems run.</p><script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script>'),
        AddressKind.PAGE,
        None,
    ),
    "a short application that was drawn by the server": (
        page('<div id="root"><h1>Status</h1><p>All systems operational</p></div><script src="/a.js"></script>'),
        AddressKind.PAGE,
        None,
    ),
    "a cookie wall": (page(WALL, "Before you continue"), AddressKind.PAGE, Obstacle.COOKIES),
    "a cookie wall in German": (
        page(
            "<h1>Mit Werbung lesen</h1><p>Wir verwenden Cookies und 812 Partner.</p><button>Alle akzeptieren</button>"
            "<p>Ihre Einwilligung können Sie jederzeit widerrufen.</p><a>Ablehnen und abonnieren</a><a>Impressum</a>",
            "Privatsphäre",
        ),
        AddressKind.PAGE,
        Obstacle.COOKIES,
    ),
    "a cookie wall in French": (
        page(
            "<p>Nous utilisons des cookies avec nos partenaires.</p>"
            "<button>Tout accepter</button><button>Refuser</button>"
            "<p>Votre consentement vaut six mois.</p>"
        ),
        AddressKind.PAGE,
        Obstacle.COOKIES,
    ),
    "nothing but a banner": (page(BANNER + "<footer>© 2026</footer>"), AddressKind.PAGE, Obstacle.COOKIES),
    "a long cookie wall": (
        page(WALL + "".join(f"<p>Partner {n}: consent, legitimate interest, store and access.</p>" for n in range(40))),
        AddressKind.PAGE,
        Obstacle.COOKIES,
    ),
    "a challenge of Cloudflare's": (
        page(
            '<h1>example.org</h1><p>Verifying you are human. This may take a few seconds.</p><script src="/cdn-cgi/'
            'challenge-platform/h/b/orchestrate/chl_page/v1"></script>',
            "Just a moment...",
        ),
        AddressKind.PAGE,
        Obstacle.CHALLENGE,
    ),
    "a challenge without a word": (
        '<html><head></head><body><script src="https://ct.captcha-delivery.com/c.js"></script></body></html>',
        AddressKind.PAGE,
        Obstacle.CHALLENGE,
    ),
    "a notice that access is denied": (
        page(
            "<h1>Access Denied</h1><p>You don't have permission to access this page. Reference #18.2</p>",
            "Access Denied",
        ),
        AddressKind.PAGE,
        Obstacle.CHALLENGE,
    ),
    "press and hold": (
        page("<p>Press &amp; Hold to confirm you are a human (and not a bot).</p>", "Robot?"),
        AddressKind.PAGE,
        Obstacle.CHALLENGE,
    ),
    "a form to sign in": (
        page('<h1>Intranet</h1><form><input name=u><input type="password"><button>Log in</button></form>'),
        AddressKind.PAGE,
        Obstacle.PASSWORD,
    ),
    "a form to sign in, in German": (
        page("<h1>Mitglieder</h1><form><input type=password><button>Anmelden</button><a>Passwort vergessen</a></form>"),
        AddressKind.PAGE,
        Obstacle.PASSWORD,
    ),
    "a shell of React's": (
        page('<noscript>You need to enable JavaScript.</noscript><div id="root"></div><script src=a></script>'),
        AddressKind.PAGE,
        Obstacle.SCRIPTS,
    ),
    "a shell of Vue's": (
        page('<div id="app"></div><script src="/js/app.js"></script>'),
        AddressKind.PAGE,
        Obstacle.SCRIPTS,
    ),
    "a shell that says that it loads": (
        page('<div id="root"><p>Loading…</p></div><script src="/main.js"></script>'),
        AddressKind.PAGE,
        Obstacle.SCRIPTS,
    ),
    "a shell under a banner": (
        page(f'{BANNER}<div id="app"></div><script src="/js/app.js"></script>'),
        AddressKind.PAGE,
        Obstacle.SCRIPTS,
    ),
    "a shell in German": (
        page("<p>Bitte aktivieren Sie JavaScript, um diese Seite zu sehen.</p><script src=a></script>"),
        AddressKind.PAGE,
        Obstacle.SCRIPTS,
    ),
    "nothing": (page("", ""), AddressKind.PAGE, Obstacle.NO_TEXT),
    "a title only": (page("<img src=a.png>"), AddressKind.PAGE, Obstacle.NO_TEXT),
    "frames": (
        '<html><head><title>Old</title></head><frameset><frame src="/m.html"><frame src="/a.html"></frameset></html>',
        AddressKind.PAGE,
        Obstacle.NO_TEXT,
    ),
    "a product": (
        page(
            ARTICLE + JSON_LD % '{"@context":"https://schema.org","@type":"Product","name":"Machine","offers":'
            '{"@type":"Offer","price":"999.00","priceCurrency":"EUR"}}'
        ),
        AddressKind.PRODUCT,
        None,
    ),
    "a product in a graph": (
        page(
            ARTICLE + JSON_LD % '{"@graph":[{"@type":"WebPage"},{"@type":["Product","Thing"],"offers":[{"lowPrice":5,'
            '"priceCurrency":"CHF"}]}]}'
        ),
        AddressKind.PRODUCT,
        None,
    ),
    "a product by microdata": (
        page(
            f'<div itemscope itemtype="https://schema.org/Product"><span itemprop="price" content="12.50">12,50</span>'
            f'<meta itemprop="priceCurrency" content="EUR">{ARTICLE}</div>'
        ),
        AddressKind.PRODUCT,
        None,
    ),
    "a product by its head": (
        page(
            ARTICLE,
            head='<meta property="product:price:amount" content="7">'
            '<meta property="product:price:currency" content="USD">',
        ),
        AddressKind.PRODUCT,
        None,
    ),
    "a category of products": (
        page(ARTICLE + JSON_LD % '[{"@type":"Product","offers":{"price":1}},{"@type":"Product","offers":{"price":2}}]'),
        AddressKind.PAGE,
        None,
    ),
    "broken JSON-LD": (page(ARTICLE + JSON_LD % '{"@type":"Product",'), AddressKind.PAGE, None),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages(name: str) -> None:
    html, kind, obstacle = PAGES[name]
    found = recognise(Outcome(OutcomeKind.BODY, 1.0, 0.1, 200, body=html.encode(), content_type="text/html"), URL)
    assert (found.kind, found.obstacle) == (kind, obstacle), found
    assert bool(found.reason) == (obstacle is not None)
    assert bool(found.cure) == (obstacle not in (None, Obstacle.NO_TEXT))
    assert obstacle is not None or found.lines, "what is called fine has text"


RSS = (
    '<rss version="2.0"><channel><title>Town news</title><item><title>Bridge</title><link>https://example.org/1</link>'
    "</item></channel></rss>"
)
SITEMAP = (
    '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://example.org/1</loc>'
    "</url></urlset>"
)


@pytest.mark.parametrize(
    ("body", "content_type", "kind", "title"),
    [
        (RSS, "application/rss+xml", AddressKind.FEED, "Town news"),
        (RSS, "text/html", AddressKind.FEED, "Town news"),
        (RSS.replace("<title>Town news</title>", ""), "text/xml", AddressKind.FEED, ""),
        (
            '{"version":"https://jsonfeed.org/version/1.1","title":"Town\\nnews","items":[{"id":"1","title":"Bridge"}]}',
            "application/feed+json",
            AddressKind.FEED,
            "Town news",
        ),
        ('{"a": [1, 2]}', "application/json", AddressKind.JSON, ""),
        (SITEMAP, "application/xml", AddressKind.LIST, ""),
        ("one\ntwo\n", "text/plain", AddressKind.TEXT, ""),
        ("\x00\x01\x02", "application/octet-stream", AddressKind.FILE, ""),
    ],
)
def test_other_media(body: str, content_type: str, kind: AddressKind, title: str) -> None:
    outcome = Outcome(OutcomeKind.BODY, 1.0, 0.1, 200, body=body.encode(), content_type=content_type)
    found = recognise(outcome, URL)
    assert (found.kind, found.title, found.obstacle) == (kind, title, None)
    assert found.kind is not AddressKind.FEED or found.lines == ("Bridge",)


@pytest.mark.parametrize(
    ("kind", "status", "detail", "obstacle"),
    [
        (OutcomeKind.DENIED, None, "", Obstacle.ROBOTS),
        (OutcomeKind.CLIENT_ERROR, 401, "", Obstacle.PASSWORD),
        (OutcomeKind.CLIENT_ERROR, 403, "", Obstacle.CHALLENGE),
        (OutcomeKind.PROTOCOL_ERROR, 202, "", Obstacle.CHALLENGE),
        (OutcomeKind.PROTOCOL_ERROR, 302, "redirect loop at https://example.org/a", Obstacle.COOKIES),
        (OutcomeKind.NOT_FOUND, 404, "", Obstacle.FAILURE),
        (OutcomeKind.TIMEOUT, None, "no complete response within the deadline", Obstacle.FAILURE),
    ],
)
def test_without_a_page(kind: OutcomeKind, status: int | None, detail: str, obstacle: Obstacle) -> None:
    found = recognise(Outcome(kind, 1.0, 0.1, status, detail=detail), URL)
    assert (found.kind, found.obstacle) == (None, obstacle)
    assert found.reason


def test_what_a_page_says_of_itself_is_shown_as_text_of_bounded_length() -> None:
    head = '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'
    html = page("<h1>A \x07bell</h1>" + "<p>" + "word " * 400 + "</p>" + ARTICLE, "  Two\n words ", head)
    found = recognise(Outcome(OutcomeKind.BODY, 1.0, 0.1, 200, body=html.encode(), content_type="text/html"), URL)
    assert found.title == "Two words"
    assert found.feeds == ("https://example.org/feed.xml",)
    assert len(found.lines) == 5
    assert max(map(len, found.lines)) <= 200
    assert all(line.isprintable() for line in found.lines)


def test_prices_are_as_machines_are_told() -> None:
    for name, price in {
        "a product": "999.00 EUR",
        "a product in a graph": "5 CHF",
        "a product by microdata": "12.50 EUR",
        "a product by its head": "7 USD",
    }.items():
        html = PAGES[name][0].encode()
        found = recognise(Outcome(OutcomeKind.BODY, 1.0, 0.1, 200, body=html, content_type="text/html"), URL)
        assert found.price == price
        chosen = {"default": {"values": {"price": {"kind": "price", "from": found.price_from, "which": "first"}}}}
        (read,) = preview(check_selections(chosen), html, "text/html", URL, {}, {}, None)
        assert [float(value.number or 0) for value in read.values] == [float(price.split()[0])]
