// Sorting, filtering and the details of the rows.
(() => {
  const OPENED_AT_ONCE = 100;
  const SHOWN_AT_ONCE = 500; // a browser takes seconds to lay out ten thousand rows

  const make = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const described = (element, attributes) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  // One table with its controls.
  const enliven = (section) => {
    const main = section.querySelector(".scroll > table");
    if (!main) return;
    const bodies = () => [...main.tBodies];
    const columns = main.tHead.rows[0].cells.length;

    const button = (body) => body.rows[0].cells[0].querySelector("button");
    const close = (body) => {
      body.querySelector(".details")?.remove();
      button(body).setAttribute("aria-expanded", "false");
    };
    const open = async (body) => {
      if (body.querySelector(".details")) return;
      body.hidden = false;
      button(body).setAttribute("aria-expanded", "true");
      const cell = make("td", { colSpan: columns });
      body.append(make("tr", { className: "details", id: `d${body.id}` }, cell));
      const place = Number(body.id.slice(1)) - Number(section.dataset.first);
      cell.append(make("div", { innerHTML: await unpacked(section, place) }));
    };
    for (const body of bodies()) {
      const cell = body.rows[0].cells[0];
      const toggle = described(make("button", { type: "button" }), { "aria-expanded": "false", "aria-controls": `d${body.id}` });
      toggle.append(make("span", {}, ...cell.childNodes));
      body.addEventListener("keydown", (event) => {
        if (event.key !== "Escape") return;
        close(body);
        toggle.focus();
      });
      cell.append(toggle);
      toggle.addEventListener("click", () => {
        if (toggle.getAttribute("aria-expanded") === "true") return close(body);
        history.replaceState(null, "", `#${body.id}`);
        open(body);
      });
    }

    // Sorting: by number if the column has any, the largest first; rows without a value come last.
    const heads = [...main.tHead.rows[0].cells];
    const valueOf = (body, column) => {
      const { v } = body.rows[0].cells[column].dataset;
      return v === undefined ? body.rows[0].cells[column].textContent : Number(v);
    };
    const sort = (column, descending) => {
      const keyed = bodies().map((body) => [valueOf(body, column), body]);
      const numeric = keyed.some(([value]) => typeof value === "number");
      const missing = (value) => (numeric ? typeof value !== "number" : value === "");
      const compare = (one, other) => (numeric ? one - other : one.localeCompare(other, "en", { numeric: true }));
      keyed.sort(([one], [other]) => {
        if (missing(one) || missing(other)) return Number(missing(one)) - Number(missing(other));
        return descending ? compare(other, one) : compare(one, other);
      });
      // Outside of the page, rows move much faster.
      const place = make("span");
      main.replaceWith(place);
      main.append(...keyed.map(([, body]) => body));
      filter();
      place.replaceWith(main);
      heads.forEach((head, number) => head.setAttribute("aria-sort", number !== column ? "none" : descending ? "descending" : "ascending"));
    };
    heads.forEach((head, column) => {
      const sorter = make("button", { type: "button" }, ...head.childNodes);
      head.append(sorter);
      head.setAttribute("aria-sort", head.textContent === "verdict" ? "ascending" : "none");
      sorter.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        most = SHOWN_AT_ONCE;
        const numbers = head.textContent !== "verdict" && bodies().some((body) => body.rows[0].cells[column].dataset.v);
        sort(column, now === "none" ? numbers : now === "ascending");
        sorter.focus();
      });
    });

    // Filtering: by words, which all have to be in the row, and by verdict.
    const words = described(make("input", { type: "search", placeholder: "Filter by any words of a row" }), { "aria-label": "Filter the tests" });
    const status = described(make("p", { className: "status" }), { role: "status" });
    const verdictOf = (body) => body.rows[0].querySelector(".verdict").textContent;
    const counted = new Map();
    for (const body of bodies()) counted.set(verdictOf(body), (counted.get(verdictOf(body)) ?? 0) + 1);
    const chips = [...counted].map(([verdict, number]) => {
      const kind = bodies().find((body) => verdictOf(body) === verdict).className;
      const chip = make("button", { type: "button", className: "verdict", value: verdict }, `${number} ${verdict}`);
      described(chip, { "aria-pressed": "true" });
      chip.addEventListener("click", () => {
        chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
        most = SHOWN_AT_ONCE;
        filter();
      });
      return make("span", { className: kind }, chip);
    });
    const texts = new Map(bodies().map((body) => [body, body.textContent.toLowerCase()]));
    const more = make("button", { type: "button" }, "Show more");
    let most = SHOWN_AT_ONCE;
    const filter = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      const pressed = chips.map((chip) => chip.firstChild).filter((chip) => chip.getAttribute("aria-pressed") === "true");
      const verdicts = new Set(pressed.map((chip) => chip.value));
      let found = 0;
      for (const body of bodies()) {
        const fits = verdicts.has(verdictOf(body)) && wanted.every((word) => texts.get(body).includes(word));
        found += Number(fits);
        body.hidden = !fits || found > most;
      }
      const shown = Math.min(found, most);
      more.hidden = shown === found;
      status.textContent = `${shown} of ${texts.size} shown${shown < found ? `, ${found - shown} more fit` : ""}`;
    };
    words.addEventListener("input", () => {
      most = SHOWN_AT_ONCE;
      filter();
    });
    more.addEventListener("click", () => {
      most += SHOWN_AT_ONCE;
      filter();
    });

    const visible = () => bodies().filter((body) => !body.hidden).slice(0, OPENED_AT_ONCE);
    const opener = make("button", { type: "button" }, "Open all");
    opener.addEventListener("click", () => visible().forEach(open));
    const closer = make("button", { type: "button" }, "Close all");
    closer.addEventListener("click", () => bodies().forEach(close));
    const controls = make("div", { className: "controls" }, words, ...chips, opener, closer, more, status);
    section.querySelector(".counts").replaceWith(controls);
    filter();
    // The worst failure, which is the first row, is what a reader looks for.
    const worst = main.querySelector("tbody.bad");
    if (worst && !location.hash) open(worst);
    return open;
  };

  const sections = [...document.querySelectorAll("main > section")];
  const opens = new Map(sections.map((section) => [section, enliven(section)]));

  // One GPU model at a time; a row in the address is opened.
  const show = () => {
    const target = document.getElementById(location.hash.slice(1));
    const chosen = target?.closest("main > section") ?? sections[0];
    for (const section of sections) section.hidden = section !== chosen;
    for (const anchor of document.querySelectorAll("nav a")) {
      if (anchor.hash === `#${chosen.id}`) anchor.setAttribute("aria-current", "true");
      else anchor.removeAttribute("aria-current");
    }
    if (target?.localName === "tbody") opens.get(chosen)(target).then(() => target.scrollIntoView());
  };
  addEventListener("hashchange", show);
  show();
})();
