// The published @unkey/api, unmodified: the two operations that spend.
import assert from "node:assert/strict";
import { Unkey } from "@unkey/api";
import * as errors from "@unkey/api/models/errors";
import { env, hold, thrown, WINDOW_MS } from "./guarantees.mjs";

const client = (proxy, rootKey = env("TIDEGATE_ROOT_KEY")) =>
  new Unkey({ serverURL: proxy.url, rootKey }).ratelimit;

const ask = (identifier, limit, cost) =>
  ({ namespace: "api.mjs", identifier, limit, duration: WINDOW_MS, cost });

await hold({
  "an admission and a denial are answers": async (proxy) => {
    const first = await client(proxy).limit(ask("one", 1));
    assert.match(first.meta.requestId, /^req_/);
    assert.deepEqual([first.data.success, first.data.remaining], [true, 0]);
    const second = await client(proxy).limit(ask("one", 1));
    assert.deepEqual([second.data.success, second.data.remaining], [false, 0]);
    assert.equal(second.data.overrideId, undefined);
  },

  "a base address with a slash at its end is the same": async (proxy) => {
    const slashed = new Unkey({ serverURL: `${proxy.url}/`, rootKey: env("TIDEGATE_ROOT_KEY") });
    assert.equal((await slashed.ratelimit.limit(ask("slash", 1))).data.success, true);
  },

  "a batch is spent whole": async (proxy) => {
    const { data } = await client(proxy).multiLimit([ask("a", 3, 1), ask("b", 5, 2)]);
    assert.equal(data.passed, true);
    const told = data.limits.map((item) => [item.identifier, item.passed, item.remaining]);
    assert.deepEqual(told, [["a", true, 2], ["b", true, 3]]);
    assert.ok(Array.isArray(proxy.taken()[0].body));
  },

  "a batch of which one item does not fit is not spent at all": async (proxy) => {
    const { data } = await client(proxy).multiLimit([ask("c", 3, 1), ask("d", 1, 2)]);
    assert.equal(data.passed, false);
    assert.deepEqual(data.limits.map((item) => item.passed), [true, false]);
    assert.equal((await client(proxy).limit(ask("c", 3, 0))).data.remaining, 3);
  },

  "what the server adds to the contract does not disturb": async (proxy) => {
    const added = (process.env.TIDEGATE_ADDS ?? "").split(",").filter(Boolean);
    const { data } = await client(proxy).limit(ask("added", 3));
    const sent = Object.keys(proxy.taken()[0].reply.data);
    assert.deepEqual(added.filter((name) => !sent.includes(name)), []);
    assert.deepEqual(Object.keys(data).sort(), ["limit", "remaining", "reset", "success"]);
  },

  "the largest limit of the client is understood": async (proxy) => {
    const answer = await client(proxy).limit(ask("large", Number.MAX_SAFE_INTEGER));
    assert.equal(answer.data.limit, 2 ** 50);
  },

  "bad input arrives with every field that is wrong": async (proxy) => {
    const bad = { ...ask("", 0), duration: 1 };
    const error = await thrown(() => client(proxy).limit(bad));
    assert.ok(error instanceof errors.BadRequestErrorResponse);
    const locations = error.error.errors.map(({ location }) => location).sort();
    assert.deepEqual(locations, ["body.duration", "body.identifier", "body.limit"]);
    const empty = await thrown(() => client(proxy).multiLimit([]));
    assert.ok(empty instanceof errors.BadRequestErrorResponse);
  },

  "a wrong key arrives as the error it is": async (proxy) => {
    const error = await thrown(() => client(proxy, "wrong").limit(ask("a", 1)));
    assert.ok(error instanceof errors.UnauthorizedErrorResponse);
    assert.equal(error.error.status, 401);
  },

  "a failure on the way is retried": async (proxy) => {
    proxy.plan(503);
    const { data } = await client(proxy).limit(ask("retried", 3));
    assert.deepEqual([data.success, data.remaining], [true, 2]);
    assert.equal(proxy.taken().length, 2);
  },

  "a header of the caller's is sent with every attempt": async (proxy) => {
    proxy.plan(503);
    const headers = { "Idempotency-Key": "api-once" };
    await client(proxy).limit(ask("header", 3), { headers });
    const sent = proxy.taken().map((call) => call.headers["idempotency-key"]);
    assert.deepEqual(sent, ["api-once", "api-once"]);
  },

  "a lost reply is asked for again": async (proxy) => {
    proxy.plan("lose");
    const { data } = await client(proxy).limit(ask("lost", 9));
    assert.equal(data.success, true);
    assert.equal(proxy.taken().length, 2);
  },
});
