"""What went wrong at a model's provider, as a `RunnerError`."""

from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)

from agentsched.runners.protocol import RunnerError

MESSAGE_LENGTH = 500

# The first that matches decides, so that the special stands before the general.
_KINDS: tuple[tuple[type[AgentRunError], str, bool, str], ...] = (
    (ModelQuotaExceededError, "provider_quota", False, "The account for {model} has no quota left"),
    (ModelRateLimitError, "provider_rate_limited", True, "The provider of {model} limits the rate"),
    (ModelTimeoutError, "provider_timeout", True, "The provider of {model} did not answer in time"),
    (ModelRequestTimeout, "provider_timeout", True, "The provider of {model} did not answer in time"),
    (ModelConnectionError, "provider_unreachable", True, "The provider of {model} could not be reached"),
    (ModelUnavailableError, "provider_unavailable", True, "The provider of {model} is unavailable"),
    (ModelServerError, "provider_unavailable", True, "The provider of {model} failed"),
    (ModelContextWindowExceededError, "context_too_long", False, "The conversation is too long for {model}"),
    (ModelAuthenticationError, "provider_refused_key", False, "The provider of {model} refused the API key"),
    (ModelNotFoundError, "model_not_found", False, "The provider does not know {model}"),
    (ModelRequestRejectedError, "provider_refused", False, "The provider of {model} refused the request"),
    (ContentFilterError, "content_filtered", False, "The provider of {model} filtered the content"),
    (OutputTokenLimitExceeded, "output_too_long", False, "{model} reached its limit of tokens in mid-answer"),
    (UsageLimitExceeded, "usage_limit", False, "The turn used up what it may use of {model}"),
    (UnexpectedModelBehavior, "provider_malformed", True, "{model} gave an answer that cannot be used"),
)
# Answers of the 4xx range that say "not now" instead of "no".
_RETRYABLE_STATUS = frozenset({408, 409, 425, 429})


def runner_error(error: AgentRunError, model: str) -> RunnerError:
    """The RunnerError for what pydantic-ai raised while it ran `model`."""
    for kind, code, retryable, sentence in _KINDS:
        if isinstance(error, kind):
            return RunnerError(code, _message(sentence, model, error), retryable=retryable)
    if isinstance(error, ModelHTTPError):
        retryable = error.status_code >= 500 or error.status_code in _RETRYABLE_STATUS
        code = "provider_unavailable" if retryable else "provider_refused"
        return RunnerError(code, _message("The provider of {model} failed", model, error), retryable=retryable)
    sentence = "The provider of {model} gave an answer that cannot be read"
    return RunnerError("provider_malformed", _message(sentence, model, error), retryable=True)


def _message(sentence: str, model: str, error: AgentRunError) -> str:
    status = f" (HTTP {error.status_code})" if isinstance(error, ModelHTTPError) else ""
    text = f"{sentence.format(model=model)}{status}: {_provider_text(error)}"
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:MESSAGE_LENGTH]}…"


def _provider_text(error: AgentRunError) -> str:
    """The provider's own words when it sent some in the usual places, else the library's."""
    body = error.body if isinstance(error, ModelAPIError) else None
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    words = body.get("message") if isinstance(body, dict) else None
    return words if isinstance(words, str) and words else error.message
