// `node look.mjs <check> <page>`: prints what holds, and ends with what does not.
import { createServer } from "node:http";
import { must, open } from "./browser.mjs";

const LOOKS = [1280, 360].flatMap((width) => ["light", "dark"].map((scheme) => ({ width, scheme })));

/** How many pixels of each canvas have a colour of the data, and which colours are the most. */
const painted = (page) => page.evaluate(() => Array.from(document.querySelectorAll("canvas"), (canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const style = getComputedStyle(document.documentElement);
  const wanted = ["admitted", "admitted-fill", "denied", "denied-fill", "before"].map((name) => {
    const value = parseInt(style.getPropertyValue("--" + name).trim().slice(1), 16);
    return [value >> 16, (value >> 8) & 255, value & 255];
  });
  let drawn = 0;
  const colours = new Map();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] < 128) continue;
    const near = (part, index) => Math.abs(part - data[at + index]) < 12;
    drawn += wanted.some((colour) => colour.every(near)) ? 1 : 0;
    const colour = data.slice(at, at + 3).join();
    colours.set(colour, (colours.get(colour) ?? 0) + 1);
  }
  const most = Array.from(colours).sort((a, b) => b[1] - a[1]).slice(0, 4).map(([colour]) => colour);
  return { drawn, most };
}));

/** Every plot has a canvas with something on it. */
async function plots(page) {
  const wanted = await page.locator("figure[data-plot]").count();
  must(wanted > 0, "there are figures");
  const canvases = await painted(page);
  must(canvases.length === wanted, `${wanted} figures, ${canvases.length} canvases`);
  canvases.forEach(({ drawn }, index) => {
    must(drawn > 200, `plot ${index} shows nothing: ${drawn} pixels of its data`);
  });
  return canvases;
}

const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

/** The texts of a column of the last sortable table: the most affected. */
const column = (page, index) => page.locator("#affected table.sortable").last()
  .locator(`tbody tr:not([hidden]) > :nth-child(${index + 1})`).allTextContents();

const numbers = (texts) => texts.map((text) => Number(text.replaceAll(",", "")));
const sorted = (values, order) => values.every((value, at) => at === 0 || order(values[at - 1], value));

const CHECKS = {
  // No error, no request, and plots: in both widths and both schemes.
  async draws(file) {
    for (const settings of LOOKS) await open(file, settings, plots);
  },

  // No error and no request, whether there is much to draw or not.
  async opens(file) {
    for (const settings of LOOKS) {
      await open(file, settings, async (page) => {
        const [figures, canvases] = [page.locator("figure[data-plot]"), page.locator("canvas")];
        must((await figures.count()) === (await canvases.count()), "every figure has a canvas");
      });
    }
  },

  async fits(file) {
    for (const settings of LOOKS) {
      await open(file, settings, async (page) => {
        await page.evaluate(() => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
        const { wide, room } = await page.evaluate(() => ({
          wide: document.documentElement.scrollWidth, room: document.documentElement.clientWidth,
        }));
        must(wide <= room, `${wide} pixels wide where there is room for ${room}`);
        const widest = await page.evaluate(() => Math.max(...Array.from(
          document.querySelectorAll("h1, h2, p, figure, .scroll, .card"), (each) => each.getBoundingClientRect().right)));
        must(widest <= room, `something reaches ${widest} where there is room for ${room}`);
      });
    }
  },

  async schemes(file) {
    await open(file, { scheme: "light" }, async (page) => {
      const [light, before] = [await ground(page), await plots(page)];
      await page.emulateMedia({ colorScheme: "dark" });
      const [dark, after] = [await ground(page), await plots(page)];
      must(light !== dark, `the ground is ${light} both times`);
      const shared = before.filter(({ most }, index) => most.join() === after[index].most.join());
      must(shared.length === 0, `${shared.length} plots kept their colours`);
    });
  },

  async contrast(file) {
    for (const scheme of ["light", "dark"]) {
      await open(file, { scheme }, async (page) => {
        const poor = await page.evaluate(pale);
        must(poor.length === 0, `hard to read, ${scheme}:\n${poor.join("\n")}`);
      });
    }
  },

  async sorts(file) {
    await open(file, {}, async (page) => {
      const button = (name) => page.locator("#affected table.sortable").last()
        .getByRole("button", { name });
      const denied = async () => numbers(await column(page, 2));
      must((await denied()).length > 2, "there are rows");
      await button("Admitted").click();
      must(sorted(numbers(await column(page, 4)), (a, b) => a >= b), "admitted fall");
      await button("Admitted").press("Enter");
      must(sorted(numbers(await column(page, 4)), (a, b) => a <= b), "admitted rise");
      await button("Denied").first().click();
      must(sorted(await denied(), (a, b) => a >= b), "denied fall");
      const names = await column(page, 0);
      await button("Identifier").click();
      const after = await column(page, 0);
      must(after.join() !== names.join(), "names have an order of their own");
      must(after.slice().sort().join() === names.slice().sort().join(), "no row was lost");
      const state = await page.locator("#affected th[aria-sort]").last().getAttribute("aria-sort");
      must(state === "ascending", `the order is told: ${state}`);
    });
  },

  async filters(file) {
    await open(file, {}, async (page) => {
      const all = await column(page, 0);
      const wanted = all[all.length - 1];
      const input = page.locator("#affected").getByLabel("Filter").last();
      await input.fill(wanted.toUpperCase());
      const shown = await column(page, 0);
      must(shown.includes(wanted) && shown.length < all.length, `${shown.length} of ${all.length} are shown`);
      must(shown.every((name) => name.toLowerCase().includes(wanted.toLowerCase())), "only what was asked for");
      await input.fill("nobody is called so");
      must((await column(page, 0)).length === 0, "nobody is shown");
      await input.fill("");
      must((await column(page, 0)).length === all.length, "all are shown again");
    });
  },

  async keys(file) {
    await open(file, {}, async (page) => {
      const plot = page.locator("figure[data-plot] .plot").first();
      const told = page.locator("figure[data-plot] output").first();
      await plot.focus();
      await plot.press("ArrowRight");
      const first = await told.textContent();
      must(/UTC: .*\d/.test(first), `the first slice is read out: ${first}`);
      await plot.press("ArrowRight");
      must((await told.textContent()) !== first, "the next one is another");
      const unnamed = await page.evaluate(() => Array.from(document.querySelectorAll("[tabindex], input, button"))
        .filter((each) => !(each.getAttribute("aria-label") || each.textContent || each.labels?.length)).length);
      must(unnamed === 0, `${unnamed} stops have no name`);
    });
  },

  // What hostile identifiers would like to do, they do not.
  async inert(file) {
    await open(file, {}, async (page) => {
      const names = await column(page, 0);
      must(names.includes("</script><script>alert(1)</script>"), "the identifier is there, as text");
      must(names.includes('"><img src=x onerror=alert(1)>'), "the other one, too");
      must(names.some((name) => name.includes("\\u{202e}")), "what would turn the text is shown by number");
      const foreign = await page.evaluate(() => document.querySelectorAll("img, iframe, object, embed, form").length);
      must(foreign === 0, `${foreign} elements came from the log`);
      must((await page.locator("script").count()) === 3, "no script came from the log");
    });
  },

  // Even markup that got in could neither run nor ask for anything.
  async guarded(file) {
    let asked = 0;
    const server = createServer((request, reply) => {
      asked += 1;
      reply.setHeader("Access-Control-Allow-Origin", "*").end("here");
    });
    await new Promise((resolve) => { server.listen(0, "127.0.0.1", resolve); });
    const url = `http://127.0.0.1:${server.address().port}/`;
    await open(file, { offline: false }, async (page, wrong) => {
      const ran = await page.evaluate(async (url) => {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        const image = document.createElement("img");
        const style = document.createElement("style");
        style.textContent = "body { background: rgb(1, 2, 3) !important }";
        image.src = url;
        document.body.append(script, style, image);
        const fetched = await fetch(url).then(() => true, () => false);
        const styled = getComputedStyle(document.body).backgroundColor === "rgb(1, 2, 3)";
        return { script: window.ran === true, fetched, styled };
      }, url);
      must(!ran.script && !ran.fetched && !ran.styled, `it did: ${JSON.stringify(ran)}`);
      const refused = wrong.splice(0).filter((line) => line.includes("Content Security Policy"));
      must(refused.length >= 4, `the browser refused ${refused.length} of 4`);
      must((await fetch(url)).ok && asked === 1, `the server was asked ${asked} times, once by us`);
    }).finally(() => server.close());
  },

  async bare(file) {
    for (const width of [1280, 360]) {
      await open(file, { width, script: false }, async (page) => {
        must(await page.locator("h1").isVisible(), "the answer is visible");
        must(await page.locator("#answer .figures dd").first().isVisible(), "the numbers are visible");
        must((await page.locator("#affected tbody tr").count()) > 2, "the most affected are there");
        must((await page.locator("canvas").count()) === 0, "nothing is drawn");
        must(await page.locator(".plot noscript").first().isVisible(), "and it is said why");
        must((await page.getByLabel("Filter").count()) === 0, "what needs a script is not offered");
      });
    }
  },

  async prints(file) {
    await open(file, { scheme: "dark" }, async (page) => {
      const shades = [];
      await page.exposeFunction("note", (shade) => shades.push(shade));
      await page.evaluate(() => window.addEventListener("beforeprint", () => {
        window.note(getComputedStyle(document.body).getPropertyValue("--ink").trim());
      }));
      const pdf = await page.pdf({ format: "A4" });
      must(pdf.subarray(0, 5).toString() === "%PDF-" && pdf.length > 20000, "a document is made");
      const ink = await page.evaluate(() => getComputedStyle(document.body).getPropertyValue("--ink").trim());
      must(shades.length === 1 && shades[0] !== ink, `dark on light on paper: ${shades}, ${ink}`);
      await plots(page);
    });
  },
};

/** Texts with less than 4.5 to 1 between them and their ground. Runs in the page. */
function pale() {
  const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *:not(script):not(noscript)")) {
    const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility()) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${element.tagName} ${element.textContent.slice(0, 40)}`);
  }
  return found;
}

const [, , check, file] = process.argv;
try {
  must(CHECKS[check], `no check ${check}`);
  await CHECKS[check](file);
  console.log(`${check}: it holds`);
} catch (error) {
  console.log(`${check}: ${error.message}`);
  process.exitCode = 1;
}
