// Overrides through the published @unkey/api and @unkey/ratelimit, unmodified.
import assert from "node:assert/strict";
import { Unkey } from "@unkey/api";
import * as errors from "@unkey/api/models/errors";
import { Overrides, Ratelimit } from "@unkey/ratelimit";
import { env, hold, thrown, WINDOW_MS } from "./guarantees.mjs";

const client = (proxy) =>
  new Unkey({ serverURL: proxy.url, rootKey: env("TIDEGATE_ROOT_KEY") }).ratelimit;

// Each guarantee has a namespace of its own, which exists once something was spent in it.
async function founded(proxy, namespace) {
  await spend(proxy, namespace, "founder");
  const named = (identifier, limit) => ({ namespace, identifier, limit, duration: WINDOW_MS });
  return { unkey: client(proxy), named };
}

const spend = async (proxy, namespace, identifier, cost = 1) => {
  const request = { namespace, identifier, limit: 10, duration: WINDOW_MS, cost };
  return (await client(proxy).limit(request)).data;
};

await hold({
  "an override stands in place of what requests say, and names itself": async (proxy) => {
    const { unkey, named } = await founded(proxy, "applied");
    assert.equal((await spend(proxy, "applied", "vip")).overrideId, undefined);
    const { overrideId } = (await unkey.setOverride(named("vip", 200))).data;
    const answer = await spend(proxy, "applied", "vip");
    assert.deepEqual([answer.limit, answer.overrideId], [200, overrideId]);
    assert.equal((await spend(proxy, "applied", "someone")).overrideId, undefined);
  },

  "an override that is set again keeps its id": async (proxy) => {
    const { unkey, named } = await founded(proxy, "again");
    const first = (await unkey.setOverride(named("vip", 200))).data.overrideId;
    const second = (await unkey.setOverride(named("vip", 300))).data.overrideId;
    assert.equal(second, first);
    const found = (await unkey.getOverride({ namespace: "again", identifier: "vip" })).data;
    assert.deepEqual(found, {
      overrideId: first, identifier: "vip", limit: 300, duration: WINDOW_MS,
    });
    assert.equal((await spend(proxy, "again", "vip")).limit, 300);
  },

  "an override of 0 blocks": async (proxy) => {
    const { unkey, named } = await founded(proxy, "blocked");
    await unkey.setOverride(named("villain", 0));
    const answer = await spend(proxy, "blocked", "villain");
    assert.deepEqual([answer.success, answer.limit, answer.remaining], [false, 0, 0]);
    assert.equal((await spend(proxy, "blocked", "someone")).success, true);
  },

  "the exact one wins, then the longest prefix, then the longest pattern": async (proxy) => {
    const { unkey, named } = await founded(proxy, "precedence");
    const wanted = { "*": 11, "team.*": 12, "team.a*": 13, "team.a*z": 14, "team.ax": 15 };
    for (const [pattern, limit] of Object.entries(wanted)) {
      await unkey.setOverride(named(pattern, limit));
    }
    for (const [identifier, limit] of Object.entries({
      "someone": 11, "team.b": 12, "team.ab": 13, "team.abz": 14, "team.ax": 15,
    })) {
      assert.equal((await spend(proxy, "precedence", identifier)).limit, limit, identifier);
      const found = await unkey.getOverride({ namespace: "precedence", identifier });
      assert.equal(found.data.limit, limit, identifier);
    }
  },

  "a list comes in pages, whole and without repetition": async (proxy) => {
    const { unkey, named } = await founded(proxy, "listed");
    const set = [];
    for (const name of ["a", "b", "c", "d"]) {
      set.push((await unkey.setOverride(named(name, 5))).data.overrideId);
    }
    const pages = [];
    for await (const page of await unkey.listOverrides({ namespace: "listed", limit: 2 })) {
      pages.push(page.result);
      assert.ok(pages.length <= set.length);
    }
    assert.deepEqual(pages.map((page) => page.data.length), [2, 2]);
    assert.deepEqual(pages.map((page) => page.pagination.hasMore), [true, false]);
    const listed = pages.flatMap((page) => page.data.map((found) => found.overrideId));
    assert.deepEqual(listed, [...set].sort());
  },

  "a deleted override applies no more, and can be set again": async (proxy) => {
    const { unkey, named } = await founded(proxy, "deleted");
    const exact = { namespace: "deleted", identifier: "vip_*" };
    await unkey.setOverride(named("vip_*", 200));
    const wrong = await thrown(() => unkey.deleteOverride({ ...exact, identifier: "vip_1" }));
    assert.ok(wrong instanceof errors.NotFoundErrorResponse);
    assert.deepEqual((await unkey.deleteOverride(exact)).data, {});
    assert.equal((await spend(proxy, "deleted", "vip_1")).overrideId, undefined);
    const gone = await thrown(() => unkey.getOverride(exact));
    assert.match(gone.error.type, /\/unkey\/data\/ratelimit_override_not_found$/);
    const { overrideId } = (await unkey.setOverride(named("vip_*", 300))).data;
    const answer = await spend(proxy, "deleted", "vip_1");
    assert.deepEqual([answer.limit, answer.overrideId], [300, overrideId]);
  },

  "an item of a batch names its override": async (proxy) => {
    const { unkey, named } = await founded(proxy, "batched");
    const { overrideId } = (await unkey.setOverride(named("vip", 200))).data;
    const { data } = await unkey.multiLimit([named("vip", 1), named("someone", 1)]);
    const told = data.limits.map((item) => [item.limit, item.overrideId]);
    assert.deepEqual(told, [[200, overrideId], [1, undefined]]);
  },

  "overrides of a namespace that does not exist are not found": async (proxy) => {
    const unkey = client(proxy);
    const named = { namespace: "nowhere", identifier: "vip" };
    for (const call of [
      () => unkey.setOverride({ ...named, limit: 1, duration: WINDOW_MS }),
      () => unkey.getOverride(named),
      () => unkey.listOverrides({ namespace: "nowhere" }),
      () => unkey.deleteOverride(named),
    ]) {
      const error = await thrown(call);
      assert.ok(error instanceof errors.NotFoundErrorResponse, error);
      assert.match(error.error.type, /\/unkey\/data\/ratelimit_namespace_not_found$/);
    }
  },

  "the class Overrides of @unkey/ratelimit does the same": async (proxy) => {
    const { named } = await founded(proxy, "class");
    const config = { rootKey: env("TIDEGATE_ROOT_KEY"), baseUrl: proxy.url };
    const overrides = new Overrides(config);
    const exact = { namespace: "class", identifier: "vip" };
    const { overrideId } = (await overrides.setOverride(named("vip", 77))).data;
    assert.equal((await overrides.getOverride(exact)).data.overrideId, overrideId);
    assert.equal((await overrides.listOverrides({ namespace: "class" })).data.length, 1);
    assert.equal(proxy.taken().at(-1).body.limit, 10);
    const limiter = new Ratelimit({ ...config, namespace: "class", limit: 1, duration: "1m" });
    const answer = await limiter.limit("vip");
    assert.deepEqual([answer.limit, answer.overrideId], [77, overrideId]);
    await overrides.deleteOverride(exact);
    const gone = await thrown(() => overrides.getOverride(exact));
    assert.equal(gone.statusCode, 404);
  },
});
