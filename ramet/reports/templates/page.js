
"use strict";
// Read-outs: what a chart tells under the pointer or a finger. Without this script the browser's own tooltips do it.
(() => {
  const tip = document.getElementById("tip");
  for (const title of document.querySelectorAll(".hit > title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove(); // or two tooltips would appear
  }
  const matrices = new Map();

  const cellUnder = (area, event) => {
    if (!matrices.has(area)) matrices.set(area, ["rows", "columns", "values"].map((key) => area.dataset[key].split("\n")));
    const [rows, columns, values] = matrices.get(area);
    const label = area.dataset.label;
    const box = area.getBoundingClientRect();
    const index = (share, length) => Math.min(length - 1, Math.max(0, Math.floor(share * length)));
    const row = index((event.clientY - box.top) / box.height, rows.length);
    const column = index((event.clientX - box.left) / box.width, columns.length);
    return `row ${rows[row]}, column ${columns[column]}\n${label ? label + ": " : ""}${values[row * columns.length + column]}`;
  };

  const show = (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const matrix = target && target.closest(".matrix");
    const hit = target && target.closest("[data-tip]");
    if (!matrix && !hit) { tip.hidden = true; return; }
    tip.textContent = matrix ? cellUnder(matrix, event) : hit.dataset.tip;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - width - 8);
    const above = event.clientY - height - 14;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above > 8 ? above : event.clientY + 20}px`;
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true, capture: true });

  // A chart as a file of its own, or its values on the clipboard; without this script the buttons stay hidden.
  const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "opacity", "paint-order", "text-anchor", "font-family", "font-size", "font-weight", "shape-rendering"];

  const standalone = (svg) => {
    const copy = svg.cloneNode(true);
    const sources = [svg, ...svg.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((element, place) => {
      const shown = getComputedStyle(sources[place]);
      // Colours come from the page's style sheet, which the file does not have.
      for (const name of STYLES) element.setAttribute(name, shown.getPropertyValue(name));
      element.removeAttribute("class");
      element.removeAttribute("style");
      for (const name of Object.keys(element.dataset)) delete element.dataset[name];
    });
    const { width, height } = svg.viewBox.baseVal;
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    const ground = document.createElementNS(svg.namespaceURI, "rect");
    ground.setAttribute("width", width);
    ground.setAttribute("height", height);
    ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
    copy.prepend(ground);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  const savePng = ({ text, width, height }, name) => new Promise((done, failed) => {
    const picture = new Image();
    picture.onerror = failed;
    picture.onload = () => {
      const canvas = document.createElement("canvas");
      const scale = 2; // sharp on paper and on screens of today
      canvas.width = width * scale;
      canvas.height = height * scale;
      canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => { if (blob) { save(blob, name); done(); } else failed(); }, "image/png");
    };
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  });

  const copyText = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const copied = document.execCommand("copy");
      area.remove();
      if (!copied) throw new Error("the browser refused");
    }
  };

  for (const line of document.querySelectorAll(".keep")) {
    line.hidden = false;
    line.addEventListener("click", async (event) => {
      const what = event.target instanceof HTMLButtonElement ? event.target.dataset.keep : "";
      if (!what) return;
      const told = line.querySelector("span");
      const charts = [...line.closest("figure").querySelectorAll("svg.chart")];
      const shown = charts.find((svg) => svg.getClientRects().length);
      try {
        if (what === "csv") await copyText(line.dataset.csv);
        else if (what === "svg") save(new Blob([standalone(shown).text], { type: "image/svg+xml" }), `${line.dataset.name}.svg`);
        else await savePng(standalone(shown), `${line.dataset.name}.png`);
        told.textContent = what === "csv" ? "copied" : "saved";
      } catch { told.textContent = "this browser refuses it"; }
    });
  }

  // On paper nothing can be unfolded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const each of folded) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of folded) each.open = false; });
})();
