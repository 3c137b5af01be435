"use strict";
// Filters and sorts the tables of the report. Without it everything is there, in the order in which it was written.
(() => {
  const filters = document.querySelector(".filters");
  const rows = [...document.querySelectorAll("table.standings tbody tr")];
  const value = (name) => (filters ? filters.elements[name].value : "");

  function filter() {
    const words = value("text").toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = ["verdict", "host", "family", "size"].map((name) => [name, value(name)]);
    let shown = 0;
    for (const row of rows) {
      const text = `${row.textContent} ${row.dataset.family}`.toLowerCase();
      row.hidden = !chosen.every(([name, wanted]) => (wanted === "" && name !== "size") || row.dataset[name] === wanted) ||
        !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    filters.querySelector("output").textContent = `${shown} of ${rows.filter((row) => row.dataset.size === value("size")).length} rows`;
  }

  function key(cell) {
    if (!cell) return -Infinity;
    const text = cell.dataset.v ?? cell.textContent.replace(/[,≈ ]/g, "").replace("−", "-");
    const thousands = { k: 1e3, M: 1e6, G: 1e9 }[/^[\d.]+([kMG])$/.exec(text)?.[1]] ?? 1; // 98.3 k, 1.04 M
    const number = parseFloat(text) * thousands;
    return Number.isNaN(number) ? text : number;
  }

  function compare(a, b, ascending) {
    if (typeof a === typeof b) return (ascending ? 1 : -1) * (a < b ? -1 : a > b ? 1 : 0);
    return typeof a === "number" ? -1 : 1; // what is no number stands last, either way
  }

  function sort(head, column) {
    const ascending = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0];
    const sorted = [...body.rows].map((row) => [key(row.cells[column]), row]);
    sorted.sort((one, other) => compare(one[0], other[0], ascending));
    body.append(...sorted.map(([, row]) => row));
  }

  for (const head of document.querySelectorAll("thead th")) {
    if (head.classList.contains("figure") || !head.textContent.trim()) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.title = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(head, head.cellIndex));
  }

  if (filters) {
    filters.hidden = false;
    filters.addEventListener("input", filter);
    filters.addEventListener("reset", () => setTimeout(filter));
    filters.addEventListener("submit", (event) => event.preventDefault());
    filter();
  }
})();
