// Search and sort groups. Without this script the page is complete but the controls stay hidden.
(() => {
  "use strict";
  const bar = document.getElementById("find-groups");
  const lists = [...document.querySelectorAll("#groups ol.groups")];
  if (!bar || !lists.length) return;
  const folded = lists[1] && lists[1].closest("details");
  const groups = lists.flatMap((list) => [...list.children]);
  const open = lists[0].children.length;
  // Searched texts: the users' keys, in full even if the page shortens them, and the keys of the groups.
  const textOf = (element) => {
    const whole = [...element.querySelectorAll("bdi[title]")].map((cut) => cut.title);
    return [element.textContent, ...whole].join("\n").toLowerCase();
  };
  const texts = groups.map((group) => [...group.querySelectorAll(".chips li, header code")].map(textOf).join("\n"));
  const [wanted, order, said] = ["wanted", "order", "found"].map((name) => document.getElementById(name + "-groups"));
  const number = (group, name) => {
    const value = group.getAttribute("data-" + name);
    return value === null ? null : Number(value);
  };
  // Groups without the figure come last in both directions.
  const compared = (one, other, up) => {
    if (one === null || other === null) return (one === null) - (other === null);
    return up ? one - other : other - one;
  };

  const show = () => {
    const text = wanted.value.trim().toLowerCase();
    const [name, direction] = order.value.split(" ");
    const found = groups.filter((group, i) => texts[i].includes(text));
    found.sort(
      (one, other) =>
        compared(number(one, name), number(other, name), direction === "up") || number(one, "rank") - number(other, "rank"),
    );
    for (const group of groups) group.remove();
    const all = text !== "" || !folded;
    lists[0].append(...(all ? found : found.slice(0, open)));
    if (folded) {
      folded.hidden = all;
      lists[1].append(...(all ? [] : found.slice(open)));
    }
    for (const group of groups) {
      for (const key of group.querySelectorAll(".chips li")) {
        const hit = text !== "" && textOf(key).includes(text);
        key.classList.toggle("hit", hit);
        if (hit && key.closest("details")) key.closest("details").open = true;
      }
    }
    said.textContent = text === "" ? "" : `${found.length} of ${groups.length}`;
  };

  wanted.addEventListener("input", show);
  order.addEventListener("change", show);
  bar.hidden = false;
  show();
})();
