"""The published unkey.py, unmodified: overrides, and what may not be done."""

import os

from unkey.py import Unkey, errors

from guarantees import WINDOW_MS, hold, thrown


def client(proxy, variable="TIDEGATE_ROOT_KEY"):
    return Unkey(root_key=os.environ[variable], server_url=proxy.url)


def ask(namespace, identifier, limit=10):
    return {
        "namespace": namespace,
        "identifier": identifier,
        "limit": limit,
        "duration": WINDOW_MS,
    }


def operations(unkey, namespace):
    """Every operation, each in order for whoever may do it."""
    named = {"namespace": namespace, "identifier": "someone"}
    return [
        lambda: unkey.ratelimit.limit(**ask(namespace, "someone")),
        lambda: unkey.ratelimit.multi_limit(request=[ask(namespace, "someone")]),
        lambda: unkey.ratelimit.set_override(**ask(namespace, "someone")),
        lambda: unkey.ratelimit.list_overrides(namespace=namespace),
        lambda: unkey.ratelimit.delete_override(**named),
        lambda: unkey.ratelimit.get_override(**named),
    ]


def an_override_is_set_found_applied_and_deleted(proxy):
    named = {"namespace": "py-applied", "identifier": "vip"}
    with client(proxy) as unkey:
        unkey.ratelimit.limit(**ask("py-applied", "founder"))
        set_id = unkey.ratelimit.set_override(**ask("py-applied", "vip", 200)).data.override_id
        found = unkey.ratelimit.get_override(**named).data
        assert (found.override_id, found.identifier) == (set_id, "vip"), found
        assert (found.limit, found.duration) == (200, WINDOW_MS), found
        answer = unkey.ratelimit.limit(**ask("py-applied", "vip")).data
        assert (answer.limit, answer.override_id) == (200, set_id), answer
        unkey.ratelimit.delete_override(**named)
        answer = unkey.ratelimit.limit(**ask("py-applied", "vip")).data
        assert (answer.limit, answer.override_id) == (10, None), answer
        error = thrown(
            errors.NotFoundErrorResponse, lambda: unkey.ratelimit.get_override(**named)
        )
    assert error.data.error.type.endswith("/unkey/data/ratelimit_override_not_found"), error


def an_override_of_0_blocks(proxy):
    with client(proxy) as unkey:
        unkey.ratelimit.limit(**ask("py-blocked", "founder"))
        unkey.ratelimit.set_override(**ask("py-blocked", "villain*", 0))
        answer = unkey.ratelimit.limit(**ask("py-blocked", "villain_1")).data
    assert (answer.success, answer.limit) == (False, 0), answer


def a_list_comes_in_pages(proxy):
    with client(proxy) as unkey:
        unkey.ratelimit.limit(**ask("py-listed", "founder"))
        for name in "abc":
            unkey.ratelimit.set_override(**ask("py-listed", name))
        pages = []
        page = unkey.ratelimit.list_overrides(namespace="py-listed", limit=2)
        while page is not None and len(pages) < 5:
            pages.append([found.identifier for found in page.result.data])
            page = page.next()
    assert [len(page) for page in pages] == [2, 1], pages
    assert sorted(sum(pages, [])) == ["a", "b", "c"], pages


def a_namespace_that_does_not_exist_is_not_found(proxy):
    with client(proxy) as unkey:
        error = thrown(
            errors.NotFoundErrorResponse,
            lambda: unkey.ratelimit.list_overrides(namespace="py-nowhere"),
        )
    assert error.data.error.type.endswith("/unkey/data/ratelimit_namespace_not_found"), error


def every_operation_tells_which_field_is_wrong(proxy):
    with client(proxy) as unkey:
        for call in operations(unkey, "x" * 513):
            error = thrown(errors.BadRequestErrorResponse, call)
            location = error.data.error.errors[0].location
            assert location in ("body.namespace", "body[0].namespace"), error


def every_operation_tells_that_a_key_is_wrong(proxy):
    with Unkey(root_key="wrong", server_url=proxy.url) as unkey:
        for call in operations(unkey, "py-rights"):
            thrown(errors.UnauthorizedErrorResponse, call)


def a_key_without_the_right_is_forbidden_to(proxy):
    with client(proxy) as unkey:
        unkey.ratelimit.limit(**ask("py-rights", "founder"))
        unkey.ratelimit.set_override(**ask("py-rights", "someone"))
    with client(proxy, "TIDEGATE_KEY_POWERLESS") as unkey:
        *forbidden, get_override = operations(unkey, "py-rights")
        for call in forbidden:
            error = thrown(errors.ForbiddenErrorResponse, call)
            assert error.data.error.detail.startswith("Missing"), error
        thrown(errors.NotFoundErrorResponse, get_override)


def a_deleted_namespace_is_gone(proxy):
    gone = ask(os.environ["TIDEGATE_NAMESPACE_DELETED"], "someone")
    with client(proxy) as unkey:
        for call in (
            lambda: unkey.ratelimit.limit(**gone),
            lambda: unkey.ratelimit.multi_limit(request=[gone]),
        ):
            error = thrown(errors.GoneErrorResponse, call)
            assert "deleted" in error.data.error.detail, error


def a_workspace_that_asks_too_often_is_told_so_once(proxy):
    with client(proxy, "TIDEGATE_KEY_THROTTLED") as unkey:
        for call in operations(unkey, "py-often"):
            thrown(errors.TooManyRequestsErrorResponse, call)
    assert len(proxy.taken()) == 6


hold(
    an_override_is_set_found_applied_and_deleted,
    an_override_of_0_blocks,
    a_list_comes_in_pages,
    a_namespace_that_does_not_exist_is_not_found,
    every_operation_tells_which_field_is_wrong,
    every_operation_tells_that_a_key_is_wrong,
    a_key_without_the_right_is_forbidden_to,
    a_deleted_namespace_is_gone,
    a_workspace_that_asks_too_often_is_told_so_once,
)
