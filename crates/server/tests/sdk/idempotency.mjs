// A call that is named is charged once, however often the published @unkey/api repeats it.
import assert from "node:assert/strict";
import { Unkey } from "@unkey/api";
import { env, hold, thrown, WINDOW_MS } from "./guarantees.mjs";

const client = (proxy) =>
  new Unkey({ serverURL: proxy.url, rootKey: env("TIDEGATE_ROOT_KEY") }).ratelimit;

const ask = (identifier, cost = 1) =>
  ({ namespace: "idempotency.mjs", identifier, limit: 9, duration: WINDOW_MS, cost });

const named = (key) => ({ headers: { "Idempotency-Key": key } });

const left = async (proxy, identifier) =>
  (await client(proxy).limit(ask(identifier, 0))).data.remaining;

await hold({
  "a call whose reply is lost is charged once": async (proxy) => {
    proxy.plan("lose", "lose");
    const { data } = await client(proxy).limit(ask("lost"), named("lost-1"));
    assert.equal(data.remaining, 8);
    const calls = proxy.taken();
    assert.equal(calls.length, 3);
    for (const call of calls) assert.deepEqual(call.reply, calls[0].reply);
    assert.equal(await left(proxy, "lost"), 8);
  },

  "without a name it is charged each time": async (proxy) => {
    proxy.plan("lose");
    await client(proxy).limit(ask("unnamed"));
    assert.equal(await left(proxy, "unnamed"), 7);
  },

  "a batch whose reply is lost is charged once": async (proxy) => {
    proxy.plan("lose");
    await client(proxy).multiLimit([ask("x"), ask("y", 2)], named("batch-1"));
    assert.deepEqual([await left(proxy, "x"), await left(proxy, "y")], [8, 7]);
  },

  "another call under the same name is refused": async (proxy) => {
    await client(proxy).limit(ask("first"), named("taken"));
    const error = await thrown(() => client(proxy).limit(ask("second"), named("taken")));
    assert.equal(error.statusCode, 422);
    assert.equal(await left(proxy, "second"), 9);
  },
});
