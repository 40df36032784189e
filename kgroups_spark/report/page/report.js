"use strict";
// Search, sort and paging of the tables. Texts come from a log: they only ever become text, never markup.
(() => {
  const PAGE = 10;
  const LONG_WORD = /[^\s-]{25,}/; // as figures.LONG_WORD
  const grouped = new Intl.NumberFormat("en-US");
  const oneDecimal = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

  // As figures.shown does it.
  function shown(cell, kind) {
    if (cell === null) return "–";
    if (typeof cell === "string") return cell;
    if (kind === "rate") return oneDecimal.format(cell);
    if (kind === "bytes") return sized(cell);
    return grouped.format(cell);
  }

  function sized(bytes) {
    if (bytes < 1000) return bytes + " B";
    if (bytes < 1e6) return (bytes / 1e3).toFixed(1) + " kB";
    return oneDecimal.format(bytes / 1e6) + " MB";
  }

  // Numbers by size, texts as people sort them; nothing goes last, whichever way.
  function compare(a, b, direction) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return direction * (a - b);
    return direction * String(a).localeCompare(String(b), "en", { numeric: true });
  }

  // The name of a group leads to its part of the page, if it has one.
  const groups = new Map([...document.querySelectorAll(".group")].map((group) => [group.dataset.group, group.id]));
  function fill(column, text, leads) {
    if (!leads || !groups.has(text)) {
      column.textContent = text;
      return;
    }
    const link = document.createElement("a");
    link.href = "#" + groups.get(text);
    link.textContent = text;
    column.append(link);
  }

  function openGroup() {
    const target = document.getElementById(location.hash.slice(1));
    if (target?.matches(".group")) target.open = true;
  }

  // On a phone a table that is too wide becomes a list: each cell on a line, behind the heading of its column.
  const isPhone = matchMedia("(max-width: 46rem)");
  function fit(scroll) {
    scroll.classList.remove("as-list");
    if (!isPhone.matches || scroll.scrollWidth <= scroll.clientWidth) return;
    const headings = [...scroll.querySelectorAll("th")].map((head) => head.textContent);
    scroll.querySelectorAll("tbody tr").forEach((line) => {
      [...line.cells].forEach((cell, index) => { cell.dataset.heading = headings[index]; });
    });
    scroll.classList.add("as-list");
  }
  const fitAll = (part) => part.querySelectorAll(".scroll").forEach(fit);

  function enliven(figure) {
    const rows = JSON.parse(figure.querySelector("script").textContent);
    const heads = [...figure.querySelectorAll("th")];
    const kinds = heads.map((head) => head.dataset.kind);
    const classes = heads.map((head) => head.className);
    const leads = heads.map((head) => "links" in head.dataset);
    const body = figure.querySelector("tbody");
    const tools = figure.querySelector(".tools");
    const rest = figure.querySelector(".rest");
    let found = rows;
    let first = 0;
    let haystack = null; // made when somebody searches

    function render() {
      const lines = found.slice(first, first + PAGE).map((row) => {
        const line = document.createElement("tr");
        row.forEach((cell, index) => {
          const column = document.createElement("td");
          column.className = classes[index];
          fill(column, shown(cell, kinds[index]), leads[index]);
          column.classList.toggle("has-long-word", LONG_WORD.test(column.textContent));
          line.append(column);
        });
        return line;
      });
      body.replaceChildren(...lines);
      fit(figure.querySelector(".scroll"));
      if (!tools) return;
      const last = Math.min(first + PAGE, found.length);
      const count = found.length ? `${grouped.format(first + 1)}–${grouped.format(last)} of ${grouped.format(found.length)}` : "none found";
      tools.querySelector("output").textContent = count;
      rest.textContent = `Rows ${count}.`;
      tools.querySelector("[data-step='-1']").disabled = first === 0;
      tools.querySelector("[data-step='1']").disabled = last >= found.length;
    }

    let words = [];
    let order = null; // column and direction
    function choose() {
      if (words.length && !haystack) {
        haystack = new Map(rows.map((row) => [row, row.map((cell, index) => shown(cell, kinds[index])).join("\n").toLowerCase()]));
      }
      found = words.length ? rows.filter((row) => words.every((word) => haystack.get(row).includes(word))) : rows.slice();
      if (order) found.sort((a, b) => compare(a[order.column], b[order.column], order.direction));
      first = 0;
      render();
    }

    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        // Texts begin at A, numbers with the largest.
        const before = order && order.column === column ? order.direction : null;
        order = { column, direction: before ? -before : head.classList.contains("number") ? -1 : 1 };
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order.direction === 1 ? "ascending" : "descending");
        choose();
      });
    });
    if (tools) {
      tools.querySelector("input").addEventListener("input", (event) => {
        words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
        choose();
      });
      tools.querySelectorAll("button").forEach((button) => {
        button.addEventListener("click", () => {
          first = Math.max(0, first + PAGE * Number(button.dataset.step));
          render();
        });
      });
    }
    render();
  }

  // A bar's words are in its label: shown when the pointer is on it.
  document.querySelectorAll(".drawing [aria-roledescription='bar']").forEach((bar) => {
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = bar.getAttribute("aria-label");
    bar.append(title);
  });
  document.querySelectorAll("figure.table").forEach(enliven);
  document.querySelectorAll(".group").forEach((group) => group.addEventListener("toggle", () => fitAll(group)));
  addEventListener("resize", () => fitAll(document));
  addEventListener("hashchange", openGroup);
  openGroup();
  document.documentElement.classList.add("has-script");
})();
