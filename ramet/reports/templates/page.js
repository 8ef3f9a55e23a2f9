
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

  // On paper nothing can be unfolded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const each of folded) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of folded) each.open = false; });
})();
