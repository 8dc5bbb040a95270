// Colours: those of the system, unless the reader has chosen. Runs before the page is drawn, so that nothing flashes.
"use strict";
(() => {
  const KEY = "hopwalk-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    // storage is switched off: a choice lasts as long as the view
  }
  const isDark = () => (chosen ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    document.documentElement.dataset.theme = isDark() ? "dark" : "light";
    document.getElementById("theme")?.setAttribute("aria-pressed", String(isDark()));
  };
  const toggle = () => {
    chosen = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // as above
    }
    show();
  };
  show();
  system.addEventListener("change", show);
  addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme")?.addEventListener("click", toggle);
  });
})();
