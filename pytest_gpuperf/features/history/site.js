// Filters, pictures and tables of the series. All texts become text nodes, so none of them is markup.
(() => {
  const make = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const articles = [...document.querySelectorAll(".series > article")];
  const packs = [...document.querySelectorAll("script.packed")];
  const size = Number(document.querySelector(".series").dataset.pack);

  const unpack = async (script) => {
    const bytes = Uint8Array.from(atob(script.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  const unpacked = new Map();
  const dataOf = async (article) => {
    const index = Number(article.id.slice(1));
    const script = packs[Math.floor(index / size)];
    if (!unpacked.has(script)) unpacked.set(script, unpack(script));
    return (await unpacked.get(script))[index % size];
  };

  // Pictures are drawn as soon as they come near the window.
  const draw = async (article) => {
    const place = article.querySelector(".place");
    if (place.dataset.drawn) return;
    place.dataset.drawn = "yes";
    place.append(drawPicture((await dataOf(article)).picture));
  };
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        near.unobserve(entry.target);
        draw(entry.target);
      }
    },
    { rootMargin: "400px" },
  );
  articles.forEach((article) => near.observe(article));
  addEventListener("beforeprint", () => articles.filter((article) => !article.hidden).forEach(draw));

  const linked = (address, text) =>
    /^https?:\/\//.test(address) ? make("a", { href: address, rel: "noreferrer" }, text) : text;
  const runsOf = (name, { runs }) => {
    const titles = ["commit", "run", "time", "card"];
    const head = titles.map((title) => make("th", { scope: "col" }, title));
    const rows = runs.map(({ commit, address, run, row, job, time, card }) =>
      make(
        "tr",
        {},
        make("td", {}, linked(address, commit)),
        make("td", {}, job ? linked(job, run) : make("a", { href: `#${row}` }, run)),
        make("td", { className: "number" }, time),
        make("td", {}, card),
      ),
    );
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
    const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: `Runs of ${name}` }, table);
    return scroll;
  };
  for (const article of articles) {
    const runs = article.querySelector("details");
    runs.addEventListener("toggle", async () => {
      if (runs.open && runs.children.length === 1) runs.append(runsOf(article.querySelector("h3").textContent, await dataOf(article)));
    });
  }

  // Filters: by GPU model, suite, words that all have to be in the name, and changes.
  const choice = (name, key) => {
    const values = [...new Set(articles.map((article) => article.dataset[key]))].sort();
    const options = values.map((value) => make("option", { value }, value));
    return make("select", { ariaLabel: name }, make("option", { value: "" }, `All ${name}`), ...options);
  };
  const gpu = choice("GPU models", "gpu");
  const suite = choice("suites", "suite");
  const words = make("input", { type: "search", placeholder: "Filter by name", ariaLabel: "Filter the tests" });
  const changed = make("input", { type: "checkbox" });
  const status = make("p", { className: "status" });
  status.setAttribute("role", "status");
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const article of articles) {
      const { gpu: model, suite: file, changes } = article.dataset;
      const name = article.querySelector("h3").textContent.toLowerCase();
      const fits = wanted.every((word) => name.includes(word)) && (!changed.checked || Number(changes) > 0);
      article.hidden = !(fits && [model, ""].includes(gpu.value) && [file, ""].includes(suite.value));
      shown += Number(!article.hidden);
    }
    for (const range of document.querySelectorAll(".range")) {
      range.hidden = ![range.dataset.gpu, ""].includes(gpu.value);
    }
    status.textContent = `${shown} of ${articles.length} shown`;
  };
  for (const control of [gpu, suite, words, changed]) control.addEventListener("input", filter);
  const label = make("label", {}, changed, "with changes only");
  document.querySelector(".series").before(make("div", { className: "controls" }, gpu, suite, words, label, status));
  filter();

  // A link to a series shows it even if a filter hides it.
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target?.hidden) return;
    gpu.value = suite.value = words.value = "";
    changed.checked = false;
    filter();
    target.scrollIntoView();
  });
})();
