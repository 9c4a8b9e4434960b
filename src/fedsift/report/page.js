"use strict";
// Adds sorting and filtering to tables; the page is complete without it.
(() => {
  const LONG = 8;
  const units = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9 };

  function key(row, column) {
    const cell = row.cells[column];
    if (!cell) return "";
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    const found = text.replace(/,/g, "").match(/^[±+]?\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(B|kB|MB|GB|s|%)?$/i);
    return found ? Number(found[1]) * (units[found[2]] || 1) : text.toLowerCase();
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
    return typeof a === "number" ? -1 : 1;
  }

  function sort(table, heading, column) {
    const up = heading.getAttribute("aria-sort") !== "ascending";
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort((a, b) => (up ? 1 : -1) * compare(a[0], b[0]));
    body.append(...rows.map((pair) => pair[1]));
    for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  }

  function addFilter(table) {
    const rows = [...table.tBodies[0].rows];
    const tools = document.createElement("div");
    const label = document.createElement("label");
    const input = document.createElement("input");
    const count = document.createElement("span");
    tools.className = "tools";
    input.type = "search";
    label.append("Filter ", input);
    count.setAttribute("role", "status");
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      let shown = 0;
      for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = wanted ? `${shown} of ${rows.length} rows` : "";
    });
    tools.append(label, count);
    const box = table.closest(".scroll") || table;
    box.before(tools);
  }

  for (const table of document.querySelectorAll("table.wide, table.cards")) {
    if (!table.tHead || table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      if (heading.tagName !== "TH") return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      button.addEventListener("click", () => sort(table, heading, column));
      heading.replaceChildren(button);
    });
    if (table.tBodies[0].rows.length > LONG) addFilter(table);
  }
  // A printed page shows everything that is folded on the screen.
  const folded = [];
  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details:not([open])")) {
      one.open = true;
      folded.push(one);
    }
  });
  addEventListener("afterprint", () => {
    while (folded.length) folded.pop().open = false;
  });
})();
