// A page in a real browser, which has no network unless a check needs one to prove something.
import { existsSync, mkdirSync } from "node:fs";
import { basename, delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

/** Fails with what was expected. */
export function must(holds, what) {
  if (!holds) throw new Error(what);
}

function program() {
  const places = (process.env.PATH ?? "").split(delimiter).map((place) => join(place, "chromium"));
  const found = places.find((place) => existsSync(place));
  must(found, "no chromium on the search path");
  return found;
}

/** Opens `file`, hands the page to `look`, and checks that nothing went wrong meanwhile. */
export async function open(file, settings, look) {
  const { width = 1280, scheme = "light", script = true, offline = true } = settings;
  // As root there is no sandbox; the page is our own.
  const browser = await chromium.launch({ executablePath: program(), args: ["--no-sandbox"] });
  try {
    const context = await browser.newContext({
      viewport: { width, height: 900 }, colorScheme: scheme, javaScriptEnabled: script, offline,
    });
    const page = await context.newPage();
    page.setDefaultTimeout(20000);
    const wrong = [];
    page.on("console", (message) => wrong.push(`the console says: ${message.text()}`));
    page.on("pageerror", (error) => wrong.push(`a script failed: ${error.message}`));
    page.on("dialog", (dialog) => {
      wrong.push(`a dialog says: ${dialog.message()}`);
      dialog.dismiss();
    });
    const url = pathToFileURL(file).href;
    page.on("request", (request) => {
      const asked = request.url();
      if (asked !== url && !asked.startsWith("data:")) wrong.push(`something was asked for: ${asked}`);
    });
    await page.goto(url);
    const shot = async (name) => {
      const place = join(process.env.TIDEGATE_BROWSER, "shots");
      mkdirSync(place, { recursive: true });
      const path = join(place, `${basename(file, ".html")}-${name}.png`);
      await page.screenshot({ path, fullPage: true });
      return path;
    };
    try {
      await look(page, wrong);
      must(wrong.length === 0, wrong.join("\n"));
    } catch (error) {
      console.log(`a screenshot: ${await shot(`failed-${process.argv[2]}`)}`);
      throw error;
    }
    await shot(`${width}-${scheme}${script ? "" : "-noscript"}`);
  } finally {
    await browser.close();
  }
}
