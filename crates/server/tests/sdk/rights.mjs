// What may not be done arrives as the typed error of each published TypeScript client.
import assert from "node:assert/strict";
import { Unkey } from "@unkey/api";
import * as errors from "@unkey/api/models/errors";
import { Ratelimit } from "@unkey/ratelimit";
import { env, hold, thrown, WINDOW_MS } from "./guarantees.mjs";

const client = (proxy, variable) =>
  new Unkey({ serverURL: proxy.url, rootKey: env(variable) }).ratelimit;

const ask = (namespace) => ({ namespace, identifier: "someone", limit: 5, duration: WINDOW_MS });

// Every operation, each in order for whoever may do it.
const operations = (unkey, namespace) => {
  const named = { namespace, identifier: "someone" };
  return [
    () => unkey.limit(ask(namespace)),
    () => unkey.multiLimit([ask(namespace)]),
    () => unkey.setOverride(ask(namespace)),
    () => unkey.listOverrides({ namespace }),
    () => unkey.deleteOverride(named),
    () => unkey.getOverride(named),
  ];
};

await hold({
  "every operation tells which field is wrong": async (proxy) => {
    const unkey = client(proxy, "TIDEGATE_ROOT_KEY");
    for (const call of operations(unkey, "x".repeat(513))) {
      const error = await thrown(call);
      assert.ok(error instanceof errors.BadRequestErrorResponse, error);
      assert.match(error.error.errors[0].location, /^body(\[0\])?\.namespace$/);
    }
  },

  "every operation tells that a key is wrong": async (proxy) => {
    const unkey = new Unkey({ serverURL: proxy.url, rootKey: "wrong" }).ratelimit;
    for (const call of operations(unkey, "rights")) {
      const error = await thrown(call);
      assert.ok(error instanceof errors.UnauthorizedErrorResponse, error);
    }
  },

  "a key without the right to it is forbidden to": async (proxy) => {
    await client(proxy, "TIDEGATE_ROOT_KEY").limit(ask("rights"));
    const calls = operations(client(proxy, "TIDEGATE_KEY_POWERLESS"), "rights");
    for (const call of calls.slice(0, -1)) {
      const error = await thrown(call);
      assert.ok(error instanceof errors.ForbiddenErrorResponse, error);
      assert.match(error.error.detail, /^Missing .*ratelimit\./);
    }
  },

  "a namespace is not created by a key that may not": async (proxy) => {
    const error = await thrown(() => client(proxy, "TIDEGATE_KEY_POWERLESS").limit(ask("new")));
    assert.ok(error instanceof errors.ForbiddenErrorResponse);
    assert.match(error.error.detail, /create_namespace/);
    const all = client(proxy, "TIDEGATE_ROOT_KEY");
    const missing = await thrown(() => all.listOverrides({ namespace: "new" }));
    assert.ok(missing instanceof errors.NotFoundErrorResponse);
  },

  "an override that may not be read is as if there were none": async (proxy) => {
    await client(proxy, "TIDEGATE_ROOT_KEY").setOverride(ask("rights"));
    const unkey = client(proxy, "TIDEGATE_KEY_POWERLESS");
    const named = (identifier) => ({ namespace: "rights", identifier });
    const hidden = await thrown(() => unkey.getOverride(named("someone")));
    const absent = await thrown(() => unkey.getOverride(named("nobody")));
    assert.ok(hidden instanceof errors.NotFoundErrorResponse);
    assert.deepEqual(hidden.error, absent.error);
  },

  "a deleted namespace is gone": async (proxy) => {
    const unkey = client(proxy, "TIDEGATE_ROOT_KEY");
    const gone = ask(env("TIDEGATE_NAMESPACE_DELETED"));
    for (const call of [() => unkey.limit(gone), () => unkey.multiLimit([gone])]) {
      const error = await thrown(call);
      assert.ok(error instanceof errors.GoneErrorResponse, error);
      assert.match(error.error.detail, /deleted/);
    }
  },

  "a workspace that asks too often is told so, and its client does not insist": async (proxy) => {
    for (const call of operations(client(proxy, "TIDEGATE_KEY_THROTTLED"), "often")) {
      const error = await thrown(call);
      assert.ok(error instanceof errors.TooManyRequestsErrorResponse, error);
      assert.match(error.error.type, /\/user\/too_many_requests\/workspace_rate_limited$/);
    }
    assert.equal(proxy.taken().length, 6);
  },

  "@unkey/ratelimit hears of it too, in its general error": async (proxy) => {
    const limiter = new Ratelimit({
      rootKey: env("TIDEGATE_KEY_THROTTLED"),
      baseUrl: proxy.url,
      namespace: "often",
      limit: 5,
      duration: WINDOW_MS,
    });
    const error = await thrown(() => limiter.limit("someone"));
    assert.deepEqual([error.name, error.statusCode], ["APIError", 429]);
  },

  "@unkey/ratelimit tells what may not be done": async (proxy) => {
    const limiter = (rootKey, namespace) => new Ratelimit({
      rootKey: env(rootKey), baseUrl: proxy.url, namespace, limit: 5, duration: WINDOW_MS,
    });
    const refused = await thrown(() => limiter("TIDEGATE_KEY_POWERLESS", "rights").limit("a"));
    assert.deepEqual([refused.name, refused.statusCode], ["ForbiddenErrorResponse", 403]);
    const deleted = limiter("TIDEGATE_ROOT_KEY", env("TIDEGATE_NAMESPACE_DELETED"));
    const gone = await thrown(() => deleted.limit("a"));
    assert.deepEqual([gone.name, gone.statusCode], ["GoneErrorResponse", 410]);
  },
});
