// Filters and pictures of the series.
(() => {
  const make = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const series = document.querySelector(".series");
  const articles = [...series.querySelectorAll("article")];

  // Pictures are shown as soon as they come near the window.
  const draw = async (article) => {
    const place = article.querySelector(".place");
    if (place.dataset.drawn) return;
    place.dataset.drawn = "yes";
    place.innerHTML = await unpacked(series, Number(article.id.slice(1)));
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
