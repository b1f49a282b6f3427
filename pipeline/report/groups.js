// Filter, search and sort cases. Without this script the page is complete, but the controls stay hidden.
(() => {
  "use strict";
  // Boxes that scroll can be reached by keyboard.
  for (const box of document.querySelectorAll(".scroll, pre")) box.tabIndex = 0;
  const bar = document.getElementById("find");
  if (!bar) return;
  const table = document.getElementById("case-list");
  const byId = (id) => document.getElementById(id);
  const [wanted, said, allCases, useKeys] = ["wanted", "found", "all-cases", "use-keys"].map(byId);
  const body = table.tBodies[0], sections = byId("case-sections");
  const cases = [...body.rows].map((row) => ({ row, section: byId(row.querySelector("a").hash.slice(1)) }));
  const accounts = [...document.querySelectorAll(".accounts li")];
  const filters = [...bar.querySelectorAll("[data-filter]")];
  const ONES = 50; // Rows in the open: a longer list is one click away.
  let every = cases.length <= ONES;

  // Searched texts: the users' keys, in full even if the page shortens them.
  const textOf = (element) => {
    const whole = [...element.querySelectorAll("bdi[title]")].map((cut) => cut.title);
    return [element.textContent, ...whole].join("\n").toLowerCase();
  };
  const searched = (one) => (one.text ??= [one.section, one.row].map(textOf).join("\n"));
  const passes = (row, filter) => {
    const name = filter.dataset.filter, has = row.dataset[name] ?? "";
    if (name === "known") return !filter.checked || Number(has) > 0;
    if (filter.value === "") return true;
    if (name === "size") return Number(has) >= Number(filter.value);
    if (name === "p") return has !== "" && Number(has) < Number(filter.value);
    return has.split(" ").includes(filter.value);
  };

  const mark = (item, text) => {
    const hit = text !== "" && textOf(item).includes(text);
    item.classList.toggle("hit", hit);
    if (hit && !item.closest(".group")) for (let fold = item.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    return hit;
  };
  const show = () => {
    const text = wanted.value.trim().toLowerCase();
    const found = cases.filter((one) => filters.every((filter) => passes(one.row, filter)) && (text === "" || searched(one).includes(text)));
    const isNarrowed = found.length < cases.length;
    const open = new Set(every || isNarrowed ? found : found.slice(0, ONES));
    const kept = new Set(found);
    for (const one of cases) {
      one.row.hidden = !open.has(one);
      one.section.hidden = !kept.has(one);
      if (text === "" ? one.isMarked : kept.has(one)) for (const item of one.section.querySelectorAll(".chips li")) mark(item, text);
      one.isMarked = text !== "" && kept.has(one);
    }
    for (const item of accounts) item.hidden = !mark(item, text) && text !== "";
    said.textContent = isNarrowed || text !== "" ? `${found.length} of ${cases.length} cases` : "";
    allCases.hidden = open.size === found.length;
    allCases.textContent = `Show all ${cases.length} cases`;
  };

  const valueOf = (row, column) => {
    const cell = row.cells[column], text = column === 0 ? cell.querySelector("a").textContent : cell.dataset.v ?? cell.textContent;
    const number = Number(text.replaceAll(",", ""));
    return text === "" ? null : Number.isNaN(number) ? text : number;
  };
  const heads = [...table.tHead.rows[0].cells];
  const sort = (column) => {
    // The first click shows what matters most: low numbers of cases, p and since; high ones of all else.
    const low = column === 0 || ["p", "since"].includes(heads[column].textContent);
    const before = heads[column].ariaSort;
    const ascends = before ? before === "descending" : low;
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].ariaSort = ascends ? "ascending" : "descending";
    for (const one of cases) one.value = valueOf(one.row, column);
    // Cases without a value come last in both directions.
    cases.sort((one, other) => {
      const [a, b] = [one.value, other.value];
      if (a === null || b === null) return (a === null) - (b === null);
      const order = a < b ? -1 : a > b ? 1 : 0;
      return (ascends ? order : -order) || valueOf(one.row, 0) - valueOf(other.row, 0);
    });
    body.append(...cases.map((one) => one.row));
    sections.append(...cases.map((one) => one.section));
    show();
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(column));
  });

  // On narrow screens a row is a card, whose cells have labels.
  for (const { row } of cases) for (const cell of row.cells) cell.dataset.l = heads[cell.cellIndex].textContent;
  table.classList.add("cards");

  bar.addEventListener("input", show);
  bar.addEventListener("submit", (event) => event.preventDefault());
  bar.addEventListener("reset", () => setTimeout(show));
  allCases.addEventListener("click", () => { every = true; show(); });

  // A link leads to its target even if that is folded or filtered out.
  const arrive = () => {
    const target = byId(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.closest("[hidden]")) bar.reset();
    setTimeout(() => {
      for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      target.scrollIntoView();
      if (target.tabIndex === -1) target.focus({ preventScroll: true });
    });
  };
  addEventListener("hashchange", arrive);

  const step = (by) => {
    const visible = cases.map((one) => one.section).filter((section) => !section.hidden);
    const at = visible.indexOf(document.activeElement?.closest(".case"));
    const next = visible[Math.min(Math.max(at + by, 0), visible.length - 1)];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView();
  };
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input:not([type=checkbox]), select, textarea");
    if (!useKeys.checked || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const does = { "/": () => wanted.focus(), j: () => step(1), k: () => step(-1) }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  });

  // On paper everything is unfolded.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...sections.querySelectorAll("details:not([open])")];
    for (const fold of unfolded) fold.open = true;
    for (const one of cases) one.row.hidden = one.section.hidden;
  });
  addEventListener("afterprint", () => {
    for (const fold of unfolded) fold.open = false;
    show();
  });

  table.caption.textContent = "Sort by a heading. A case's number leads to its section.";
  bar.hidden = false;
  heads[0].ariaSort = "ascending";
  show();
  arrive();
})();
