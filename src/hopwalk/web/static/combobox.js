// An editable combobox with suggestions (the ARIA pattern "list autocomplete with automatic selection").
import { element } from "./dom.js";

const PAUSE = 60; // milliseconds after a key before the request

/** `search(text, signal)` gives options `{ value, text, parts, key }`; `choose(option)` is called with the chosen option. */
export class Combobox {
  constructor(input, { search, choose, opensEmpty = false }) {
    this.input = input;
    this.list = document.getElementById(input.getAttribute("aria-controls"));
    this.search = search;
    this.choose = choose;
    this.opensEmpty = opensEmpty;
    this.key = null; // of the chosen option; null while the text is typed
    this.options = [];
    this.active = -1;
    input.addEventListener("input", () => this.typed());
    input.addEventListener("keydown", (event) => this.pressed(event));
    input.addEventListener("focus", () => this.opensEmpty && !this.input.value && this.refresh());
    input.addEventListener("click", () => !this.isOpen && (this.opensEmpty || this.input.value) && this.refresh());
    input.addEventListener("blur", () => this.close());
    this.list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    this.list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.take(Number(option.dataset.place));
    });
  }

  get isOpen() {
    return !this.list.hidden;
  }

  /** The value of the field: the key of the chosen option, else the typed text. */
  get value() {
    return this.key ?? this.input.value.trim();
  }

  set(key, text) {
    this.key = key || null;
    this.input.value = text ?? key ?? "";
    this.close();
  }

  /** As if the text were typed now. */
  type(text) {
    this.input.value = text;
    this.typed();
  }

  typed() {
    this.key = null;
    clearTimeout(this.timer);
    if (!this.input.value.trim() && !this.opensEmpty) return this.close();
    this.timer = setTimeout(() => this.refresh(), PAUSE);
  }

  async refresh() {
    this.request?.abort();
    const request = (this.request = new AbortController());
    const text = this.key === null ? this.input.value.trim() : ""; // a filled field lists all options
    try {
      const options = await this.search(text, request.signal);
      if (!request.signal.aborted && document.activeElement === this.input) this.show(options, text);
    } catch (error) {
      if (error.name !== "AbortError") this.close(); // submitting the query will report the problem
    }
  }

  show(options, text) {
    this.options = options;
    this.list.replaceChildren(
      ...options.map((option, place) => {
        const item = element("li", "", ...option.parts);
        item.id = `${this.list.id}-${place}`;
        item.dataset.place = String(place);
        item.setAttribute("role", "option");
        return item;
      }),
    );
    if (!options.length) this.list.append(element("li", "none", "No match."));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.activate(text && options.length ? 0 : -1);
  }

  close() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.activate(-1);
  }

  activate(place) {
    this.active = place;
    [...this.list.querySelectorAll("[role=option]")].forEach((item, row) => item.setAttribute("aria-selected", String(row === place)));
    const item = place >= 0 ? this.list.children[place] : null;
    if (item) {
      this.input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else {
      this.input.removeAttribute("aria-activedescendant");
    }
  }

  take(place) {
    const option = this.options[place];
    if (!option) return;
    this.set(option.key, option.text);
    this.choose(option);
  }

  pressed(event) {
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      if (!this.isOpen) return void this.refresh();
      const count = this.options.length;
      if (count) this.activate((this.active + (key === "ArrowDown" ? 1 : this.active < 0 ? 0 : -1) + count) % count);
    } else if (key === "Enter" && this.isOpen && this.active >= 0) {
      event.preventDefault();
      this.take(this.active);
    } else if (key === "Tab" && this.isOpen && this.active >= 0) {
      const option = this.options[this.active];
      this.set(option.key, option.text);
    } else if (key === "Escape") {
      if (this.isOpen) event.preventDefault();
      this.isOpen ? this.close() : this.set("", "");
    }
  }
}
