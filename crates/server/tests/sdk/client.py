"""The published unkey.py, unmodified: the two operations that spend."""

import asyncio
import os

import httpx
from unkey.py import Unkey, errors

from guarantees import WINDOW_MS, hold, thrown


def client(proxy, root_key=None):
    return Unkey(root_key=root_key or os.environ["TIDEGATE_ROOT_KEY"], server_url=proxy.url)


def ask(identifier, limit, cost=1):
    return {
        "namespace": "client.py",
        "identifier": identifier,
        "limit": limit,
        "duration": WINDOW_MS,
        "cost": cost,
    }


def an_admission_and_a_denial_are_answers(proxy):
    with client(proxy) as unkey:
        first = unkey.ratelimit.limit(**ask("one", 1))
        assert first.meta.request_id.startswith("req_"), first
        assert (first.data.success, first.data.remaining) == (True, 0), first
        second = unkey.ratelimit.limit(**ask("one", 1))
    assert (second.data.success, second.data.override_id) == (False, None), second
    calls = proxy.taken()
    assert calls[0]["body"] == ask("one", 1), calls
    assert calls[1]["reply"]["data"]["retryAfterMs"] > 0, calls


def a_cost_of_0_only_asks(proxy):
    with client(proxy) as unkey:
        unkey.ratelimit.limit(**ask("asked", 3, 2))
        assert unkey.ratelimit.limit(**ask("asked", 3, 0)).data.remaining == 1
        assert unkey.ratelimit.limit(**ask("asked", 3, 0)).data.remaining == 1


def a_batch_is_spent_whole(proxy):
    with client(proxy) as unkey:
        reply = unkey.ratelimit.multi_limit(request=[ask("a", 3, 1), ask("b", 5, 2)])
    assert reply.data.passed, reply
    told = [(item.identifier, item.passed, item.remaining) for item in reply.data.limits]
    assert told == [("a", True, 2), ("b", True, 3)], told


def a_batch_of_which_one_item_does_not_fit_is_not_spent_at_all(proxy):
    with client(proxy) as unkey:
        reply = unkey.ratelimit.multi_limit(request=[ask("c", 3, 1), ask("d", 1, 2)])
        assert [item.passed for item in reply.data.limits] == [True, False], reply
        assert not reply.data.passed, reply
        assert unkey.ratelimit.limit(**ask("c", 3, 0)).data.remaining == 3


def bad_input_arrives_with_every_field_that_is_wrong(proxy):
    bad = {**ask("", 0), "duration": 1}
    with client(proxy) as unkey:
        error = thrown(errors.BadRequestErrorResponse, lambda: unkey.ratelimit.limit(**bad))
        thrown(errors.BadRequestErrorResponse, lambda: unkey.ratelimit.multi_limit(request=[]))
    locations = sorted(field.location for field in error.data.error.errors)
    assert locations == ["body.duration", "body.identifier", "body.limit"], locations


def a_wrong_key_arrives_as_the_error_it_is(proxy):
    with client(proxy, "wrong") as unkey:
        error = thrown(
            errors.UnauthorizedErrorResponse, lambda: unkey.ratelimit.limit(**ask("a", 1))
        )
    assert error.status_code == 401, error
    assert error.data.error.type.endswith("/unkey/authentication/key_not_found"), error


def a_failure_on_the_way_is_retried(proxy):
    proxy.plan(503)
    with client(proxy) as unkey:
        reply = unkey.ratelimit.limit(**ask("retried", 3))
    assert (reply.data.success, reply.data.remaining) == (True, 2), reply
    assert len(proxy.taken()) == 2


def a_header_of_the_callers_is_sent_with_every_attempt(proxy):
    proxy.plan(503)
    with client(proxy) as unkey:
        unkey.ratelimit.limit(**ask("header", 3), http_headers={"Idempotency-Key": "py-once"})
    sent = [call["headers"].get("idempotency-key") for call in proxy.taken()]
    assert sent == ["py-once", "py-once"], sent


def a_lost_reply_is_not_asked_for_again_by_this_client(proxy):
    """A connection that closes without a reply is none of the errors that it retries."""
    proxy.plan("lose")
    with client(proxy) as unkey:
        thrown(httpx.RemoteProtocolError, lambda: unkey.ratelimit.limit(**ask("lost", 9)))
    assert len(proxy.taken()) == 1


def a_call_that_is_named_is_charged_once(proxy):
    named = {"http_headers": {"Idempotency-Key": "py-named"}}
    proxy.plan("lose")
    with client(proxy) as unkey:
        call = lambda: unkey.ratelimit.limit(**ask("named", 9), **named)
        thrown(httpx.RemoteProtocolError, call)
        assert call().data.remaining == 8
        first, second = proxy.taken()
        assert first["reply"] == second["reply"], second
        assert unkey.ratelimit.limit(**ask("named", 9, 0)).data.remaining == 8
        other = lambda: unkey.ratelimit.limit(**ask("other", 9), **named)
        assert thrown(errors.APIError, other).status_code == 422


def callers_at_once_get_exactly_the_limit(proxy):
    async def all_at_once():
        async with client(proxy) as unkey:
            calls = [unkey.ratelimit.limit_async(**ask("at-once", 20)) for _ in range(50)]
            return await asyncio.gather(*calls)

    replies = asyncio.run(all_at_once())
    assert sum(reply.data.success for reply in replies) == 20


hold(
    an_admission_and_a_denial_are_answers,
    a_cost_of_0_only_asks,
    a_batch_is_spent_whole,
    a_batch_of_which_one_item_does_not_fit_is_not_spent_at_all,
    bad_input_arrives_with_every_field_that_is_wrong,
    a_wrong_key_arrives_as_the_error_it_is,
    a_failure_on_the_way_is_retried,
    a_header_of_the_callers_is_sent_with_every_attempt,
    a_lost_reply_is_not_asked_for_again_by_this_client,
    a_call_that_is_named_is_charged_once,
    callers_at_once_get_exactly_the_limit,
)
