"use strict";
// Without this script all examples are shown and nothing is missing but the choice among them.
const STEP = 24;
for (const form of document.querySelectorAll("form.filters")) {
  const gallery = document.getElementById(form.dataset.gallery);
  const items = [...gallery.children], more = gallery.nextElementSibling;
  const button = more.querySelector("button"), said = form.querySelector("output");
  let most = STEP, fitting = items;
  const show = () => {
    const choices = [...form.querySelectorAll("select")].filter((choice) => choice.value !== "");
    fitting = items.filter((item) => choices.every((choice) => item.dataset[choice.name] === choice.value));
    for (const item of items) item.hidden = true;
    fitting.forEach((item, place) => {
      item.hidden = false;
      item.classList.toggle("later", place >= most); // a style for the screen alone: paper has room for all
    });
    const left = fitting.length - most;
    more.hidden = left <= 0;
    button.textContent = `Show ${Math.min(STEP, left)} more`;
    const whole = choices.length ? `that fit (${items.length} in all)` : "";
    said.textContent = `${Math.min(most, fitting.length)} of ${fitting.length} examples ${whole} shown`.replace("  ", " ");
  };
  const anew = () => { most = STEP; show(); };
  form.hidden = false;
  form.addEventListener("change", anew);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(anew));
  button.addEventListener("click", () => {
    const next = fitting[most];
    most += STEP;
    show();
    if (more.hidden) { // with the button the focus would be lost
      next.tabIndex = -1;
      next.focus();
    }
  });
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
