// One line for each guarantee; the first that does not hold ends the script.
import { startProxy } from "./proxy.mjs";

export const env = (name) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};

// 30 days: no test meets the end of a window.
export const WINDOW_MS = 2_592_000_000;

// Runs the guarantees in order, with a proxy in front of the server.
export async function hold(guarantees) {
  const proxy = await startProxy(env("TIDEGATE_URL"));
  for (const [name, guarantee] of Object.entries(guarantees)) {
    proxy.taken();
    try {
      await guarantee(proxy);
    } catch (error) {
      console.log(`FAILED ${name}`);
      console.log(error);
      console.log("requests:", JSON.stringify(proxy.taken(), null, 2));
      process.exit(1);
    }
    console.log(`ok ${name}`);
  }
  // A call that was given up on is still tried again by its client, for ten seconds.
  process.exit(0);
}

// What a call throws; that it throws at all is part of the guarantee.
export async function thrown(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}
