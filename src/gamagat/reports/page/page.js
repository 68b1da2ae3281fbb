"use strict";
// Without this script all examples are shown and nothing is missing but the choice among them.
for (const form of document.querySelectorAll("form.filters")) {
  const items = [...document.getElementById(form.dataset.gallery).children];
  const said = form.querySelector("output");
  const show = () => {
    const shown = items.filter((item) => {
      const fits = [...form.querySelectorAll("select")].every(
        (choice) => choice.value === "" || item.dataset[choice.name] === choice.value);
      item.hidden = !fits;
      return fits;
    });
    said.textContent = `${shown.length} of ${items.length} examples shown`;
  };
  form.hidden = false;
  form.addEventListener("change", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(show));
  show();
}
// What is folded on the screen must not be missing on paper.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const part of folded) part.open = true;
});
addEventListener("afterprint", () => {
  for (const part of folded) part.open = false;
});
