// The published @unkey/ratelimit, unmodified.
import assert from "node:assert/strict";
import { Ratelimit } from "@unkey/ratelimit";
import { env, hold, thrown, WINDOW_MS } from "./guarantees.mjs";

const config = (proxy, more) => ({
  rootKey: env("TIDEGATE_ROOT_KEY"),
  baseUrl: proxy.url,
  namespace: "ratelimit.mjs",
  limit: 3,
  duration: WINDOW_MS,
  ...more,
});

await hold({
  "an admission says what is left and when the window ends": async (proxy) => {
    const answer = await new Ratelimit(config(proxy)).limit("admitted");
    assert.deepEqual([answer.success, answer.limit, answer.remaining], [true, 3, 2]);
    assert.ok(answer.reset > Date.now() && answer.reset <= Date.now() + WINDOW_MS);
    const [{ path, body, headers }] = proxy.taken();
    assert.equal(path, "/v2/ratelimit.limit");
    assert.equal(headers.authorization, `Bearer ${env("TIDEGATE_ROOT_KEY")}`);
    assert.deepEqual(body, {
      namespace: "ratelimit.mjs", identifier: "admitted", limit: 3, duration: WINDOW_MS, cost: 1,
    });
  },

  "costs add up, and a cost of 0 only asks": async (proxy) => {
    const limiter = new Ratelimit(config(proxy));
    assert.equal((await limiter.limit("costs", { cost: 2 })).remaining, 1);
    assert.equal((await limiter.limit("costs", { cost: 0 })).remaining, 1);
    assert.equal((await limiter.limit("costs", { cost: 1 })).remaining, 0);
  },

  "a denial is cached by the client, and costs the server one request": async (proxy) => {
    const limiter = new Ratelimit(config(proxy, { limit: 1 }));
    assert.equal((await limiter.limit("cached")).success, true);
    const denied = await limiter.limit("cached");
    assert.equal(denied.success, false);
    assert.equal(proxy.taken().length, 2);
    for (let again = 0; again < 5; again += 1) {
      assert.deepEqual(await limiter.limit("cached"), denied);
    }
    assert.equal(proxy.taken().length, 0);
    assert.equal((await limiter.limit("another")).success, true);
  },

  "a denial that says more than the contract is still understood": async (proxy) => {
    const limiter = new Ratelimit(config(proxy, { limit: 1, cache: new Map() }));
    await limiter.limit("additive");
    const denied = await limiter.limit("additive");
    const sent = proxy.taken().at(-1).reply.data;
    assert.ok(sent.retryAfterMs > 0);
    assert.deepEqual([denied.success, denied.remaining, denied.reset], [false, 0, sent.reset]);
  },

  "a window can be written with its unit": async (proxy) => {
    const answer = await new Ratelimit(config(proxy, { duration: "30d" })).limit("unit");
    assert.equal(proxy.taken()[0].body.duration, WINDOW_MS);
    assert.equal(answer.success, true);
  },

  "a limit for one call is the one that counts": async (proxy) => {
    const limiter = new Ratelimit(config(proxy));
    const answer = await limiter.limit("per-call", { limit: { limit: 7, duration: WINDOW_MS } });
    assert.deepEqual([answer.limit, answer.remaining], [7, 6]);
  },

  "a failure on the way is retried, and what did not arrive is not charged": async (proxy) => {
    proxy.plan(503, 502);
    const answer = await new Ratelimit(config(proxy, { timeout: false })).limit("retried");
    assert.deepEqual([answer.success, answer.remaining], [true, 2]);
    assert.equal(proxy.taken().length, 3);
  },

  "a server that does not answer in time is answered for by the fallback": async (proxy) => {
    proxy.plan("hang");
    const fallback = { success: true, limit: 0, remaining: 0, reset: 0 };
    const limiter = new Ratelimit(config(proxy, { timeout: { ms: "200ms", fallback } }));
    assert.deepEqual(await limiter.limit("late"), fallback);
  },

  "a wrong key arrives as the error it is": async (proxy) => {
    const error = await thrown(() => new Ratelimit(config(proxy, { rootKey: "wrong" })).limit("a"));
    assert.deepEqual([error.name, error.statusCode], ["UnauthorizedErrorResponse", 401]);
    assert.match(error.error.type, /\/unkey\/authentication\/key_not_found$/);
  },

  "bad input arrives with the field that is wrong": async (proxy) => {
    const error = await thrown(() => new Ratelimit(config(proxy)).limit(""));
    assert.deepEqual([error.name, error.statusCode], ["BadRequestErrorResponse", 400]);
    assert.equal(error.error.errors[0].location, "body.identifier");
  },

  "errors go to onError when there is one": async (proxy) => {
    const heard = [];
    const instead = { success: true, limit: 1, remaining: 1, reset: 1 };
    const onError = (error, identifier) => {
      heard.push([error.message, identifier]);
      return instead;
    };
    const limiter = new Ratelimit(config(proxy, { rootKey: "wrong", onError }));
    assert.deepEqual(await limiter.limit("someone"), instead);
    assert.equal(heard.length, 1);
    assert.equal(heard[0][1], "someone");
  },

  "callers at once get exactly the limit": async (proxy) => {
    const limiter = new Ratelimit(config(proxy, { limit: 20 }));
    const answers = await Promise.all(Array.from({ length: 50 }, () => limiter.limit("at-once")));
    assert.equal(answers.filter((answer) => answer.success).length, 20);
  },
});
