"""Timings and instants in words."""

import pytest
from hypothesis import given

from agentsched.core.cron import parse
from agentsched.core.problems import Refused
from agentsched.core.summary import run_view, summary
from agentsched.core.timing import build_timing
from tests.core.expressions import bounded, expressions
from tests.core.oracle import Expression, utc

NOW = utc("2026-06-10T08:30")
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 9 * * 1-5", "Every weekday at 09:00 (Europe/Berlin)"),
        ("0 9 * * *", "Every day at 09:00 (Europe/Berlin)"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("* * * * *", "Every minute"),
        ("0 * * * *", "Every hour"),
        ("5 * * * *", "Every hour at 5 minutes past"),
        ("@daily", "Every day at 00:00 (Europe/Berlin)"),
        ("@hourly", "Every hour"),
        ("@weekly", "Every Sunday at 00:00 (Europe/Berlin)"),
        ("@monthly", "On the 1st of every month at 00:00 (Europe/Berlin)"),
        ("@yearly", "On the 1st of January at 00:00 (Europe/Berlin)"),
        ("0 9 15 * 1", "On the 15th, and also every Monday, at 09:00 (Europe/Berlin)"),
        (
            "0 9 1 1,7 1",
            "On the 1st of January and July, and also every Monday in January and July, at 09:00 (Europe/Berlin)",
        ),
        ("0 9 */2 * 1", "Every Monday that falls on an odd day at 09:00 (Europe/Berlin)"),
        ("0 9 */10 * 1", "Every Monday that falls on the 1st, the 11th, the 21st or the 31st at 09:00 (Europe/Berlin)"),
        (
            "0 9 15 * */2",
            "On the 15th of every month that falls on a Tuesday, Thursday, Saturday or Sunday at 09:00 (Europe/Berlin)",
        ),
        ("0 9 */2 * *", "On odd days of every month at 09:00 (Europe/Berlin)"),
        ("0 9 2/2 * *", "On even days of every month at 09:00 (Europe/Berlin)"),
        ("0 22-2 * * *", "Every hour from 22:00 to 02:00 (Europe/Berlin)"),
        ("*/10 22-2 * * *", "Every 10 minutes between 22:00 and 02:59 (Europe/Berlin)"),
        ("0 9-17 * * 1-5", "Every hour from 09:00 to 17:00, every weekday (Europe/Berlin)"),
        ("59/15 * * * *", "Every hour at 59 minutes past"),
        ("5/25 * * * *", "At 5, 30, and 55 minutes past the hour"),
        ("*/45 * * * *", "At 0 and 45 minutes past the hour"),
        ("*/7 * * * *", "Every 7 minutes from the full hour on"),
        ("0 */2 * * *", "Every 2 hours (Europe/Berlin)"),
        ("15 */6 * * *", "Every 6 hours at 15 minutes past (Europe/Berlin)"),
        ("0 */5 * * *", "Every day at 00:00, 05:00, 10:00, 15:00 and 20:00 (Europe/Berlin)"),
        ("*/20 */2 * * *", "Every 20 minutes in every 2nd hour (Europe/Berlin)"),
        ("*/20 3,9 * * *", "Every 20 minutes in the hours of 03:00 and 09:00 (Europe/Berlin)"),
        ("0 9,12,17 * * *", "Every day at 09:00, 12:00 and 17:00 (Europe/Berlin)"),
        ("0 9 L * *", "On the last day of every month at 09:00 (Europe/Berlin)"),
        ("0 9 1,L * *", "On the 1st and the last day of every month at 09:00 (Europe/Berlin)"),
        ("0 9 1-7 * *", "On the 1st to 7th of every month at 09:00 (Europe/Berlin)"),
        ("0 9 15W * *", "On the weekday nearest the 15th of every month at 09:00 (Europe/Berlin)"),
        ("0 9 * * 5#1,5#3", "On the first Friday and the third Friday of the month at 09:00 (Europe/Berlin)"),
        ("0 9 * * L5", "On the last Friday of the month at 09:00 (Europe/Berlin)"),
        ("0 9 * * sat-mon", "Every Monday, Saturday and Sunday at 09:00 (Europe/Berlin)"),
        ("0 9 * 6-8 1-5", "Every weekday in June to August at 09:00 (Europe/Berlin)"),
        ("0 9 * nov-feb *", "Every day in November to February at 09:00 (Europe/Berlin)"),
        ("0 0 29 2 *", "On the 29th of February at 00:00 (Europe/Berlin)"),
        ("*/5 * 1 * *", "Every 5 minutes, on the 1st of every month (Europe/Berlin)"),
    ],
)
def test_cron(cron: str, words: str) -> None:
    assert summary(build_timing(cron=cron, timezone=BERLIN, now=NOW)) == words


@pytest.mark.parametrize(
    ("every", "words"),
    [
        ("1m", "Every minute"),
        ("15m", "Every 15 minutes"),
        ("1h", "Every hour"),
        ("90m", "Every 1 hour and 30 minutes"),
        ("1d", "Every 24 hours"),
        ("1w", "Every 7 days"),
    ],
)
def test_interval(every: str, words: str) -> None:
    assert summary(build_timing(every=every, timezone=BERLIN, now=NOW)) == words


def test_once() -> None:
    timing = build_timing(at="2026-12-03T09:00", timezone=BERLIN, now=NOW)
    assert summary(timing) == "Once on Thu 2026-12-03 at 09:00 (Europe/Berlin)"


def test_webhook() -> None:
    assert summary(build_timing(webhook=True, timezone=BERLIN, now=NOW)) == "On a webhook call"


@bounded(150)
@given(expressions())
def test_every_expression_has_words(expression: Expression) -> None:
    try:
        either = parse(expression.text).either_day
    except Refused:
        return
    words = summary(build_timing(cron=expression.text, timezone=BERLIN, now=NOW))
    assert words[0].isupper()
    assert ("and also" in words) == either
    assert "?" not in words


@pytest.mark.parametrize(
    ("instant", "zone", "local"),
    [
        ("2026-10-26T08:00", BERLIN, "Mon 2026-10-26 09:00 +01:00"),
        ("2026-10-25T00:30", BERLIN, "Sun 2026-10-25 02:30 +02:00"),
        ("2026-10-26T08:00", "UTC", "Mon 2026-10-26 08:00 +00:00"),
        ("2026-10-26T08:00", "America/St_Johns", "Mon 2026-10-26 05:30 -02:30"),
        ("2026-10-26T23:00", "Asia/Kathmandu", "Tue 2026-10-27 04:45 +05:45"),
    ],
)
def test_an_instant_on_local_clocks_and_in_utc(instant: str, zone: str, local: str) -> None:
    assert run_view(utc(instant), zone) == {"local": local, "utc": f"{instant}:00Z"}
