// Plots, sorting and a filter. Everything else is in the page already.
(function () {
  "use strict";
  const findings = JSON.parse(document.getElementById("findings").textContent);
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const PAPER_WIDTH = 660;

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const count = (number) => (number == null ? "–" : number.toLocaleString("en-US"));
  const two = (number) => String(number).padStart(2, "0");
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const DAY = 86400000;
  const FONT = "12px system-ui, sans-serif";

  // Short counts for axes: 1.5k, 20k, 3M.
  function short(number) {
    const units = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
    const unit = units.find(([size]) => number >= size);
    return unit ? count(Math.round(number / unit[0] * 10) / 10) + unit[1] : count(number);
  }

  function clock(ms, step) {
    const at = new Date(ms);
    const time = two(at.getUTCHours()) + ":" + two(at.getUTCMinutes());
    return step < 60000 ? time + ":" + two(at.getUTCSeconds()) : time;
  }

  function day(ms) {
    const at = new Date(ms);
    return at.getUTCDate() + " " + MONTHS[at.getUTCMonth()];
  }

  const moment = (ms, step) => day(ms) + " " + clock(ms, step) + " UTC";

  // The labels of a time axis, in UTC: the day stands below the first and wherever it changes.
  function times(plot, splits, axis, space, step) {
    let last = null;
    return splits.map((ms) => {
      const today = Math.floor(ms / DAY);
      const label = step >= DAY ? day(ms) : clock(ms, step) + (today === last ? "" : "\n" + day(ms));
      last = today;
      return label;
    });
  }

  function axes(x, y) {
    const look = {
      stroke: colour("muted"),
      font: FONT,
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { stroke: colour("grid"), width: 1, size: 5 },
    };
    return [Object.assign({}, look, x), Object.assign({}, look, { size: 52 }, y)];
  }

  // A slice counts from where it begins to where the next one does.
  const stepped = () => uPlot.paths.stepped({ align: 1 });

  function series(label, stroke, fill) {
    return {
      label, stroke, fill, width: 1.5, paths: stepped(), points: { show: false },
    };
  }

  function overTime(policies, columns, looks) {
    const longest = policies.reduce((a, b) => (b.overTime.length > a.overTime.length ? b : a));
    const from = longest.overTime.map((slice) => slice.fromUnixMs);
    const end = from[from.length - 1] + Math.max(longest.sliceMs, 1);
    const data = [from.concat(end)];
    for (const { policy, value } of columns) {
      const values = policy.overTime.map(value);
      while (values.length < from.length) values.push(0);
      data.push(values.concat(values[values.length - 1]));
    }
    return {
      data,
      options: {
        ms: 1,
        tzDate: (ms) => uPlot.tzDate(new Date(ms), "Etc/UTC"),
        scales: {
          x: { time: true, range: [data[0][0], end] },
          y: { range: (plot, low, high) => [0, Math.max(high * 1.08, 1)] },
        },
        axes: axes({ values: times, space: 64, size: 44 }, {
          values: (plot, splits) => splits.map((value) => (Number.isInteger(value) ? short(value) : "")),
        }),
        series: [{}].concat(looks),
      },
      read: (index) => {
        const last = Math.min(index, from.length - 1);
        const words = columns.map(({ name }, column) => name + " " + count(data[column + 1][last]));
        return moment(from[last], longest.sliceMs) + ": " + words.join(", ");
      },
    };
  }

  const KINDS = {
    denied: () => {
      const policies = findings.policies;
      const two = policies.length > 1;
      const columns = policies.map((policy) => ({
        policy, name: two ? policy.name : "denied", value: (slice) => slice.denied,
      }));
      const looks = policies.map((policy, index) => (two && index === 0
        ? series(policy.name, colour("before"))
        : series(policy.name, colour("denied"), two ? null : colour("denied-fill"))));
      return overTime(policies, columns, looks);
    },
    stack: (index) => {
      const policy = findings.policies[index];
      // Denied stands at the bottom; all calls stand behind it.
      const plan = overTime([policy], [
        { policy, name: "all", value: (slice) => slice.admitted + slice.denied },
        { policy, name: "denied", value: (slice) => slice.denied },
      ], [
        series("all", colour("admitted"), colour("admitted-fill")),
        series("denied", colour("denied"), colour("denied-fill")),
      ]);
      const { overTime: slices, sliceMs } = policy;
      plan.read = (at) => {
        const slice = slices[Math.min(at, slices.length - 1)];
        return moment(slice.fromUnixMs, sliceMs) + ": admitted " + count(slice.admitted)
          + ", denied " + count(slice.denied);
      };
      return plan;
    },
    curve: (index) => curve(findings.suggestions[index]),
  };

  // Every label is wanted, of every power.
  const all = (plot, splits) => splits;

  function tens(most) {
    const splits = [0];
    for (let ten = 1; ten <= most; ten *= 10) splits.push(ten);
    return splits;
  }

  function curve(suggestion) {
    // Nothing can be drawn at a limit of 0 on an axis of powers of ten.
    const points = suggestion.curve.filter((point) => point.limit > 0);
    const limits = points.map((point) => point.limit);
    const affected = points.map((point) => point.affected);
    const least = Math.pow(10, Math.floor(Math.log10(Math.min(suggestion.limit || 1, limits[0] || 1))));
    const most = Math.max(suggestion.limit, limits[limits.length - 1] || 1, least * 10);
    const high = Math.max(suggestion.identifiers, affected[0] || 0, 1);
    const asked = suggestion.identifiers * suggestion.maxAffectedPpm / 1e6;
    return {
      data: [limits, affected],
      options: {
        scales: {
          x: { time: false, distr: 3, log: 10, range: [least, most * 1.2] },
          // Powers of ten, and yet a zero.
          y: { distr: 4, asinh: 1, range: [0, high * 1.3] },
        },
        axes: axes({
          splits: () => tens(most * 1.2).filter((ten) => ten >= least),
          values: (plot, splits) => splits.map(short),
          filter: all,
          label: "limit",
          labelFont: FONT,
          labelSize: 18,
          size: 30,
        }, {
          splits: () => tens(high),
          values: (plot, splits) => splits.map(short),
          filter: all,
          label: "identifiers",
          labelFont: FONT,
          labelSize: 16,
        }),
        series: [{}, {
          label: "limited", stroke: colour("admitted"), fill: colour("admitted-fill"), width: 2,
          points: { show: limits.length < 3 },
        }],
        hooks: { draw: [(plot) => chosen(plot, suggestion, asked)] },
      },
      read: (at) => "a limit of " + count(limits[at]) + " would limit " + count(affected[at]),
    };
  }

  // A line for what was asked for, and a ring around what is suggested.
  function chosen(plot, suggestion, asked) {
    const context = plot.ctx;
    const ratio = window.devicePixelRatio || 1;
    const x = plot.valToPos(Math.max(suggestion.limit, 1), "x", true);
    const y = plot.valToPos(suggestion.affected, "y", true);
    const line = plot.valToPos(asked, "y", true);
    const { left, top, width, height } = plot.bbox;
    context.save();
    context.strokeStyle = colour("muted");
    context.lineWidth = ratio;
    context.setLineDash([5 * ratio, 4 * ratio]);
    context.beginPath();
    context.moveTo(left, line);
    context.lineTo(left + width, line);
    context.moveTo(x, top);
    context.lineTo(x, top + height);
    context.stroke();
    context.setLineDash([]);
    context.strokeStyle = colour("denied");
    context.lineWidth = 2.5 * ratio;
    context.beginPath();
    context.arc(x, y, 5.5 * ratio, 0, 2 * Math.PI);
    context.stroke();
    context.fillStyle = colour("ink");
    context.font = "600 " + 12 * ratio + "px system-ui, sans-serif";
    const text = count(suggestion.limit);
    const room = left + width - x > context.measureText(text).width + 14 * ratio;
    context.textAlign = room ? "left" : "right";
    context.fillText(text, x + (room ? 8 : -8) * ratio, top + 14 * ratio);
    context.restore();
  }

  const drawn = [];

  function draw(figure) {
    const place = figure.querySelector(".plot");
    const output = figure.querySelector("output");
    const plan = KINDS[figure.dataset.plot](Number(figure.dataset.of || 0));
    const paper = root.classList.contains("paper");
    const style = getComputedStyle(place);
    const inner = place.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const size = () => ({ width: paper ? PAPER_WIDTH : Math.max(inner, 120), height: 224 });
    const options = Object.assign(size(), plan.options, {
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false }, points: { size: 7 } },
    });
    options.hooks = Object.assign({}, options.hooks, {
      setCursor: [(plot) => {
        const at = plot.cursor.idx;
        output.textContent = at == null ? "" : plan.read(at);
      }],
    });
    place.replaceChildren();
    const plot = new uPlot(options, plan.data, place);
    place.onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const at = plot.cursor.idx == null ? (step > 0 ? -1 : plan.data[0].length) : plot.cursor.idx;
      const next = Math.min(Math.max(at + step, 0), plan.data[0].length - 1);
      plot.setCursor({ left: plot.valToPos(plan.data[0][next], "x"), top: 0 });
    };
    return { place, plot, width: place.clientWidth };
  }

  function drawAll() {
    drawn.splice(0).forEach((each) => each.plot.destroy());
    document.querySelectorAll("figure[data-plot]").forEach((figure) => drawn.push(draw(figure)));
  }

  function resized() {
    if (drawn.some((each) => each.place.clientWidth !== each.width)) drawAll();
  }

  function compare(column, direction) {
    return (a, b) => {
      const [x, y] = [a.cells[column], b.cells[column]];
      const numbers = x.dataset.value != null && y.dataset.value != null;
      const order = numbers
        ? Number(x.dataset.value) - Number(y.dataset.value)
        : x.textContent.localeCompare(y.textContent, "en", { numeric: true });
      return direction * order;
    };
  }

  function sortable(table) {
    const heads = Array.from(table.tHead.rows[0].cells);
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const falling = head.getAttribute("aria-sort") === "descending";
        const fresh = !head.hasAttribute("aria-sort");
        // Numbers are first wanted from the top, names from the beginning.
        const down = fresh ? head.classList.contains("n") : !falling;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.append(...Array.from(body.rows).sort(compare(column, down ? -1 : 1)));
      });
    });
  }

  function filterable(table) {
    const rows = Array.from(table.tBodies[0].rows);
    const bar = document.createElement("div");
    const label = document.createElement("label");
    const input = document.createElement("input");
    const output = document.createElement("output");
    bar.className = "filter";
    input.type = "search";
    input.autocomplete = "off";
    input.spellcheck = false;
    label.append("Filter", input);
    bar.append(label, output);
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      let shown = 0;
      for (const row of rows) {
        const text = row.cells[0].textContent + " " + row.cells[1].textContent;
        row.hidden = !text.toLowerCase().includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      output.textContent = wanted === "" ? "" : shown + " of " + rows.length;
    });
    const scroll = table.closest(".scroll");
    scroll.parentNode.insertBefore(bar, scroll);
  }

  const hint = document.createElement("p");
  hint.className = "hint";
  hint.textContent = "Point at a plot to read it; drag to look closer, double-click to see all again.";
  const time = document.getElementById("time-head");
  if (time) time.after(hint);
  drawAll();
  document.querySelectorAll("table.sortable").forEach((table) => {
    sortable(table);
    filterable(table);
  });
  dark.addEventListener("change", drawAll);
  new ResizeObserver(resized).observe(document.body);
  window.addEventListener("beforeprint", () => {
    root.classList.add("paper");
    drawAll();
  });
  window.addEventListener("afterprint", () => {
    root.classList.remove("paper");
    drawAll();
  });
})();
