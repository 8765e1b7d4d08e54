// Comfort only: the page is complete without this script.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, className, parent) => {
    const element = document.createElement(tag);
    element.className = className;
    parent.append(element);
    return element;
  };
  all(".js").forEach((element) => { element.hidden = false; });

  // Light and dark: follows the system until told otherwise, and remembers.
  const theme = document.getElementById("theme");
  const root = document.documentElement;
  const store = (value) => {
    try {
      if (value) localStorage.setItem("quietcore-theme", value);
      return localStorage.getItem("quietcore-theme");
    } catch { return null; } // no storage for files in some browsers
  };
  const apply = (value) => { if (value === "light" || value === "dark") root.dataset.theme = value; };
  apply(store());
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const next = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    apply(next);
    store(next);
  });

  // Findings: filter by status and cause; a bar of the overview opens its card.
  all(".filter").forEach((filter) => {
    const cards = all(".card", filter.nextElementSibling);
    const chips = all(".chip", filter);
    const select = filter.querySelector("select");
    const update = () => {
      const on = new Set(chips.filter((c) => c.ariaPressed === "true").map((c) => c.dataset.status));
      const cause = select ? select.value : "";
      cards.forEach((card) => {
        card.hidden = !on.has(card.dataset.status) || (cause !== "" && card.dataset.cause !== cause);
      });
    };
    chips.forEach((chip) => {
      chip.disabled = false;
      chip.addEventListener("click", () => {
        chip.ariaPressed = String(chip.ariaPressed !== "true");
        update();
      });
    });
    if (select) select.addEventListener("change", update);
    update();
  });
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.matches(".card")) {
      target.hidden = false;
      target.open = true;
      target.scrollIntoView({ block: "center" });
    }
  };
  addEventListener("hashchange", reveal);
  reveal();

  // Printed, every card is there, and open unless all is well, whatever the screen shows.
  addEventListener("beforeprint", () => all(".card").forEach((card) => {
    card.dataset.was = `${card.open} ${card.hidden}`;
    card.open = !card.matches(".st-pass, .st-na");
    card.hidden = false;
  }));
  addEventListener("afterprint", () => all(".card").forEach((card) => {
    const [open, hidden] = (card.dataset.was || "false false").split(" ");
    card.open = open === "true";
    card.hidden = hidden === "true";
  }));

  all(".copy").forEach((button) => button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    let copied = false;
    try {
      await navigator.clipboard.writeText(code.textContent);
      copied = true;
    } catch { // not every browser lets a file near the clipboard
      getSelection().selectAllChildren(code);
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));

  all(".sortable").forEach((table) => {
    const body = table.tBodies[0];
    all("th", table.tHead).forEach((th, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...th.childNodes);
      th.append(button);
      button.addEventListener("click", () => {
        const down = th.ariaSort === "ascending";
        all("th", table.tHead).forEach((other) => other.removeAttribute("aria-sort"));
        th.ariaSort = down ? "descending" : "ascending";
        const key = (row) => {
          const cell = row.cells[index];
          return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
        };
        const order = (a, b) => {
          const [x, y] = [key(a), key(b)];
          if (typeof x === "number" && typeof y === "number") return x - y;
          if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1; // reasons go last
          return x.localeCompare(y, "en", { numeric: true });
        };
        const rows = [...body.rows].sort(order);
        body.append(...(down ? rows.reverse() : rows));
      });
    });
  });

  // Values as the rest of the page writes them.
  const scales = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };
  const digits = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));
  const show = (value, unit) => {
    if (!(unit in scales)) return `${Number(value.toPrecision(4)).toLocaleString("en")} ${unit}`;
    const ns = value * scales[unit];
    if (ns < 1e3) return `${Math.round(ns)} ns`;
    if (ns < 1e6) return `${digits(ns / 1e3)} µs`;
    if (ns < 1e9) return `${digits(ns / 1e6)} ms`;
    return `${digits(ns / 1e9)} s`;
  };
  // The chart itself holds the values: units of the plot are turned back into them.
  const scaleOf = (chart) => {
    const [low, high] = [Number(chart.dataset.low), Number(chart.dataset.high)];
    return (y) => low * (high / low) ** (1 - y / 1000);
  };
  const tipFor = (plot) => {
    const tip = make("div", "tip", plot);
    tip.hidden = true;
    const place = (x) => {
      tip.hidden = false;
      const left = x > plot.clientWidth / 2;
      tip.style.left = left ? "auto" : `${x + 12}px`;
      tip.style.right = left ? `${plot.clientWidth - x + 12}px` : "auto";
    };
    const rows = (lines) => {
      tip.replaceChildren(...lines.map(([name, text, sign]) => {
        const line = document.createElement("div");
        const label = make("b", sign || "", line);
        label.textContent = name;
        make("i", "", line).textContent = text;
        return line;
      }));
    };
    return { tip, place, rows };
  };

  all(".chart.curves").forEach((chart) => {
    const plot = chart.querySelector(".plot");
    const { tip, place, rows } = tipFor(plot);
    const value = scaleOf(chart);
    const end = Number(chart.dataset.end);
    const keys = all(".legend .key", chart);
    const series = all("g.s", plot).map((group) => ({
      group,
      index: Number(group.dataset.series),
      points: all("polyline", group).flatMap((line) => [...line.points].map((p) => [p.x, p.y])),
      proven: Math.max(0, ...[...group.querySelector(".line").points].map((p) => p.x)),
    }));
    const cross = make("div", "cross", plot);
    cross.hidden = true;
    const at = (points, x) => {
      const next = points.findIndex(([px]) => px >= x);
      if (next < 0) return null;
      const [b, a] = [points[next], points[Math.max(next - 1, 0)]];
      return b[0] === a[0] ? b[1] : a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0]);
    };
    let here = 500;
    const point = (x) => {
      here = Math.min(1000, Math.max(0, x));
      const nines = here / 1000 * end;
      const percentile = 100 * (1 - 10 ** -nines);
      const places = Math.min(9, Math.max(0, Math.ceil(nines)));
      const lines = series
        .filter((s) => keys[s.index].ariaPressed === "true")
        .map((s) => [s, at(s.points, here)])
        .filter(([, y]) => y !== null)
        .sort(([, a], [, b]) => a - b)
        .slice(0, 12)
        .map(([s, y]) => {
          const seen = show(value(y), chart.dataset.unit);
          const text = here > s.proven ? `${seen} seen, not provable` : seen;
          return [keys[s.index].textContent, text, keys[s.index].className];
        });
      rows([[`P${percentile.toFixed(places)}`, ""], ...lines]);
      cross.hidden = false;
      cross.style.left = `${here / 10}%`;
      place(here / 1000 * plot.clientWidth);
    };
    const leave = () => { tip.hidden = true; cross.hidden = true; };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      point((event.clientX - box.left) / box.width * 1000);
    });
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", leave);
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -10, ArrowRight: 10 }[event.key];
      if (!step) return;
      event.preventDefault();
      point(here + step);
    });
    keys.forEach((key) => {
      key.disabled = series.length < 2;
      key.addEventListener("click", () => {
        key.ariaPressed = String(key.ariaPressed !== "true");
        const own = series.find((s) => s.index === Number(key.dataset.series));
        if (own) own.group.style.display = key.ariaPressed === "true" ? "" : "none";
      });
    });
  });

  all(".chart.scatter").forEach((chart) => {
    const plots = all(".plot", chart);
    const value = scaleOf(chart);
    const span = Number(chart.dataset.span);
    const reset = chart.querySelector(".reset");
    const labels = plots.at(-1).querySelector("div");
    let [from, width] = [0, 1000]; // what is shown, in units of the plot
    chart.classList.add("cursor-zoom");
    const ticks = () => {
      all(".x", labels).forEach((tick) => tick.remove());
      const length = width / 1000 * span;
      const power = 10 ** Math.floor(Math.log10(length / 5));
      const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= length / 5);
      const begin = from / 1000 * span;
      for (let t = Math.ceil(begin / step) * step; t <= begin + length * 1.0001; t += step) {
        const tick = make("span", "x", labels);
        tick.style.left = `${(t - begin) / length * 100}%`;
        tick.textContent = t === 0 ? "0" : show(t, "ns");
      }
    };
    const zoom = (a, b) => {
      [from, width] = [Math.max(0, a), Math.min(1000, b) - Math.max(0, a)];
      reset.disabled = width > 999;
      plots.forEach((p) => {
        p.querySelector("svg").setAttribute("viewBox", `${from} 0 ${width} 1000`);
      });
      ticks();
    };
    reset.addEventListener("click", () => zoom(0, 1000));
    plots.forEach((plot) => {
      const { tip, place, rows } = tipFor(plot);
      const text = plot.querySelector(".dots").getAttribute("d");
      const dots = [...text.matchAll(/M([\d.]+) ([\d.]+)h0/g)].map((m) => [Number(m[1]), Number(m[2])]);
      const band = make("div", "band", plot);
      band.hidden = true;
      let start = null;
      const pixels = (event) => {
        const box = plot.getBoundingClientRect();
        return [Math.min(box.width, Math.max(0, event.clientX - box.left)), event.clientY - box.top];
      };
      const units = (px) => from + px / plot.clientWidth * width;
      const nearest = (px, py) => {
        let best = [24 ** 2, null];
        for (const [x, y] of dots) {
          const dx = (x - from) / width * plot.clientWidth - px;
          const dy = y / 1000 * plot.clientHeight - py;
          if (dx * dx + dy * dy < best[0]) best = [dx * dx + dy * dy, [x, y, px + dx]];
        }
        return best[1];
      };
      plot.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        [start] = pixels(event);
        plot.setPointerCapture(event.pointerId);
      });
      plot.addEventListener("pointermove", (event) => {
        const [px, py] = pixels(event);
        if (start !== null) {
          band.hidden = false;
          band.style.left = `${Math.min(start, px)}px`;
          band.style.width = `${Math.abs(px - start)}px`;
          tip.hidden = true;
          return;
        }
        const dot = nearest(px, py);
        tip.hidden = !dot;
        if (!dot) return;
        rows([[show(value(dot[1]), chart.dataset.unit), `at ${show(dot[0] / 1000 * span, "ns")}`]]);
        place(dot[2]);
      });
      const drop = (event) => {
        const [px] = pixels(event);
        if (event.type === "pointerup" && start !== null && Math.abs(px - start) > 6) {
          zoom(units(Math.min(start, px)), units(Math.max(start, px)));
        }
        start = null;
        band.hidden = true;
      };
      plot.addEventListener("pointerup", drop);
      plot.addEventListener("pointercancel", drop);
      plot.addEventListener("pointerleave", () => { tip.hidden = true; });
      plot.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: [-0.2, 1], ArrowRight: [0.2, 1], "+": [0.25, 0.5], "-": [-0.5, 2] }[event.key];
        if (!move) return;
        event.preventDefault();
        const next = Math.min(1000, width * move[1]);
        const begin = Math.min(1000 - next, Math.max(0, from + width * move[0]));
        zoom(begin, begin + next);
      });
    });
  });
})();
