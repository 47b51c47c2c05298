"""Faults of the retry policy, of the classes of errors, and of the waits before retries."""

from fault import Fault

_HANDLERS = "simloop.engine.handlers:EffectHandlers"
_RETRY = "simloop.kernel.retry"

FAULTS = (
    Fault(
        name="wait-of-an-earlier-failure",
        says="The wait after a useless reply is the Retry-After of an earlier failure.",
        bug="C3",
        target=f"{_HANDLERS}._call_model",
        replace="self._fault = None",
        by="pass",
        circumstances=("a failure with Retry-After", "a useless reply after it"),
        violates=("backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 429, retry_after: 9s}}, {finish: stop}, {say: Done.}]
        """,
        right="{backoffs: [9s, 4s]}",
        wrong="{backoffs: [9s, 9s]}",
    ),
    Fault(
        name="first-delay-doubled",
        says="The first delay is as long as the second should be.",
        bug="C3",
        target=f"{_RETRY}:ExponentialBackoff.delay_ns",
        replace="min(failures - 1, 64)",
        by="min(failures, 64)",
        violates=("backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 500}}, {say: Done.}]
        """,
        right="{backoffs: [2s]}",
        wrong="{backoffs: [4s]}",
    ),
    Fault(
        name="delay-without-a-cap",
        says="The delay is doubled without a cap.",
        bug="C2",
        target=f"{_RETRY}:ExponentialBackoff.delay_ns",
        replace="min(self.initial_delay_ms << min(failures - 1, 64), self.max_delay_ms)",
        by="self.initial_delay_ms << min(failures - 1, 64)",
        unusual="max_error_count: 7",
        circumstances=("five failures",),
        violates=("backoff-matches-policy",),
        witness="""
            prompt: Go.
            limits: {max_error_count: 7}
            model: [{http: {status: 500}, times: 5}, {say: Done.}]
        """,
        right="{backoffs: [2s, 4s, 8s, 16s, 30s]}",
        wrong="{backoffs: [2s, 4s, 8s, 16s, 32s]}",
    ),
    Fault(
        name="retry-after-has-the-cap-of-backoffs",
        says="A Retry-After is cut to the longest delay, so the provider is asked too early.",
        bug="C3",
        target=f"{_RETRY}:ExponentialBackoff.delay_ns",
        replace="self.max_retry_after_ms",
        by="self.max_delay_ms",
        violates=("backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 429, retry_after: 45s}}, {say: Done.}]
        """,
        right="{backoffs: [45s]}",
        wrong="{backoffs: [30s]}",
    ),
    Fault(
        name="jitter-shortens-retry-after",
        says="Jitter shortens a Retry-After, too.",
        target=f"{_RETRY}:ExponentialBackoff.delay_ns",
        replace="return min(asked, self.max_retry_after_ms * _NS_PER_MS)",
        by="return int(min(asked, self.max_retry_after_ms * _NS_PER_MS)"
        " * (1 - self.jitter * draw))",
        circumstances=("a failure with Retry-After", "jitter"),
        unusual="jitter: 1",
        violates=("backoff-matches-policy",),
        witness="""
            prompt: Go.
            retry: {jitter: 1.0}
            model: [{http: {status: 429, retry_after: 10s}}, {say: Done.}]
        """,
        right="{elapsed: 10s}",
        wrong="{elapsed: {max: 9s}}",
    ),
    Fault(
        name="jitter-adds",
        says="Jitter lengthens the delay, even past its cap, instead of shortening it.",
        target=f"{_RETRY}:ExponentialBackoff.delay_ns",
        replace="(1 - self.jitter * draw)",
        by="(1 + self.jitter * draw)",
        unusual="jitter: 1",
        violates=("backoff-matches-policy",),
        witness="""
            prompt: Go.
            retry: {jitter: 1.0}
            model: [{http: {status: 500}}, {say: Done.}]
        """,
        right="{elapsed: {max: 2s}}",
        wrong="{elapsed: {min: 2001ms}}",
    ),
    Fault(
        name="milliseconds-as-seconds",
        says="The header retry-after-ms is read as seconds.",
        target=f"{_RETRY}:retry_after_ns",
        replace='_positive(fault.header("retry-after-ms"), _NS_PER_MS)',
        by='_positive(fault.header("retry-after-ms"), _NS_PER_S)',
        violates=("backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 429, headers: {retry-after-ms: "50"}}}, {say: Done.}]
        """,
        right="{backoffs: [50ms]}",
        wrong="{backoffs: [50s]}",
    ),
    Fault(
        name="past-date-is-waited-for",
        says="After a Retry-After date in the past, the loop waits as long as the date is ago.",
        target=f"{_RETRY}:until_ns",
        replace="return wait_ns if wait_ns > 0 else None",
        by="return abs(wait_ns) or None",
        circumstances=("a date in Retry-After", "a clock that is ahead"),
        violates=("backoff-matches-policy",),
        witness="""
            prompt: Go.
            clock: {ahead: 60s}
            model:
              - http: {status: 429, headers: {retry-after: "Thu, 01 Jan 2026 00:00:10 GMT"}}
              - {say: Done.}
        """,
        right="{backoffs: [2s]}",
        wrong="{backoffs: [50s]}",
    ),
    Fault(
        name="abort-waits-for-the-backoff",
        says="An abort in the wait before a retry takes effect when the wait is over.",
        bug="C9",
        target=f"{_HANDLERS}._back_off",
        replace="self._cancellation.polls = effect.polls",
        by="self._cancellation.polls = True",
        circumstances=("a wait before a retry", "an abort in it"),
        violates=("stopped-run-ends-in-time",),
        witness="""
            prompt: Go.
            abort: {at: 1s}
            model: [{http: {status: 500}}, {say: Done., times: always}]
        """,
        right="{outcome: aborted, elapsed: 1s, unused: 1}",
        wrong="{outcome: aborted, elapsed: 2s, unused: 1}",
    ),
    Fault(
        name="empty-quota-is-retried",
        says="A 429 for an exhausted quota is retried like one for too many requests.",
        bug="C7",
        target="simloop.kernel.errorclass:classify",
        replace="(status in (None, _OK) or coded in beats)",
        by="status in (None, _OK)",
        violates=("failure-class-matches-policy",),
        witness="""
            prompt: Go.
            model:
              - http: {status: 429, code: insufficient_quota}
              - {say: Done., times: always}
        """,
        right="{outcome: failed, requests: 1, unused: 1}",
        wrong="{outcome: completed, requests: 2}",
    ),
    Fault(
        name="throttling-is-an-overflow",
        says="A rate limit whose message mentions the context leads to a compaction.",
        bug="C5",
        target="simloop.kernel.errorclass:classify",
        replace="if _THROTTLE.search(fault.message):",
        by="if _THROTTLE.match(fault.message):",
        circumstances=("words of a rate limit", "words of an overflow"),
        violates=("failure-class-matches-policy",),
        witness="""
            prompt: Go.
            context: {over: [false], shrunk: [true]}
            model:
              - http:
                  status: 400
                  message: The prompt is too long for your tokens per minute.
              - {say: Done.}
        """,
        right="{backoffs: [2s], counters: {compaction_attempts: 0}}",
        wrong="{backoffs: [], counters: {compaction_attempts: 1}}",
    ),
    Fault(
        name="overload-is-final",
        says="An overloaded provider ends the run, although waiting would help.",
        target=f"{_RETRY}:ExponentialBackoff.retryable",
        replace="return error in RETRYABLE",
        by="return error in RETRYABLE and error is not ErrorClass.OVERLOADED",
        violates=("failure-class-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 529}}, {say: Done., times: always}]
        """,
        right="{outcome: completed, requests: 2}",
        wrong="{outcome: failed, requests: 1, unused: 1}",
    ),
)
