"use strict";

// Sorting: a click on a head sorts up, then down, then as it was.
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

function readKey(row, column) {
  const cell = row.cells[column];
  const number = cell.dataset.value;
  return number === undefined ? cell.textContent.trim().toLowerCase() : Number(number);
}

function compareKeys(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sortRows(rows, column, direction) {
  const keyed = rows.map((row) => [readKey(row, column), row]);
  const sign = direction === "descending" ? -1 : 1;
  keyed.sort(([a], [b]) => {
    if (a === "" || b === "") return (a === "") - (b === ""); // Empty ones last, both ways.
    return sign * compareKeys(a, b);
  });
  return keyed.map(([, row]) => row);
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.querySelectorAll("th[data-column]")];
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const direction = NEXT[head.getAttribute("aria-sort")];
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", direction);
      table.classList.toggle("sorted", direction !== "none");
      const column = Number(head.dataset.column);
      body.append(...(direction === "none" ? original : sortRows(original, column, direction)));
    });
  }
}

// Filtering: rows with all the words stay, and tables with such rows.
function isWithoutMatches(element) {
  return element.classList.contains("without-matches");
}

function readWords(row) {
  const cells = [...row.cells].map((cell) => cell.textContent);
  return [row.closest("table").dataset.context, ...cells].join(" ").toLowerCase();
}

function makeFilter() {
  const input = document.getElementById("filter-text");
  const count = document.getElementById("filter-count");
  const entries = [...document.querySelectorAll("main article")].map((article) => ({
    article,
    rows: [...article.querySelectorAll("table.data > tbody > tr")].map((row) => ({
      row,
      words: readWords(row),
    })),
  }));
  const sections = new Set(entries.map(({ article }) => article.parentElement));
  const total = entries.reduce((sum, entry) => sum + entry.rows.length, 0);

  function apply() {
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const { article, rows } of entries) {
      let here = 0;
      for (const { row, words } of rows) {
        row.hidden = !wanted.every((word) => words.includes(word));
        if (!row.hidden) here += 1;
      }
      article.classList.toggle("without-matches", here === 0);
      found += here;
    }
    for (const section of sections) {
      const articles = [...section.querySelectorAll("article")];
      section.classList.toggle("without-matches", articles.every(isWithoutMatches));
    }
    const active = wanted.length > 0;
    document.body.classList.toggle("filtered", active);
    count.textContent = active ? `${found} of ${total} rows` : "";
  }

  input.addEventListener("input", apply);
  document.addEventListener("click", (event) => {
    const target = event.target.closest("a[href^='#']")?.hash.slice(1);
    if (!target || !document.getElementById(target)?.closest(".without-matches")) return;
    input.value = ""; // The link leads to what the filter hides.
    apply();
  });
  document.getElementById("filter").hidden = false;
  apply(); // A browser may have kept the text of an earlier visit.
}

// Paper has nothing to click: what is folded is printed open.
function unfoldForPrint() {
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((details) => (details.open = true));
  });
  window.addEventListener("afterprint", () => folded.forEach((details) => (details.open = false)));
}

document.querySelectorAll("table.data").forEach(makeSortable);
makeFilter();
unfoldForPrint();
