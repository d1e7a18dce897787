"""Noise by form: phrases in many languages that change by themselves, and what looks like them and is none."""

from __future__ import annotations

import time

import pytest

from pollerd.detection.noise.clocks import follows_time, is_clock
from pollerd.detection.noise.forms import NoiseForm, differing_forms, grows, named, without_forms
from pollerd.detection.noise.states import may_alternate

AGO = """
    3 minutes ago | an hour ago | 3h ago | 1 hour, 5 minutes ago | half an hour ago | less than a minute ago | just now
    a few seconds ago | moments ago | yesterday | vor 3 Minuten | Vor einer Stunde | vor etwa 2 Std. | gerade eben
    vor wenigen Sekunden | gestern | il y a 3 min | Il y a une heure | il y a moins d'une minute | à l'instant | hier
    hace 5 minutos | Hace un momento | hace unos segundos | ahora mismo | ayer | 5 minuti fa | un'ora fa | poco fa
    un minuto fa | há 5 minutos | há cerca de 2 horas | 5 minutos atrás | agora mesmo | ontem | 3 minuten geleden
    een uur geleden | zojuist | gisteren | 3 minuty temu | godzinę temu | chwilę temu | przed chwilą | wczoraj
    3 мин назад | минуту назад | 2 часа назад
    несколько секунд назад | только что | 3分前 | 約2時間前 | 昨日 | たった今
    3分钟前 | 5分鐘前 | 2小时前 | 刚刚 | 昨天 | 1个月前 | 3분 전 | 방금 전 | för 3 minuter sedan | 3 minutter siden
    3 minuuttia sitten | 3 dakika önce | 3 perccel ezelőtt | acum o oră | πριν από 3 λεπτά | منذ 3 دقائق | לפני 3 דקות
    3 मिनट पहले | 3 menit yang lalu | 3 phút trước | 3 นาทีที่แล้ว | před hodinou | 3 хвилини тому
"""
VIEWS = """
    1,234 views | 1.234 Aufrufe | visitors today: 532 | 1.2K views | Views: 1,234 | 12 345 vues | 1.234 visitas
    1.234 visualizaciones | visualizzazioni: 1.234 | 1.234 visualizações | 1.234 weergaven | 1 234 wyświetleń
    1 234 просмотра | Просмотров: 532 | 1,234 回視聴
    閲覧数：1234 | 12人が閲覧中 | 浏览量：1234 | 1.2万次观看 | 阅读数 532
    조회수 1,234 | Besucher heute: 532 | 532 visitors online | 12 users online | visiteurs : 532 | Viewed 1,234 times
    1234 mal gelesen | Vu 12 fois | visto 12 veces | 12 keer bekeken | wyświetlono 12 razy | Просмотрено 12 раз
    12 people are viewing this | You are visitor number 12,345 | Sie sind der 532. Besucher | Hits: 123 | Odsłony: 532
    bezoekers vandaag: 532 | 532 visite | Acessos: 532 | посетителей сегодня: 532 | アクセス数: 532 | 今日访问：532
"""
TOOK = """
    Page generated in 0.034 s | Page rendered in 35 ms | Seite in 0,034 Sekunden generiert | Page générée en 0,034 s
    Página generada en 0.03 segundos | Pagina generata in 0,03 secondi | Página gerada em 0,03 segundos
    Pagina gegenereerd in 0.03 seconden | Strona wygenerowana w 0.03 s | Страница сгенерирована за 0.03 сек.
    ページ生成時間: 0.03秒 | 页面执行时间 0.03 秒 | Processed in 0.031 second(s), 12 queries | Ladezeit: 0,3 s
"""
NONE_OF_THEM = """
    Price 12.99 | € 1.299 | 12 comments | 5 reviews | 3 in stock
    Only 3 left | Version 1.2.3 | Published on 28 Nov 2026
    Valid until 14:32 | In stock | sold out | vor 3 Personen | Ships in 3 days | lieferbar in 3 Tagen | Closed today
    Il y a 5 produits | hace 5 goles | 3日前まで予約可 | Room with a view | The museum had 532 visitors in 2025
    10 hits of the 80s | 1,230 results | 23 likes | 12 downloads | operational | down | Delivery took 3 weeks | 14:32:07
    created 2026-11-28 | Match ended 3-1 | Uptime 99.98 % | Response time: 350 ms | 2 hours long | 10 min read
    in 5 minutes | Starts in 3 hours | noch 3 Tage | 前5名 | 2026年11月28日 | Online seit 2001 | 价格 100 在线客服
"""


def phrases(text: str) -> list[str]:
    return [phrase for line in text.split("\n") for one in line.split(" | ") if (phrase := one.strip())]


@pytest.mark.parametrize(
    ("form", "phrase"),
    [
        (form, one)
        for form, text in ((NoiseForm.AGO, AGO), (NoiseForm.VIEWS, VIEWS), (NoiseForm.TOOK, TOOK))
        for one in phrases(text)
    ],
)
def test_a_phrase_of_a_form_is_hidden_whatever_its_number(form: NoiseForm, phrase: str) -> None:
    hidden = without_forms(phrase.encode(), [form]).decode()
    assert named(form) in hidden
    assert not any(map(str.isdigit, hidden))


@pytest.mark.parametrize("phrase", phrases(NONE_OF_THEM))
def test_what_only_looks_like_a_form_is_kept(phrase: str) -> None:
    assert without_forms(phrase.encode(), tuple(NoiseForm)).decode() == phrase


def test_only_the_phrase_is_hidden() -> None:
    line = "Restocked 3 minutes ago: 5 left, 1,234 views, 12.99 €"
    ago, views = named(NoiseForm.AGO), named(NoiseForm.VIEWS)
    assert without_forms(line.encode(), tuple(NoiseForm)).decode() == f"Restocked {ago}: 5 left, {views}, 12.99 €"


def test_a_day_by_its_name_keeps_the_time_beside_it() -> None:
    assert without_forms(b"Yesterday at 14:32", [NoiseForm.AGO]) == named(NoiseForm.AGO).encode() + b" at 14:32"


def test_a_number_of_its_own_is_a_counter_beside_the_line_that_says_so() -> None:
    name = named(NoiseForm.VIEWS)
    given = "Views\n1,234\nEnd\n12\nviews\nItems\n7\nVisitors today:\n532"
    wanted = f"Views\n{name}\nEnd\n{name}\nviews\nItems\n7\nVisitors today:\n{name}"
    assert without_forms(given.encode(), [NoiseForm.VIEWS]).decode() == wanted


@pytest.mark.parametrize("given", ["Price\n1,299\nViews\n1,234", "5\nviews\n12\ncomments"])
def test_a_number_beside_a_line_that_may_say_what_another_counts_is_kept(given: str) -> None:
    assert without_forms(given.encode(), [NoiseForm.VIEWS]).decode() == given


def test_bytes_that_are_no_text_stay_and_lines_stay_lines() -> None:
    content = b"\xff\xfe 3 minutes ago\n\n\x00 x\r\n\xed\xa0\x80 5 views"
    hidden = without_forms(content, tuple(NoiseForm))
    assert hidden.count(b"\n") == content.count(b"\n")
    assert hidden.startswith(b"\xff\xfe ")
    assert b"\xed\xa0\x80" in hidden
    assert without_forms(hidden, tuple(NoiseForm)) == hidden


def test_the_forms_that_differ_are_named_with_an_example() -> None:
    before = b"Post\n2 minutes ago \xc2\xb7 10 views\n5 comments"
    after = b"New post\n1 minute ago\nPost\n3 minutes ago \xc2\xb7 11 views\n6 comments"
    assert differing_forms(before, after) == {NoiseForm.AGO: "3 minutes ago", NoiseForm.VIEWS: "11 views"}
    assert differing_forms(b"10 views\nx", b"10 views\ny") == {}
    assert differing_forms(b"Views:\n10\nPosts\n7", b"Views:\n11\nPosts\n7") == {NoiseForm.VIEWS: "11"}
    assert differing_forms(b"10 views, 5 left", b"11 views, 4 left") == {}


@pytest.mark.parametrize(
    "line",
    ["1 s ", "view ", "1,", "about ", "1 hour, ", "online ", "|", "1 people ", "浏览 ", "generated ", "9", "today "],
)
def test_hostile_lines_take_no_more_than_their_length(line: str) -> None:
    """Twice the text takes about twice the time: the bound is thrice over the whole of five doublings.

    By the least of several times of each: what a busy machine adds is not the text's.
    """

    def seconds(times: int) -> float:
        content = ("\n".join([line * (3_000 // len(line)) + " view 1 s ago sec 前"] * times)).encode()
        began = time.process_time()
        without_forms(content, tuple(NoiseForm))
        return time.process_time() - began

    bound = 3 * 32 * max(min(seconds(1) for _ in range(5)), 0.002)
    assert any(seconds(32) < bound for _ in range(3))


AT = 1_795_876_320.0  # 14:32:00 UTC
CLOCKS = [
    ("14:32:07", "14:33:09", 7, 69, True),
    ("Generated 2026-11-28 14:32:07", "Generated 2026-11-28 14:32:10", 7, 10, True),
    ("Stand: 15:32 Uhr", "Stand: 15:33 Uhr", 50, 65, True),
    ("Stand 14.32 Uhr", "Stand 14.33 Uhr", 50, 65, True),
    ("Il est 14h32", "Il est 14h33", 50, 65, True),
    ("現在23時32分", "現在23時33分", 50, 65, True),
    ("DTSTAMP:20261128T143207Z", "DTSTAMP:20261128T143210Z", 7, 10, True),
    ('"at": 1795876327,', '"at": 1795876330,', 7, 10, True),
    ("2:32 PM", "2:33 PM", 50, 65, True),
    ("Published 14:32", "Published 14:33", 50, 65, False),
    ("Gültig bis 14:32", "Gültig bis 14:33", 50, 65, False),
    ("Next train 14:32", "Next train 14:45", 50, 65, False),
    ("Price 14.32", "Price 14.33", 50, 65, False),
    ("Open 9:00", "Open 10:00", 50, 65, False),
    ("Updated 10:00:00", "Updated 14:33:00", 50, 65, False),
    ("Score 14:32", "Score 14:35", 50, 65, False),
    ("14:32 x", "14:33 y", 50, 65, False),
    ("14:32", "14:32", 50, 55, False),
]


@pytest.mark.parametrize(("before", "after", "at", "later", "wanted"), CLOCKS)
def test_a_clock_shows_when_the_page_was_asked(before: str, after: str, at: float, later: float, wanted: bool) -> None:
    assert is_clock(before, after, AT + at, AT + later) is wanted


NEVER = [
    ("In stock", "Sold out"),
    ("in stock", ""),
    ("operational", "down"),
    ("Auf Lager", "Ausverkauft"),
    ("Nicht verfügbar", "verfügbar"),
    ("en stock", "rupture de stock"),
    ("disponible", "agotado"),
    ("disponibile", "esaurito"),
    ("em estoque", "esgotado"),
    ("op voorraad", "uitverkocht"),
    ("dostępny", "wyprzedany"),
    ("в наличии", "нет в наличии"),
    ("在庫あり", "売り切れ"),
    ("有货", "缺货"),
    ("Open", "Closed"),
    ("Up", "Down"),
    ("v1.2", "v1.3"),
    ("€ 5", "€ 6"),
    ("12.99", "13.99"),
    ("Published 3 May 2026", "Published 4 May 2026"),
]


@pytest.mark.parametrize(("one", "other"), NEVER)
def test_states_versions_prices_and_dates_do_not_alternate(one: str, other: str) -> None:
    assert not may_alternate(one.encode(), other.encode())
    assert not may_alternate(other.encode(), one.encode())


@pytest.mark.parametrize(
    ("one", "other"), [("Buy now for less", "Order today and save"), ("We use cookies. Accept all", ""), ("532", "531")]
)
def test_other_texts_may_alternate(one: str, other: str) -> None:
    assert may_alternate(one.encode(), other.encode())


RUNNING = [
    ("Tiempo: 3 min", "Tiempo: 4 min", 62.0, True),
    ("Uptime: 3 h 20 min", "Uptime: 3 h 25 min", 300.0, True),
    ("00:13:45", "00:14:45", 60.0, True),
    ("noch 5 Min", "noch 4 Min", 55.0, True),
    ("59 s", "61 s", 2.0, True),
    ("23:59:59", "00:00:01", 2.0, True),
    ("3分", "4分", 60.0, True),
    ("5 min", "9 min", 60.0, False),
    ("5 min", "5 min", 60.0, False),
    ("Value 5", "Value 6", 60.0, False),
    ("3 Personen", "4 Personen", 60.0, False),
    ("Version 5", "Version 6", 1.0, False),
    ("Published 14:32", "Published 14:33", 60.0, False),
]


@pytest.mark.parametrize(("before", "after", "elapsed", "wanted"), RUNNING)
def test_a_time_runs_if_it_went_on_by_what_passed(before: str, after: str, elapsed: float, wanted: bool) -> None:
    assert follows_time(before, after, elapsed) is wanted


def test_a_counter_grows_near_its_word() -> None:
    assert grows("read by 532 of you", "read by 533 of you")
    for before, after in [
        ("viewed by 5", "viewed by 4"),
        ("Price 5", "Price 6"),
        ("downloads 3", "downloads 4"),
        ("5 items, 3 readers", "6 items, 4 readers"),
        ("Items 5 at the end of a line for its readers", "Items 6 at the end of a line for its readers"),
    ]:
        assert not grows(before, after)
