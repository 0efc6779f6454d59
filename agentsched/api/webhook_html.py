"""The page at which a person gets the secret address of a webhook: no scripts, nothing from any other address."""

from datetime import datetime
from html import escape

from agentsched.api.docs_page import STYLE
from agentsched.service.rotate_token import Webhook

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

EXPLANATION = (
    "This schedule runs whenever another system sends a POST to its address. The address holds a secret token, which "
    "models are never shown. It can be made here with your own API key, and is shown only once."
)


def about(webhook: Webhook) -> str:
    """What there is, and what the button will do."""
    name = "" if webhook.row.name is None else f", “{webhook.row.name}”,"
    if webhook.has_token:
        return (
            f"Schedule {webhook.row.id}{name} has a token. A new one can be made; those before it work for a day more."
        )
    return f"Schedule {webhook.row.id}{name} has no token yet, so nobody can call it. Make its first one."


def form_page(schedule_id: int, said: str | None = None) -> str:
    """The explanation, what was found or refused, and the form."""
    found = "" if said is None else f"<p><strong>{escape(said)}</strong></p>"
    return _page(
        f"<p>{escape(EXPLANATION)}</p>{found}"
        f'<form method="post" action="/schedules/{schedule_id}/webhook">'
        '<p><label>Your API key <input type="password" name="key" required autocomplete="off" size="50"></label></p>'
        "<p><button>Make a new token</button></p></form>"
        "<p>The key is on the machine of the service, where <code>agentsched up</code> says; or make one with "
        "<code>agentsched keys create</code>.</p>"
    )


def token_page(url: str, old_valid_until: datetime) -> str:
    """The address, once."""
    return _page(
        f"<p>This is the address. It is shown only now; keep it like a password.</p><p><code>{escape(url)}</code></p>"
        f"<p>Try it: <code>curl -X POST {escape(url)}</code></p>"
        f"<p>Tokens made before work until {escape(old_valid_until.strftime('%Y-%m-%d %H:%M UTC'))} at most.</p>"
    )


def _page(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Webhook</title><style>{STYLE}</style></head><body><h1>Webhook</h1>{body}</body></html>"
    )
